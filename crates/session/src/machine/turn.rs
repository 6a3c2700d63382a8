//! From a wake to `turn/end`: claims, pre-step, the order of steps.

use std::collections::HashSet;

use reins_schema::{
    Failure, FailureCode, InboxSpliced, InboxTarget, Message, MessageId, SessionRecovered,
    SpliceOutcome, StepEnd, StepStart, TurnEnd, TurnEndReason, TurnStart, UserMessage,
};

use super::{Clock, Core, Phase, Turn};
use crate::face::{Barrier, Effect, Entering, Op, PreStepDecision, Status};
use crate::fold::input_problem;
use crate::notices;
use crate::sabotage::Sabotage;

impl Core {
    pub(super) fn open(&mut self, recovered: Vec<SessionRecovered>) {
        if self.opened || self.status == Status::Dead {
            return;
        }
        self.opened = true;
        if self.fold.read_only().is_none() {
            for recovered in recovered {
                self.append(recovered, Vec::new());
            }
            self.repair();
        }
        self.emit(Effect::Status(self.status));
    }

    pub(super) fn begin_turn(&mut self) {
        self.set_status(Status::Running);
        let number = self.fold.last_turn() + 1;
        self.append(TurnStart { turn: number }, Vec::new());
        if self.status == Status::Dead {
            return;
        }
        self.turn = Some(Turn {
            number,
            phase: Phase::Between,
            claimed: Vec::new(),
            notice: None,
            ready: None,
            continued: false,
            closing: None,
            cancelled: None,
            steps_limit: self.limits.turn.steps,
            calls_limit: self.limits.turn.tool_calls,
            calls_made: 0,
            clock: Clock::Off,
        });
        self.start_clock(self.limits.turn.time_ms);
        self.begin_step();
    }

    pub(super) fn steps(&self) -> u64 {
        self.fold.open_turn().map_or(0, |turn| turn.steps())
    }

    /// The turn's number and the number of the open step, or of the one to come.
    pub(super) fn place(&self) -> (u64, u64) {
        let step = self.step_number().unwrap_or_else(|| self.steps() + 1);
        (self.fold.last_turn(), step)
    }

    pub(super) fn begin_step(&mut self) {
        let (number, step) = self.place();
        let Some(turn) = &self.turn else { return };
        if let Some(limit) = turn.steps_limit.filter(|limit| step > *limit) {
            let op = self.reach_limit("steps", limit);
            return self.set_phase(Phase::StepLimit { op });
        }
        self.claim(step == 1);
        let op = self.op();
        self.set_phase(Phase::Assembling { op });
        self.emit(Effect::Assemble { op, turn: number, step });
    }

    /// Reserves waiting input: all of next-step, and one prompt at a turn's first step.
    fn claim(&mut self, first: bool) {
        let claimed = self.fold.inbox().claim(first);
        if let Some(turn) = &mut self.turn {
            turn.claimed = claimed;
            self.wake = false;
        }
    }

    pub(super) fn assembled(&mut self, op: Op, result: Result<Option<Message>, Failure>) {
        let Some(turn) = &self.turn else { return };
        if !matches!(turn.phase, Phase::Assembling { op: awaited } if awaited == op) {
            return;
        }
        let facts = match result {
            Ok(facts) => facts,
            Err(failure) => return self.fail(failure),
        };
        let inbox = self.fold.inbox();
        let waiting = turn.claimed.iter().filter_map(|id| inbox.get(id));
        let claimed = turn.notice.iter().chain(waiting).cloned().collect();
        let (number, step) = self.place();
        let op = self.op();
        self.set_phase(Phase::PreStep { op });
        self.emit(Effect::AskPreStep { op, turn: number, step, claimed, facts });
    }

