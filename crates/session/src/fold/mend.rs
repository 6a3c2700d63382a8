//! Logs with damage: numbers that are lost, and events that do not fit what is left.
//!
//! What an event names is where the session was when it was written. After a loss the fold brings
//! itself there: it ends what is older and opens what was begun in the gap. Open calls of what ends
//! get results that say what is not known; they stand at numbers whose events are lost or set
//! aside, so that the surface is what a model may see at any time.

use std::collections::BTreeSet;

use reins_schema::{
    AssistantMessage, CallId, Event, InboxSpliced, LlmRetry, LlmRetryStarted, MessageId, Payload,
    Purpose, RequestSent, SessionRecovered, SourceRange, SurfaceOp, ToolError, ToolResult,
    UserMessage,
};
use serde::{Deserialize, Serialize};

use super::numbers::Numbers;
use super::surface::result_message;
use super::turns::{OpenStep, OpenTurn};
use super::{Fold, FoldError, LAST_NUMBER, check_sources};
use crate::notices;

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It is part of the fold, maybe without what refers to lost events.
    Folded,
    /// It has its number and means nothing, because of this.
    Aside(FoldError),
}

/// Numbers that no `session/recovered` in the log names yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Untold {
    /// Of events that are lost.
    pub lost: Vec<SourceRange>,
    /// Of events that are there and mean nothing.
    pub aside: Vec<SourceRange>,
}

/// What is missing in a log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Loss {
    /// Untold.
    lost: Numbers,
    /// Untold.
    aside: Numbers,
    /// Numbers of neither an event that is folded nor a made result.
    free: Numbers,
    /// Input that waited when events were lost, until a `session/recovered` is written: it may have
    /// entered in one of them.
    doubtful: BTreeSet<MessageId>,
    /// How many lost events are not accounted for by what had to have happened in between.
    unexplained: u64,
    /// Something is missing, told or not.
    any: bool,
    /// Since the last request of a turn something was found missing.
    pub(super) since_sent: bool,
}

impl Loss {
    pub(super) fn tell(&mut self, told: &SessionRecovered) {
        self.since_sent = true;
        self.doubtful.clear();
        for range in &told.lost {
            let (first, last) = range.bounds();
            self.lost.remove(first, last);
        }
        for range in &told.aside {
            let (first, last) = range.bounds();
            self.aside.remove(first, last);
        }
    }

    pub(super) fn has_doubts(&self) -> bool {
        !self.doubtful.is_empty()
    }

    pub(super) fn doubts(&self, id: &MessageId) -> bool {
        self.doubtful.contains(id)
    }

    /// One of the lost events must have been of this kind.
    fn explain(&mut self) {
        self.unexplained = self.unexplained.saturating_sub(1);
    }

    pub(super) fn unexplained(&self) -> u64 {
        self.unexplained
    }

    /// A number for input whose own event is lost, unless all lost events are accounted for.
    pub(super) fn take_unexplained(&mut self, seq: u64) -> Option<u64> {
        self.unexplained = self.unexplained.checked_sub(1)?;
        self.free.take_after(seq)
    }

    /// A number for a message whose own event is lost, best one after `seq`.
    fn take_free(&mut self, seq: u64) -> Option<u64> {
        self.free.take_after(seq)
    }

    /// Whether all of it is below `end`.
    pub(super) fn holds(&self, end: u64) -> bool {
        [&self.lost, &self.aside, &self.free].into_iter().all(|numbers| numbers.holds(end))
    }

    fn found(&mut self, first: u64, last: u64) {
        self.any = true;
        self.since_sent = true;
        self.free.add(first, last);
    }
}

