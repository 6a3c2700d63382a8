//! The turn machine: one input in, effects out. Total: an input that does not fit is refused or
//! ignored, never a panic.

mod attempt;
mod cancel;
mod commit;
mod inbox;
mod limits;
mod tools;
mod turn;

use std::sync::Arc;

use reins_schema::{
    CancelCause, Draft, Event, Failure, Message, MessageId, Payload, SourceRange, TurnEndReason,
};

use crate::face::{Effect, Input, Limits, Op, Refusal, Status, Time};
use crate::fold::{Fold, FoldError};
use crate::sabotage::Sabotage;

use attempt::Attempt;
use tools::Tools;
pub(crate) use tools::result_payload;

/// The core of one live session.
pub struct Core {
    pub(crate) fold: Fold,
    pub(crate) limits: Limits,
    pub(crate) status: Status,
    pub(crate) turn: Option<Turn>,
    opened: bool,
    /// Input that wants a turn arrived since the last claim or cancel.
    wake: bool,
    dead: Option<String>,
    next_op: Op,
    now: Time,
    out: Vec<Effect>,
    #[cfg(feature = "sabotage")]
    sabotage: Option<Sabotage>,
}

/// What is in memory of the open turn; all else is in the fold.
pub(crate) struct Turn {
    pub(crate) number: u64,
    pub(crate) phase: Phase,
    /// Waiting input that is reserved for the coming step.
    pub(crate) claimed: Vec<MessageId>,
    /// The core's own addition to the coming step.
    notice: Option<Message>,
    /// The last step owes nothing, and this is how the turn then ends.
    ready: Option<TurnEndReason>,
    /// The one continuation after a cut answer is used.
    continued: bool,
    /// The turn is being wound down, and this is how it will have ended.
    pub(crate) closing: Option<TurnEndReason>,
    cancelled: Option<CancelCause>,
    steps_limit: Option<u64>,
    calls_limit: Option<u64>,
    calls_made: u64,
    pub(crate) clock: Clock,
}

/// The time limit of a turn.
#[derive(Clone, Copy)]
pub(crate) enum Clock {
    Off,
    Running { op: Op, limit_ms: u64 },
    Asking { op: Op, limit_ms: u64 },
}

/// What the turn waits for.
pub(crate) enum Phase {
    /// Between two waits; never seen from outside.
    Between,
    StepLimit {
        op: Op,
    },
    Assembling {
        op: Op,
    },
    PreStep {
        op: Op,
    },
    Configuring {
        op: Op,
        attempt: u32,
    },
    Rendering {
        op: Op,
        attempt: u32,
        generation: u64,
    },
    Sending {
        op: Op,
        attempt: u32,
    },
    Streaming(Box<Attempt>),
    Failed {
        op: Op,
        attempt: u32,
        failure: Failure,
    },
    RetryWait {
        op: Op,
        attempt: u32,
    },
    Tools(Box<Tools>),
    Stopping {
        op: Op,
    },
    /// `turn/end` is written; `follow` = waiting input may start the next turn.
    Ending {
        op: Op,
        follow: bool,
    },
}

impl Core {
    /// The core of a log that was folded. The first input is `Opened`.
    pub fn new(fold: Fold, limits: Limits) -> Self {
        Self {
            fold,
            limits,
            status: Status::Idle,
            turn: None,
            opened: false,
            wake: false,
            dead: None,
            next_op: 1,
            now: 0,
            out: Vec::new(),
            #[cfg(feature = "sabotage")]
            sabotage: None,
        }
    }

    /// Breaks one rule on purpose.
    #[cfg(feature = "sabotage")]
    pub fn sabotage(&mut self, rule: Sabotage) {
        self.sabotage = Some(rule);
    }

    #[cfg(feature = "sabotage")]
    pub(crate) fn broken(&self, rule: Sabotage) -> bool {
        self.sabotage == Some(rule)
    }

    #[cfg(not(feature = "sabotage"))]
    #[expect(clippy::unused_self, reason = "the same call in both builds")]
    pub(crate) fn broken(&self, _rule: Sabotage) -> bool {
        false
    }