    pub(super) fn pre_step_decided(&mut self, op: Op, decision: PreStepDecision) {
        let Some(turn) = &mut self.turn else { return };
        if !matches!(turn.phase, Phase::PreStep { op: awaited } if awaited == op) {
            return;
        }
        let notice = turn.notice.take().map(|notice| notice.id);
        match decision {
            PreStepDecision::Reject { reason } => {
                let claimed = std::mem::take(&mut turn.claimed);
                self.remove_input(&claimed, SpliceOutcome::Rejected);
                self.finish_turn(TurnEndReason::Blocked { reason });
            }
            PreStepDecision::Enter(mut entries) => {
                for entry in &mut entries {
                    entry.inbox.retain(|id| Some(id) != notice.as_ref());
                }
                match self.check_entries(&entries) {
                    Ok(()) => self.enter(entries),
                    Err(problem) => {
                        let code = FailureCode::Other("INVALID_ENTRY".to_owned());
                        self.fail(Failure::new(code, problem));
                    }
                }
            }
        }
    }

    fn check_entries(&self, entries: &[Entering]) -> Result<(), String> {
        let claimed: HashSet<_> = self.claimed().iter().collect();
        let mut taken = HashSet::new();
        let mut ids = HashSet::new();
        for entry in entries {
            let id = &entry.message.id;
            if let Some(problem) = input_problem(&entry.message) {
                return Err(format!("a pre-step layer lets message `{id}` enter: {problem}"));
            }
            if !ids.insert(id) || (self.fold.is_used(id) && !entry.inbox.contains(id)) {
                return Err(format!("a pre-step layer uses the message id `{id}` again"));
            }
            let stray = entry.inbox.iter().find(|id| !claimed.contains(id) || !taken.insert(*id));
            if let Some(stray) = stray {
                return Err(format!("a pre-step layer takes out `{stray}`, which is not claimed"));
            }
        }
        Ok(())
    }

    fn enter(&mut self, entries: Vec<Entering>) {
        let first = self.steps() == 0;
        let Some(turn) = &mut self.turn else { return };
        let mut left = std::mem::take(&mut turn.claimed);
        let ready = turn.ready.take();
        if entries.is_empty() {
            if let Some(reason) = ready {
                self.remove_input(&left, SpliceOutcome::Dropped);
                return self.finish_turn(reason);
            }
            if first {
                self.remove_input(&left, SpliceOutcome::Dropped);
                self.finish_turn(TurnEndReason::Completed);
                // An empty first proposal stops the driver: other prompts stay parked.
                return self.park();
            }
        }
        let (number, step) = self.place();
        self.append(StepStart { turn: number, step }, Vec::new());
        let taken: HashSet<MessageId> =
            entries.iter().flat_map(|entry| entry.inbox.iter().cloned()).collect();
        left.retain(|id| !taken.contains(id));
        for mut entry in entries {
            if self.broken(Sabotage::DoubleConsume) && !entry.inbox.is_empty() {
                entry.inbox.clear();
                entry.message.id = self.made_id();
            }
            let entered = UserMessage { message: entry.message, inbox: entry.inbox };
            self.append(entered, Vec::new());
        }
        self.remove_input(&left, SpliceOutcome::Dropped);
        self.begin_attempt(1);
    }

    /// Takes input out without a message; one splice for each queue.
    pub(super) fn remove_input(&mut self, ids: &[MessageId], outcome: SpliceOutcome) {
        for target in [InboxTarget::NextStep, InboxTarget::NextTurn] {
            let here = |id: &&MessageId| {
                self.fold.inbox().find(id).is_some_and(|(queue, _)| queue == target)
            };
            let removed: Vec<_> = ids.iter().filter(here).cloned().collect();
            if !removed.is_empty() {
                let outcome = Some(outcome);
                let inserted = Vec::new();
                let splice = InboxSpliced { target, at: None, inserted, removed, outcome };
                self.append(splice, Vec::new());
            }
        }
    }

    pub(super) fn close_step(&mut self) -> u64 {
        let (turn, step) = self.place();
        self.append(StepEnd { turn, step }, Vec::new())
    }

    /// The step is done; `ready` says how the turn ends when nothing more is owed.
    pub(super) fn end_step(&mut self, ready: Option<TurnEndReason>) {
        self.close_step();
        let number = self.fold.last_turn();
        let Some(turn) = &mut self.turn else { return };
        let owes = ready.is_none();
        turn.ready = ready;
        if owes || !self.fold.inbox().next_step().is_empty() {
            return self.begin_step();
        }
        let op = self.op();
        self.set_phase(Phase::Stopping { op });
        self.emit(Effect::AskStop { op, turn: number });
    }