impl Fold {
    /// The events before `upto` that have not been applied are lost.
    pub fn lose(&mut self, upto: u64) {
        let upto = upto.min(LAST_NUMBER);
        if upto <= self.next_seq {
            return;
        }
        self.loss.found(self.next_seq, upto - 1);
        self.loss.lost.add(self.next_seq, upto - 1);
        self.loss.unexplained += upto - self.next_seq;
        self.next_seq = upto;
        let waiting = self.inbox.next_turn().iter().chain(self.inbox.next_step());
        self.loss.doubtful = waiting.map(|message| message.id.clone()).collect();
        if let Some(step) = self.step_mut() {
            step.lossy = true;
        }
    }

    /// Folds an event that may follow, also where it refers to what is lost; what does not fit all
    /// the same takes its number and nothing else.
    ///
    /// # Errors
    /// [`FoldError::Order`]: the event has another number; nothing is changed.
    pub fn apply_or_set_aside(&mut self, event: &Event) -> Result<Applied, FoldError> {
        if event.seq == self.next_seq {
            self.look_for_unseen(event);
        }
        let problem = match self.apply(event) {
            Ok(()) => return Ok(Applied::Folded),
            Err(problem @ FoldError::Order { .. }) => return Err(problem),
            Err(problem) => problem,
        };
        let folded =
            self.loss.any && matches!(problem, FoldError::Rule { .. }) && self.mend(event).is_ok();
        self.next_seq += 1;
        if folded {
            return Ok(Applied::Folded);
        }
        self.loss.found(event.seq, event.seq);
        self.loss.aside.add(event.seq, event.seq);
        Ok(Applied::Aside(problem))
    }

    /// What was found missing and no `session/recovered` names.
    pub fn untold(&self) -> Untold {
        Untold { lost: self.loss.lost.ranges(), aside: self.loss.aside.ranges() }
    }

    /// Whether events were found missing since the last request of a turn left.
    pub fn lost_since_sent(&self) -> bool {
        self.loss.since_sent
    }

    /// Brings the fold to where the event belongs, leaves out what refers to lost events, and folds
    /// the rest. What it could not fold may still have ended what is older.
    fn mend(&mut self, event: &Event) -> Result<(), String> {
        check_sources(event)?;
        let payload = Payload::read(&event.body).map_err(|problem| problem.to_string())?;
        if event.body.surface.is_some() != Payload::is_surface(&event.body.kind) {
            return Err("`surface` stands on other types".to_owned());
        }
        let replaces = match event.body.surface {
            Some(SurfaceOp::Replace(first, last)) => Some((first, last)),
            _ => None,
        };
        let seq = event.seq;
        let payload = match (payload, replaces) {
            (Payload::UserMessage(p), None) => Payload::from(self.mend_input(p)?),
            (Payload::UserMessage(p), Some(ends)) => return self.mend_replace(event, ends, p),
            (Payload::AssistantMessage(p), Some(ends)) => {
                return self.mend_summary(event, ends, p);
            }
            (Payload::ToolResult(p), Some((first, last))) => {
                return self.mend_pruned(event, (first, last), p);
            }
            (Payload::RequestHeader(p), _) => {
                self.request_header = Some(p);
                return Ok(());
            }
            (Payload::RequestContext(p), _) => {
                self.request_context = Some(p);
                return Ok(());
            }
            (Payload::InboxSpliced(p), _) => Payload::from(self.mend_splice(p)),
            (payload, _) => {
                self.make_way(seq, &payload)?;
                payload
            }
        };
        self.core(event, payload)
    }