    /// Takes one input and says what to do now.
    pub fn step(&mut self, now: Time, input: Input) -> Vec<Effect> {
        self.now = now;
        match input {
            Input::Opened { recovered } => self.open(recovered),
            Input::Send { message, target, wake } => self.send(message, target, wake),
            Input::EditQueue(edit) => self.edit(edit),
            Input::Commit { ticket, draft } => self.commit(ticket, draft),
            Input::UseLimits(limits) => self.use_limits(limits),
            Input::UseTypes(known) => self.fold.use_types(known),
            _ if !self.opened || self.status == Status::Dead => {}
            input => self.advance(input),
        }
        if cfg!(debug_assertions)
            && let Err(broken) = crate::invariants::check_core(self)
        {
            panic!("invariant: {broken}");
        }
        std::mem::take(&mut self.out)
    }

    fn advance(&mut self, input: Input) {
        match input {
            Input::Cancel { cause, keep_inbox } => self.cancel(cause, keep_inbox),
            Input::Assembled { op, result } => self.assembled(op, result),
            Input::PreStepDecided { op, decision } => self.pre_step_decided(op, decision),
            Input::ConfigDecided { op, result } => self.config_decided(op, result),
            Input::Rendered { op, result } => self.rendered(op, result),
            Input::Flushed { op, result } => self.flushed(op, result),
            Input::Chunk { op, runs } => self.chunk(op, runs),
            Input::AttemptEnded { op, outcome } => self.attempt_ended(op, outcome),
            Input::RetryDecided { op, decision } => self.retry_decided(op, decision),
            Input::ToolPrepared { op, decision } => self.tool_prepared(op, decision),
            Input::ToolFinished { op, outcome } => self.tool_finished(op, outcome),
            Input::StopDecided { op } => self.stop_decided(op),
            Input::LimitAnswered { op, answer } => self.limit_answered(op, answer),
            Input::Woke { op } => self.woke(op),
            Input::StoreFailed { message } => self.die(&message),
            Input::Opened { .. } | Input::Send { .. } => {}
            Input::EditQueue(_) | Input::Commit { .. } => {}
            Input::UseLimits(_) | Input::UseTypes(_) => {}
        }
    }

    /// The fold of everything that is committed.
    pub fn fold(&self) -> &Fold {
        &self.fold
    }

    /// What people see of the agent.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Why the agent is dead, for people.
    pub fn dead(&self) -> Option<&str> {
        self.dead.as_deref()
    }

    /// The number of the open turn. It stays open until its end is on disk.
    pub fn turn(&self) -> Option<u64> {
        self.turn.as_ref().map(|turn| turn.number)
    }

    /// The number of the open step.
    pub fn step_number(&self) -> Option<u64> {
        self.fold.open_step().map(|step| step.number())
    }

    /// Input that the running turn has reserved for its coming step.
    pub fn claimed(&self) -> &[MessageId] {
        self.turn.as_ref().map_or(&[], |turn| &turn.claimed)
    }

    fn op(&mut self) -> Op {
        let op = self.next_op;
        self.next_op += 1;
        op
    }

    fn emit(&mut self, effect: Effect) {
        if self.status != Status::Dead {
            self.out.push(effect);
        }
    }

    /// Answers stand even when the agent is dead.
    fn answer(&mut self, effect: Effect) {
        self.out.push(effect);
    }

    fn set_status(&mut self, status: Status) {
        if self.status != status && self.status != Status::Dead {
            self.emit(Effect::Status(status));
            self.status = status;
        }
    }

    fn set_phase(&mut self, phase: Phase) {
        if let Some(turn) = &mut self.turn {
            turn.phase = phase;
        }
    }

    /// Why nothing can be written now.
    fn closed(&self) -> Result<(), Refusal> {
        if self.status == Status::Dead {
            let reason = self.dead.as_deref().unwrap_or_default();
            return Err(Refusal(format!("the session ended: {reason}; open it again")));
        }
        if !self.opened {
            return Err(Refusal("the session is not open yet; try again".to_owned()));
        }
        match self.fold.read_only() {
            Some(reason) => Err(Refusal(format!("the session is read-only: {reason}"))),
            None => Ok(()),
        }
    }