    /// A cut answer: one more step with a notice, or the end.
    pub(super) fn cut(&mut self) {
        let seq = self.close_step();
        let mut id = format!("{}/{seq}", self.fold.header().id);
        while self.fold.is_used(&MessageId::new(id.as_str())) {
            id.push('+');
        }
        let Some(turn) = &mut self.turn else { return };
        if turn.continued {
            return self.finish_turn(TurnEndReason::MaxTokens);
        }
        turn.continued = true;
        turn.ready = Some(TurnEndReason::MaxTokens);
        turn.notice = Some(Message::notice(MessageId::new(id), notices::PLUGIN, notices::CUT));
        self.begin_step();
    }

    pub(super) fn stop_decided(&mut self, op: Op) {
        let Some(turn) = &mut self.turn else { return };
        if !matches!(turn.phase, Phase::Stopping { op: awaited } if awaited == op) {
            return;
        }
        if !self.fold.inbox().next_step().is_empty() {
            return self.begin_step();
        }
        let reason = turn.ready.take().unwrap_or(TurnEndReason::Completed);
        self.finish_turn(reason);
    }

    /// Ends the turn with a failure, after its open step. A reservation is released.
    pub(super) fn fail(&mut self, failure: Failure) {
        if self.step_number().is_some() {
            self.close_step();
        }
        self.finish_turn(TurnEndReason::Error { failure });
    }

    /// Writes `turn/end` and waits until it is on disk.
    pub(super) fn finish_turn(&mut self, reason: TurnEndReason) {
        let number = self.fold.last_turn();
        let stepped = self.steps() > 0;
        let endless = self.broken(Sabotage::FollowNothing);
        let Some(turn) = &mut self.turn else { return };
        turn.claimed.clear();
        turn.notice = None;
        let follow = match reason {
            TurnEndReason::Completed | TurnEndReason::MaxTokens => turn.cancelled.is_none(),
            // Without a step its prompt still waits, and the next turn would end in the same way.
            TurnEndReason::Limit { .. } => turn.cancelled.is_none() && (stepped || endless),
            TurnEndReason::Blocked { .. } | TurnEndReason::Error { .. } => {
                self.wake = false;
                false
            }
            TurnEndReason::Aborted { .. } | TurnEndReason::Interrupted => false,
        };
        let by_user =
            matches!(&reason, TurnEndReason::Aborted { cause: reins_schema::CancelCause::User });
        self.stop_clock();
        self.append(TurnEnd { turn: number, reason }, Vec::new());
        if by_user && stepped {
            let notice = Message::notice(self.made_id(), notices::PLUGIN, notices::INTERRUPTED);
            self.put_in(InboxTarget::NextStep, vec![notice]);
        }
        let op = self.op();
        self.set_phase(Phase::Ending { op, follow });
        self.emit(Effect::Flush { op, point: Barrier::TurnEnd });
    }

    /// The ended turn is followed by none until the next wake.
    fn park(&mut self) {
        self.wake = false;
        if let Some(Turn { phase: Phase::Ending { follow, .. }, .. }) = &mut self.turn {
            *follow = false;
        }
    }

    /// `turn/end` is on disk: the next turn, or idle.
    pub(super) fn ended(&mut self) {
        let Some(turn) = self.turn.take() else { return };
        let Phase::Ending { follow, .. } = turn.phase else { return };
        let inbox = self.fold.inbox();
        let prompts = !inbox.next_turn().is_empty();
        let steers = !inbox.next_step().is_empty() && turn.cancelled.is_none();
        let lost = self.broken(Sabotage::LoseWake);
        let woken = self.wake && (prompts || steers) && !lost;
        self.wake = false;
        if woken || (follow && prompts) {
            self.begin_turn();
        } else {
            self.set_status(Status::Idle);
        }
    }

    /// Appends the core's own additions to a queue.
    pub(super) fn put_in(&mut self, target: InboxTarget, inserted: Vec<Message>) {
        if !inserted.is_empty() {
            let removed = Vec::new();
            let splice = InboxSpliced { target, at: None, inserted, removed, outcome: None };
            self.append(splice, Vec::new());
        }
    }
}