    /// Opens what the event names, and ends what is older.
    fn make_way(&mut self, seq: u64, payload: &Payload) -> Result<(), String> {
        match payload {
            Payload::TurnStart(p) => {
                self.may_be_turn(seq, p.turn)?;
                self.leave_turn();
                self.turns.last = p.turn - 1;
                Ok(())
            }
            Payload::TurnEnd(p) => {
                self.enter_turn(seq, p.turn)?;
                self.leave_step();
                Ok(())
            }
            Payload::StepStart(p) => {
                let turn = self.enter_turn(seq, p.turn)?;
                may_be_step(seq, p.step, turn.steps)?;
                self.leave_step();
                if let Some(turn) = &mut self.turns.open {
                    turn.steps = p.step - 1;
                }
                Ok(())
            }
            Payload::StepEnd(p) => {
                self.enter_step(seq, p.turn, p.step)?;
                self.close_calls(usize::MAX);
                Ok(())
            }
            Payload::AssistantChunk(p) => self.enter_attempt(seq, (p.turn, p.step), p.attempt),
            Payload::AssistantAttempt(p) => self.enter_attempt(seq, (p.turn, p.step), p.attempt),
            Payload::AssistantMessage(p) => self.enter_attempt(seq, (p.turn, p.step), p.attempt),
            Payload::ToolCall(p) => self.find_call(seq, (p.turn, p.step), &p.call_id, false),
            Payload::ToolStart(p) => self.find_call(seq, (p.turn, p.step), &p.call_id, true),
            Payload::ToolResult(p) => self.find_result(seq, p),
            Payload::RequestSent(p) => self.before_sent(seq, p),
            Payload::LlmRetry(p) => self.before_retry(seq, p),
            Payload::LlmRetryStarted(p) => self.before_retry_started(seq, p),
            Payload::LimitReached(p) => self.enter_turn(seq, p.turn).map(drop),
            Payload::EndSeed(_) => {
                self.leave_turn();
                Ok(())
            }
            Payload::SessionRepaired(p) => {
                self.enter_turn(seq, p.turn)?;
                self.leave_turn();
                Ok(())
            }
            _ => Err("it does not say where it belongs".to_owned()),
        }
    }

    fn step_mut(&mut self) -> Option<&mut OpenStep> {
        self.turns.open.as_mut().and_then(|turn| turn.step.as_mut())
    }

    /// Each turn before took at least one event.
    fn may_be_turn(&self, seq: u64, turn: u64) -> Result<(), String> {
        if turn <= self.turns.last || turn - 1 > seq {
            return Err(format!("turn {turn} does not follow turn {}", self.turns.last));
        }
        Ok(())
    }

    fn enter_turn(&mut self, seq: u64, number: u64) -> Result<&mut OpenTurn, String> {
        if self.turns.in_turn(number).is_err() {
            self.may_be_turn(seq, number)?;
            self.leave_turn();
            self.turns.last = number;
            self.loss.explain();
        }
        Ok(self.turns.open.get_or_insert(OpenTurn { number, ..OpenTurn::default() }))
    }

    fn enter_step(&mut self, seq: u64, turn: u64, number: u64) -> Result<&mut OpenStep, String> {
        let turn = self.enter_turn(seq, turn)?;
        if turn.step.as_ref().is_none_or(|step| step.number != number) {
            may_be_step(seq, number, turn.steps)?;
            self.leave_step();
            self.loss.explain();
        }
        let turn = self.turns.open.as_mut().ok_or("no turn is open")?;
        turn.steps = number;
        Ok(turn.step.get_or_insert(OpenStep { number, ..OpenStep::default() }))
    }

    /// The step has no answer, and no attempt after `attempt`.
    fn before_answer(
        &mut self,
        seq: u64,
        (turn, step): (u64, u64),
        attempt: u32,
    ) -> Result<&mut OpenStep, String> {
        let step = self.enter_step(seq, turn, step)?;
        if step.answer.is_some() || attempt < step.attempt || u64::from(attempt) > seq {
            return Err(format!("attempt {attempt} does not follow attempt {}", step.attempt));
        }
        Ok(step)
    }

    fn enter_attempt(&mut self, seq: u64, of: (u64, u64), attempt: u32) -> Result<(), String> {
        if self.before_answer(seq, of, attempt)?.attempt == attempt {
            return Ok(());
        }
        self.loss.explain();
        self.claimed_unseen();
        let step = self.before_answer(seq, of, attempt)?;
        step.at_attempt(attempt, attempt.saturating_sub(1));
        step.attempt_open = true;
        Ok(())
    }