    /// Appends one of the core's own events. Returns its number.
    pub(crate) fn append(&mut self, payload: impl Into<Payload>, sources: Vec<SourceRange>) -> u64 {
        if self.status == Status::Dead {
            return self.fold.next_seq();
        }
        let payload = payload.into();
        let drafted = payload.draft(sources).map_err(|problem| problem.to_string());
        let appended = drafted.and_then(|d| self.append_draft(d).map_err(|e| e.to_string()));
        match appended {
            Ok(seq) => seq,
            Err(problem) => {
                // Our own bug. Writing on would make the log contradict itself.
                self.die(&format!("an own event was refused: {problem}"));
                debug_assert!(false, "an own event was refused: {problem}");
                self.fold.next_seq()
            }
        }
    }

    fn append_draft(&mut self, body: Draft) -> Result<u64, FoldError> {
        let seq = self.fold.next_seq();
        let event = Event { seq, time: self.now, body };
        self.fold.apply(&event)?;
        self.emit(Effect::Append(Arc::new(event)));
        Ok(seq)
    }

    /// An unused id for a message that the core makes at this place of the log.
    fn made_id(&self) -> MessageId {
        let mut text = format!("{}/{}", self.fold.header().id, self.fold.next_seq());
        while self.fold.is_used(&MessageId::new(text.as_str())) {
            text.push('+');
        }
        MessageId::new(text)
    }

    /// The store failed: what runs is stopped, nothing is appended any more.
    fn die(&mut self, reason: &str) {
        if self.status == Status::Dead {
            return;
        }
        self.dead = Some(reason.to_owned());
        for effect in self.work() {
            self.emit(effect);
        }
        self.turn = None;
        self.emit(Effect::Status(Status::Dead));
        self.status = Status::Dead;
    }

    fn flushed(&mut self, op: Op, result: Result<(), String>) {
        let awaited = match self.turn.as_ref().map(|turn| &turn.phase) {
            Some(Phase::Sending { op: flush, .. } | Phase::Ending { op: flush, .. }) => {
                *flush == op
            }
            Some(Phase::Tools(tools)) => tools.flushes(op),
            _ => false,
        };
        match result {
            _ if !awaited => {}
            Err(problem) => {
                match self.turn.as_mut().map(|turn| &mut turn.phase) {
                    Some(Phase::Tools(tools)) => tools.lose_flush(),
                    Some(phase) => *phase = Phase::Between,
                    None => {}
                }
                self.die(&problem);
            }
            Ok(()) => match self.turn.as_ref().map(|turn| &turn.phase) {
                Some(Phase::Sending { attempt, .. }) => self.start_attempt(*attempt),
                Some(Phase::Ending { .. }) => self.ended(),
                Some(Phase::Tools(_)) => self.batch_flushed(),
                _ => {}
            },
        }
    }

    fn woke(&mut self, op: Op) {
        let Some(turn) = &self.turn else { return };
        match turn.phase {
            Phase::RetryWait { op: awaited, attempt } if awaited == op => {
                self.retry_started(attempt);
            }
            _ => self.time_is_up(op),
        }
    }

    /// How to stop everything that is outstanding.
    fn work(&self) -> Vec<Effect> {
        let Some(turn) = &self.turn else { return Vec::new() };
        let mut stops = match &turn.phase {
            Phase::Between => Vec::new(),
            Phase::StepLimit { op }
            | Phase::Assembling { op }
            | Phase::PreStep { op }
            | Phase::Configuring { op, .. }
            | Phase::Rendering { op, .. }
            | Phase::Sending { op, .. }
            | Phase::Failed { op, .. }
            | Phase::RetryWait { op, .. }
            | Phase::Stopping { op }
            | Phase::Ending { op, .. } => vec![Effect::Abandon { op: *op }],
            Phase::Streaming(attempt) => vec![Effect::StopAttempt { op: attempt.op }],
            Phase::Tools(tools) => tools.work(),
        };
        match turn.clock {
            Clock::Off => {}
            Clock::Running { op, .. } | Clock::Asking { op, .. } => {
                stops.push(Effect::Abandon { op })
            }
        }
        stops
    }
}
