//! The open turn, its open step and the calls of that step.

use std::collections::HashMap;

use reins_schema::{
    AssistantMessage, CallId, LlmRetry, LlmRetryStarted, MessageId, RequestSent, StepEnd,
    StepStart, ToolCall, ToolCallBlock, ToolStart, TurnEnd, TurnStart,
};
use serde::{Deserialize, Serialize};

/// A turn that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenTurn {
    pub(super) number: u64,
    pub(super) steps: u64,
    pub(super) step: Option<OpenStep>,
    /// Input that the step to come, or the open one, has claimed; `None` = that is not known.
    pub(super) claimed: Option<Vec<MessageId>>,
}

/// A step that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpenStep {
    pub(super) number: u64,
    pub(super) attempt: u32,
    pub(super) attempt_open: bool,
    pub(super) retries: u32,
    pub(super) retry_waits: bool,
    pub(super) answer: Option<u64>,
    pub(super) calls: Vec<OpenCall>,
    #[serde(skip)]
    pub(super) places: HashMap<CallId, usize>,
    pub(super) called: usize,
    pub(super) answered: usize,
    /// Input of the queue `next-turn` has entered.
    pub(super) prompted: bool,
    /// Events after the answer are lost, maybe the start of a call.
    pub(super) lossy: bool,
}

/// A call of the open step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenCall {
    /// As the model wrote it.
    pub call: ToolCallBlock,
    /// The number of its `tool/call`.
    pub call_seq: Option<u64>,
    /// The number of its `tool/start`.
    pub start_seq: Option<u64>,
}

impl OpenTurn {
    /// The turn's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many steps were started.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The open step.
    pub fn step(&self) -> Option<&OpenStep> {
        self.step.as_ref()
    }
}

impl OpenStep {
    /// The step's number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The last attempt that was sent; 0 = none.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether that attempt has neither failed nor answered.
    pub fn attempt_open(&self) -> bool {
        self.attempt_open
    }

    /// Retries so far.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// The number of the `assistant/message`.
    pub fn answer(&self) -> Option<u64> {
        self.answer
    }

    /// All calls of the answer, in the model's order.
    pub fn calls(&self) -> &[OpenCall] {
        &self.calls
    }

    /// Whether the body of an open call began, for all that is known.
    pub fn may_have_started(&self, call: &OpenCall) -> bool {
        call.start_seq.is_some() || self.lossy
    }

    /// No attempt runs; this was the last one, after so many retries.
    pub(super) fn at_attempt(&mut self, attempt: u32, retries: u32) {
        self.attempt = attempt;
        self.attempt_open = false;
        self.retries = retries;
        self.retry_waits = false;
    }