    fn before_sent(&mut self, seq: u64, p: &RequestSent) -> Result<(), String> {
        if p.purpose == Purpose::Turn {
            self.before_answer(seq, (p.turn, p.step), p.attempt)?;
            self.claimed_unseen();
            let step = self.before_answer(seq, (p.turn, p.step), p.attempt)?;
            if p.attempt == step.attempt {
                return Err(format!("attempt {} was sent before", p.attempt));
            }
            step.at_attempt(p.attempt - 1, p.attempt - 1);
        }
        Ok(())
    }

    fn before_retry(&mut self, seq: u64, p: &LlmRetry) -> Result<(), String> {
        let step = self.before_answer(seq, (p.turn, p.step), p.attempt)?;
        if p.retry != p.attempt || p.retry <= step.retries {
            return Err(format!("retry {} does not follow retry {}", p.retry, step.retries));
        }
        step.at_attempt(p.attempt, p.retry - 1);
        Ok(())
    }

    fn before_retry_started(&mut self, seq: u64, p: &LlmRetryStarted) -> Result<(), String> {
        let step = self.before_answer(seq, (p.turn, p.step), p.retry)?;
        if p.retry <= step.retries {
            return Err(format!("retry {} does not wait", p.retry));
        }
        step.at_attempt(p.retry, p.retry);
        step.retry_waits = true;
        Ok(())
    }

    /// Announces the calls before the one that is meant, and that one too if `itself`.
    fn find_call(
        &mut self,
        seq: u64,
        (turn, step): (u64, u64),
        id: &CallId,
        itself: bool,
    ) -> Result<(), String> {
        let step = self.enter_step(seq, turn, step)?;
        let at = step.places.get(id).copied().ok_or_else(|| unknown_call(id))?;
        let answer = step.answer;
        let from = step.called;
        let end = from.max(at + usize::from(itself));
        step.called = end;
        for call in &mut step.calls[from..end] {
            // Its own event is lost; the answer asked for it.
            call.call_seq = answer;
        }
        (from..end).for_each(|_| self.loss.explain());
        Ok(())
    }

    /// Answers the calls before the one that is answered here.
    fn find_result(&mut self, seq: u64, p: &ToolResult) -> Result<(), String> {
        let block = super::surface::result_block(&p.message).ok_or("no result")?;
        let step = self.enter_step(seq, p.turn, p.step)?;
        let id = &block.tool_call_id;
        let at = step.places.get(id).copied().filter(|at| *at >= step.answered);
        self.close_calls(at.ok_or_else(|| unknown_call(id))?);
        Ok(())
    }

    fn leave_turn(&mut self) {
        self.leave_step();
        if self.turns.open.take().is_some() {
            self.loss.explain();
        }
    }

    fn leave_step(&mut self) {
        self.close_calls(usize::MAX);
        let Some(turn) = &mut self.turns.open else { return };
        if turn.step.take().is_some() {
            turn.claimed = None;
            self.loss.explain();
        }
    }

    /// Gives results to the open calls before the one at `end`.
    fn close_calls(&mut self, end: usize) {
        let session = self.header.id.clone();
        let Some(turn) = self.turns.open.as_mut() else { return };
        let number = turn.number;
        let Some(step) = turn.step.as_mut() else { return };
        let end = end.min(step.calls.len());
        while step.answered < end {
            let call = &step.calls[step.answered];
            let Some(at) = self.loss.take_free(step.answer.unwrap_or(0)) else {
                return self.drop_answer();
            };
            let notice = match step.may_have_started(call) {
                true => notices::OUTCOME_UNKNOWN,
                false => notices::NOT_STARTED,
            };
            let outcome = notices::synthetic(notice);
            let message = result_message(&session, at, &call.call.id, outcome.content, true);
            let error = Some(ToolError { code: notice.0.to_owned() });
            let result = ToolResult { turn: number, step: step.number, message, error, meta: None };
            self.surface.append_result(at, result);
            step.answered += 1;
            self.loss.explain();
        }
    }