    /// The calls without result. Results come in order, so this is the tail.
    pub fn unanswered(&self) -> &[OpenCall] {
        &self.calls[self.answered..]
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Turns {
    pub(super) last: u64,
    pub(super) open: Option<OpenTurn>,
}

impl Turns {
    /// Makes what is not stored, and checks what the methods rely on.
    pub(super) fn complete(&mut self) -> Result<(), String> {
        let Some(turn) = &mut self.open else { return Ok(()) };
        let Some(step) = &mut turn.step else { return Ok(()) };
        let calls = step.calls.iter().enumerate();
        step.places = calls.map(|(at, call)| (call.call.id.clone(), at)).collect();
        let count = step.calls.len();
        let fits = step.places.len() == count && step.answered <= count && step.called <= count;
        let counted = turn.number == self.last && turn.steps == step.number;
        if fits && counted { Ok(()) } else { Err("the open step does not fit its turn".to_owned()) }
    }

    pub(super) fn turn_start(&mut self, p: &TurnStart) -> Result<(), String> {
        if let Some(open) = &self.open {
            return Err(format!("turn {} is still open", open.number));
        }
        if self.last.checked_add(1) != Some(p.turn) {
            return Err(format!("turn {} does not follow turn {}", p.turn, self.last));
        }
        self.last = p.turn;
        self.open = Some(OpenTurn { number: p.turn, ..OpenTurn::default() });
        Ok(())
    }

    pub(super) fn turn_end(&mut self, p: &TurnEnd) -> Result<(), String> {
        self.in_turn(p.turn)?;
        if self.open.as_ref().is_some_and(|turn| turn.step.is_some()) {
            return Err("a step is still open".to_owned());
        }
        self.open = None;
        Ok(())
    }

    pub(super) fn step_start(&mut self, p: &StepStart) -> Result<(), String> {
        self.in_turn(p.turn)?;
        let Some(turn) = &mut self.open else { return Err(no_turn()) };
        if turn.step.is_some() {
            return Err("a step is still open".to_owned());
        }
        if turn.steps.checked_add(1) != Some(p.step) {
            return Err(format!("step {} does not follow step {}", p.step, turn.steps));
        }
        turn.steps = p.step;
        turn.step = Some(OpenStep { number: p.step, ..OpenStep::default() });
        Ok(())
    }

    pub(super) fn step_end(&mut self, p: &StepEnd) -> Result<(), String> {
        let step = self.in_step(p.turn, p.step)?;
        if let Some(open) = step.unanswered().first() {
            return Err(format!("call `{}` has no result", open.call.id));
        }
        if let Some(turn) = &mut self.open {
            turn.step = None;
        }
        Ok(())
    }

    pub(super) fn in_turn(&self, number: u64) -> Result<(), String> {
        match &self.open {
            Some(turn) if turn.number == number => Ok(()),
            Some(turn) => Err(format!("turn {} is open, not turn {number}", turn.number)),
            None => Err(no_turn()),
        }
    }

    fn in_step(&mut self, turn: u64, number: u64) -> Result<&mut OpenStep, String> {
        self.in_turn(turn)?;
        let step = self.step()?;
        if step.number != number {
            return Err(format!("step {} is open, not step {number}", step.number));
        }
        Ok(step)
    }

    fn step(&mut self) -> Result<&mut OpenStep, String> {
        let step = self.open.as_mut().and_then(|turn| turn.step.as_mut());
        step.ok_or_else(|| "no step is open".to_owned())
    }

    /// Input enters between the start of a step and its first request.
    pub(super) fn before_request(&mut self) -> Result<(), String> {
        if self.step()?.attempt > 0 {
            return Err("the step's first request has left".to_owned());
        }
        Ok(())
    }

    pub(super) fn claim(&mut self, claimed: Option<Vec<MessageId>>) {
        if let Some(turn) = &mut self.open {
            turn.claimed = claimed;
        }
    }

    pub(super) fn prompted(&mut self) {
        if let Ok(step) = self.step() {
            step.prompted = true;
        }
    }

    pub(super) fn before_answer(&mut self) -> Result<(), String> {
        let step = self.step()?;
        if step.answer.is_some() || step.attempt_open {
            return Err("the step's request has left".to_owned());
        }
        Ok(())
    }

    pub(super) fn sent(&mut self, p: &RequestSent) -> Result<(), String> {
        self.in_step(p.turn, p.step)?;
        self.before_answer()?;
        let step = self.step()?;
        let next = |number: u32| number.checked_add(1) == Some(p.attempt);
        if step.retry_waits || !next(step.retries) || !next(step.attempt) {
            return Err(format!("attempt {} does not follow attempt {}", p.attempt, step.attempt));
        }
        step.attempt = p.attempt;
        step.attempt_open = true;
        Ok(())
    }

    pub(super) fn in_attempt(&mut self, turn: u64, step: u64, attempt: u32) -> Result<(), String> {
        let step = self.in_step(turn, step)?;
        if !step.attempt_open || step.attempt != attempt {
            return Err(format!("attempt {attempt} is not running"));
        }
        Ok(())
    }

    pub(super) fn attempt_failed(
        &mut self,
        turn: u64,
        step: u64,
        attempt: u32,
    ) -> Result<(), String> {
        self.in_attempt(turn, step, attempt)?;
        self.step()?.attempt_open = false;
        Ok(())
    }

    pub(super) fn answered(&mut self, seq: u64, p: &AssistantMessage) -> Result<(), String> {
        self.in_attempt(p.turn, p.step, p.attempt)?;
        let mut places = HashMap::new();
        let mut calls = Vec::new();
        for call in p.message.calls() {
            if places.insert(call.id.clone(), calls.len()).is_some() {
                return Err(format!("two calls have the id `{}`", call.id));
            }
            calls.push(OpenCall { call: call.clone(), call_seq: None, start_seq: None });
        }
        let step = self.step()?;
        step.attempt_open = false;
        step.answer = Some(seq);
        step.lossy = false;
        step.places = places;
        step.calls = calls;
        Ok(())
    }

    pub(super) fn tool_call(&mut self, seq: u64, p: &ToolCall) -> Result<(), String> {
        let step = self.in_step(p.turn, p.step)?;
        let Some(call) = step.calls.get_mut(step.called) else {
            return Err("every call of the answer was announced".to_owned());
        };
        let same = call.call.id == p.call_id
            && call.call.name == p.name
            && call.call.arguments == p.arguments;
        if !same {
            return Err(format!("call `{}` of the answer comes next", call.call.id));
        }
        call.call_seq = Some(seq);
        step.called += 1;
        Ok(())
    }

    pub(super) fn tool_start(&mut self, seq: u64, p: &ToolStart) -> Result<(), String> {
        let step = self.in_step(p.turn, p.step)?;
        let at = step.places.get(&p.call_id).copied().filter(|at| *at >= step.answered);
        let Some(call) = at.and_then(|at| step.calls.get_mut(at)) else {
            return Err(format!("call `{}` is not open", p.call_id));
        };
        if call.call_seq.is_none() || call.start_seq.is_some() {
            return Err(format!("call `{}` starts once, after its `tool/call`", p.call_id));
        }
        call.start_seq = Some(seq);
        Ok(())
    }

    pub(super) fn result(&mut self, turn: u64, step: u64, id: &CallId) -> Result<(), String> {
        let step = self.in_step(turn, step)?;
        match step.unanswered().first() {
            Some(open) if open.call.id == *id => {}
            Some(open) => return Err(format!("call `{}` is answered first", open.call.id)),
            None => return Err("every call of the answer has its result".to_owned()),
        }
        step.answered += 1;
        Ok(())
    }

    pub(super) fn retry(&mut self, p: &LlmRetry) -> Result<(), String> {
        let step = self.in_step(p.turn, p.step)?;
        let failed = step.answer.is_none() && !step.attempt_open && !step.retry_waits;
        if !failed || step.attempt != p.attempt || step.retries.checked_add(1) != Some(p.retry) {
            return Err("a retry follows a failed attempt".to_owned());
        }
        step.retries = p.retry;
        step.retry_waits = true;
        Ok(())
    }

    pub(super) fn retry_started(&mut self, p: &LlmRetryStarted) -> Result<(), String> {
        let step = self.in_step(p.turn, p.step)?;
        if !step.retry_waits || step.retries != p.retry {
            return Err(format!("retry {} does not wait", p.retry));
        }
        step.retry_waits = false;
        Ok(())
    }

    pub(super) fn repaired(&self, turn: u64) -> Result<(), String> {
        if self.open.is_some() || turn != self.last {
            return Err(format!("turn {turn} is not the one that was closed last"));
        }
        Ok(())
    }
}

fn no_turn() -> String {
    "no turn is open".to_owned()
}