    /// No number is left for the results that the answer's calls need: it leaves the surface.
    fn drop_answer(&mut self) {
        let Some(step) = self.step_mut() else { return };
        let Some(answer) = step.answer else { return };
        step.calls.clear();
        step.places.clear();
        (step.called, step.answered) = (0, 0);
        for seq in self.surface.cut(answer) {
            // Those that were made have no event.
            self.loss.aside.add(seq, seq);
        }
    }

    /// Input enters a step before its first request; where none is open, its start is lost.
    fn mend_input(&mut self, mut p: UserMessage) -> Result<UserMessage, String> {
        self.inbox.keep_waiting(&mut p.inbox);
        self.inbox.check_entry(&p.message.id, &p.inbox)?;
        if self.turns.before_request().is_ok() {
            return Ok(p);
        }
        self.leave_step();
        let last = self.turns.last;
        let turn = match &mut self.turns.open {
            Some(turn) => turn,
            None => {
                let number = last.checked_add(1).ok_or("no turn can follow")?;
                self.turns.last = number;
                self.loss.explain();
                self.turns.open.insert(OpenTurn { number, ..OpenTurn::default() })
            }
        };
        turn.steps = turn.steps.checked_add(1).ok_or("no step can follow")?;
        turn.step = Some(OpenStep { number: turn.steps, ..OpenStep::default() });
        self.loss.explain();
        self.passed_unseen(&p.inbox);
        Ok(p)
    }

    fn mend_splice(&self, p: InboxSpliced) -> InboxSpliced {
        self.inbox.fitting(p)
    }

    fn mend_replace(
        &mut self,
        event: &Event,
        ends: (u64, u64),
        p: UserMessage,
    ) -> Result<(), String> {
        match self.surface.left_of(ends, &event.body.sources, self.owed_from()) {
            Some(left) => self.core(&replacing(event, &left), p.into()),
            None => self.insert_input(event.seq, ends, p),
        }
    }

    fn mend_summary(
        &mut self,
        event: &Event,
        ends: (u64, u64),
        p: AssistantMessage,
    ) -> Result<(), String> {
        match self.surface.left_of(ends, &event.body.sources, self.owed_from()) {
            Some(left) => self.core(&replacing(event, &left), p.into()),
            None => self.insert_answer(event.seq, ends, p),
        }
    }

    /// A shorter result of the same call.
    fn mend_pruned(
        &mut self,
        event: &Event,
        (first, last): (u64, u64),
        p: ToolResult,
    ) -> Result<(), String> {
        if first != last {
            return Err("a result replaces one result, and only its content".to_owned());
        }
        self.surface.replace_result(first, event.seq, p)
    }

    /// Where the answer stands whose calls are open.
    pub(super) fn owed_from(&self) -> Option<usize> {
        let step = self.open_step().filter(|step| !step.unanswered().is_empty())?;
        self.surface.position(step.answer?)
    }
}

fn unknown_call(id: &CallId) -> String {
    format!("call `{id}` is not open")
}

/// Each step before took at least one event.
fn may_be_step(seq: u64, step: u64, steps: u64) -> Result<(), String> {
    if step <= steps || step > seq {
        return Err(format!("step {step} does not follow step {steps}"));
    }
    Ok(())
}

/// The event, in place of exactly these nodes.
fn replacing(event: &Event, left: &[u64]) -> Event {
    let mut event = event.clone();
    if let (Some(first), Some(last)) = (left.first(), left.last()) {
        event.body.surface = Some(SurfaceOp::Replace(*first, *last));
    }
    let mut cited = left.to_vec();
    cited.sort_unstable();
    event.body.sources = cited.into_iter().map(SourceRange::One).collect();
    event
}
