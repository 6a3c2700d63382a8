//! What the outside answers: tools, model, chains and disk, in any order and any mood.

use reins_schema::{
    Block, ChunkRun, FailureCode, FinishReason, InboxTarget, Message, MessageId, PartKind,
    TurnEndReason, Usage,
};
use reins_session::{
    AttemptOutcome, Entering, Input, LimitAnswer, Op, PreStepDecision, Prepared, RetryDecision,
    Status, ToolOutcome, TurnLimits,
};

use super::world::{Body, Wait, World};
use crate::made;

type Checked = Result<(), String>;

impl World {
    /// Answers one outstanding wait. `calm` = everything goes well.
    pub(crate) fn answer_one(&mut self, calm: bool) -> Checked {
        let late = calm || self.rng.chance(10);
        let ready = |wait: &Wait| match wait {
            Wait::Body { stuck, stopped, .. } => calm || !*stuck || *stopped,
            Wait::Clock { time } => late || *time < self.now + 60,
            _ => true,
        };
        let ops: Vec<Op> =
            self.waits.iter().filter(|(_, wait)| ready(wait)).map(|(op, _)| *op).collect();
        let Some(op) = self.rng.pick(&ops).copied() else {
            return if calm { Ok(()) } else { self.cancel_some() };
        };
        let Some(wait) = self.waits.get(&op).cloned() else { return Ok(()) };
        if matches!(wait, Wait::Attempt) {
            return self.stream(op, calm);
        }
        if matches!(wait, Wait::Stop) && !calm && self.rng.chance(30) {
            self.send_some()?;
        }
        let Some(wait) = self.waits.remove(&op) else { return Ok(()) };
        let input = self.answer_to(op, wait, calm);
        self.step(input)
    }

    fn answer_to(&mut self, op: Op, wait: Wait, calm: bool) -> Input {
        match wait {
            Wait::Flush { upto } => {
                let failed = !calm && self.rng.chance(10) && self.fault(10);
                if !failed {
                    self.durable = self.durable.max(upto);
                }
                let result = if failed { Err("no space".to_owned()) } else { Ok(()) };
                Input::Flushed { op, result }
            }
            Wait::Assemble { .. } => self.assembled(op, calm),
            Wait::PreStep { claimed, facts } => {
                let decision = self.pre_step(claimed, facts, calm);
                Input::PreStepDecided { op, decision }
            }
            Wait::Config => {
                let failed = !calm && self.fault(4);
                let model = if self.rng.chance(80) { "a" } else { "b" };
                let failure = made::failure(FailureCode::Auth);
                let result = if failed { Err(failure) } else { Ok(made::plan(model)) };
                Input::ConfigDecided { op, result }
            }
            Wait::Render => {
                let failed = !calm && self.fault(4);
                let failure = made::failure(FailureCode::InvalidRequest);
                let items = self.core.fold().surface().nodes().len() as u64;
                let result = if failed { Err(failure) } else { Ok(made::facts(items)) };
                Input::Rendered { op, result }
            }
            Wait::Retry => {
                let retry = !calm && self.rng.chance(70);
                let delay_ms = self.rng.below(50) as u64;
                let decision = if retry {
                    RetryDecision::Retry { delay_ms, max_retries: Some(5) }
                } else {
                    RetryDecision::GiveUp
                };
                Input::RetryDecided { op, decision }
            }
            Wait::Prepare { key, alone } => {
                let decision = self.prepared(alone);
                if let Prepared::Run { parallel, read_only } = &decision
                    && (*parallel || alone)
                {
                    let body = Body { parallel: *parallel, read_only: *read_only, started: false };
                    self.bodies.insert(key, body);
                }
                Input::ToolPrepared { op, decision }
            }
            Wait::Body { .. } => Input::ToolFinished { op, outcome: self.outcome() },
            Wait::Stop => Input::StopDecided { op },
            Wait::Limit { name } => {
                let more = self.rng.below(4) as u64;
                let stop = calm || self.rng.chance(50);
                let answer = if stop { LimitAnswer::Stop } else { LimitAnswer::Extend(more) };
                if !stop {
                    self.shadow.allowed.extend(&name, more);
                }
                Input::LimitAnswered { op, answer }
            }
            Wait::Clock { time } => {
                self.now = self.now.max(time);
                Input::Woke { op }
            }
            Wait::Attempt => Input::Chunk { op, runs: Vec::new() },
        }
    }

    fn assembled(&mut self, op: Op, calm: bool) -> Input {
        let safe = calm || !self.rng.chance(self.trouble());
        let roll = if safe { 7 + self.rng.below(93) } else { self.rng.below(100) };
        let result = match roll {
            0..=6 => Err(made::failure(FailureCode::InvalidRequest)),
            7..=16 => {
                let id = self.fresh_id();
                Ok(Some(Message::notice(id, "facts", "it is noon")))
            }
            _ => Ok(None),
        };
        Input::Assembled { op, result }
    }

    fn pre_step(
        &mut self,
        claimed: Vec<Message>,
        facts: Option<Message>,
        calm: bool,
    ) -> PreStepDecision {
        let safe = calm || !self.rng.chance(self.trouble());
        let roll = if safe { 99 } else { self.rng.below(60) };
        let enter = |message: Message| Entering { inbox: vec![message.id.clone()], message };
        let mut entries: Vec<Entering> = claimed.into_iter().map(enter).collect();
        match roll {
            0..=5 => return PreStepDecision::Reject { reason: "no".to_owned() },
            6..=11 => return PreStepDecision::Enter(Vec::new()),
            // One is left out.
            12..=17 => drop(entries.pop()),
            // All become one new message.
            18..=22 if !entries.is_empty() => {
                let inbox = entries.iter().flat_map(|entry| entry.inbox.clone()).collect();
                let id = self.fresh_id();
                let message = made::message(id.as_str(), "rewritten");
                return PreStepDecision::Enter(vec![Entering { message, inbox }]);
            }
            // A layer does what it may not.
            23 => entries.extend(entries.clone()),
            24 => {
                let id = self.old_id();
                let message = made::message(id.as_str(), "again");
                entries.push(Entering { message, inbox: Vec::new() });
            }
            25 => {
                let id = self.fresh_id();
                let message = made::message(id.as_str(), "");
                entries.push(Entering { message, inbox: Vec::new() });
            }
            _ => {}
        }
        entries.extend(facts.map(|message| Entering { message, inbox: Vec::new() }));
        PreStepDecision::Enter(entries)
    }

    fn stream(&mut self, op: Op, calm: bool) -> Checked {
        if calm {
            let runs = vec![made::run(0, PartKind::Text, "done")];
            self.step(Input::Chunk { op, runs })?;
        } else if self.rng.chance(55) {
            let runs = (0..self.rng.below(4)).map(|_| self.chunk_run()).collect();
            return self.step(Input::Chunk { op, runs });
        }
        if !self.waits.contains_key(&op) {
            return Ok(());
        }
        self.waits.remove(&op);
        let outcome = self.ended(calm);
        self.step(Input::AttemptEnded { op, outcome })
    }

    fn chunk_run(&mut self) -> ChunkRun {
        let index = u32::try_from(self.rng.below(6)).unwrap_or(0);
        let text = ["x", "yy", ""][self.rng.below(3)];
        match self.rng.below(20) {
            0..=6 => made::run(index, PartKind::Text, text),
            7..=8 => made::run(index, PartKind::Reasoning, text),
            9 => made::run(index, PartKind::Unknown, text),
            10 => made::call_run(index, "", "read", "{}"),
            11 => made::call_run(index, "c0", "read", "{}"),
            _ => made::call_run(index, &format!("c{index}"), "edit", "{}"),
        }
    }

    fn ended(&mut self, calm: bool) -> AttemptOutcome {
        let usage = Some(Usage { input_tokens: 3, output_tokens: 2, ..Usage::default() });
        let safe = !self.rng.chance(self.trouble());
        let roll = match calm {
            true => 0,
            false if safe => self.rng.below(84),
            false => self.rng.below(100),
        };
        let finish = match roll {
            0..=34 => FinishReason::Stop,
            35..=69 => FinishReason::ToolCalls,
            70..=81 => FinishReason::MaxTokens,
            82..=83 => FinishReason::Aborted,
            _ => {
                let codes = [FailureCode::Server, FailureCode::Aborted, FailureCode::RateLimit];
                let code = codes[self.rng.below(3)].clone();
                return AttemptOutcome::Failed { failure: made::failure(code), usage: None };
            }
        };
        AttemptOutcome::Finished { finish, usage, replay: None }
    }

    fn prepared(&mut self, alone: bool) -> Prepared {
        let read_only = self.rng.chance(30);
        match self.rng.below(100) {
            0..=13 => Prepared::Refused(Box::new(made::outcome("denied", Some("DENIED")))),
            14..=43 => Prepared::Run { parallel: true, read_only: true },
            44..=77 => Prepared::Run { parallel: true, read_only: false },
            78..=80 => Prepared::NeedsAlone,
            // A driver that forgets to ask alone is treated as if it had asked.
            81..=84 => Prepared::Run { parallel: false, read_only },
            _ if alone => Prepared::Run { parallel: false, read_only },
            _ => Prepared::NeedsAlone,
        }
    }

    fn outcome(&mut self) -> ToolOutcome {
        let error = self.rng.chance(20).then_some("FAILED");
        let mut outcome = made::outcome("result", error);
        outcome.concludes = self.rng.chance(15);
        if self.rng.chance(15) {
            let id = if self.rng.chance(80) { self.fresh_id() } else { self.old_id() };
            let text = if self.rng.chance(90) { "context" } else { "" };
            let mut context = Message::notice(id, "tool", text);
            if self.rng.chance(10) {
                context.content.push(Block::Text("more".to_owned()));
            }
            outcome.contexts.push(context);
        }
        outcome
    }

    /// Everything is answered: the agent must become idle, and stay usable.
    pub(crate) fn converge(&mut self) -> Checked {
        if self.core.status() == Status::Dead {
            self.crash()?;
        }
        if self.rng.chance(50) {
            self.cancel_some()?;
        }
        self.settle()?;
        let id = self.fresh_id();
        let message = made::message(id.as_str(), "are you still there?");
        self.make_room()?;
        self.step(Input::Send { message, target: InboxTarget::NextTurn, wake: true })?;
        self.settle()?;
        if self.shadow.entered.contains(&id) {
            return Ok(());
        }
        if !self.shadow.parked {
            return Err("a prompt to the settled agent has not entered".to_owned());
        }
        self.unpark(&id)
    }

    /// A prompt that limits kept waiting enters when they are gone, and not before somebody sends
    /// again.
    fn unpark(&mut self, id: &MessageId) -> Checked {
        self.cover.count("parked by a limit");
        self.limits.turn = TurnLimits { steps: None, time_ms: None, ..self.limits.turn };
        self.step(Input::UseLimits(self.limits.turn))?;
        if self.core.status() != Status::Idle || !self.shadow.waiting.contains(id) {
            return Err("a prompt behind a limit does not wait".to_owned());
        }
        let next = self.fresh_id();
        let message = made::message(next.as_str(), "and now?");
        self.step(Input::Send { message, target: InboxTarget::NextTurn, wake: true })?;
        self.settle()?;
        if self.shadow.entered.contains(id) {
            return Ok(());
        }
        Err("a prompt that waited behind a limit has not entered".to_owned())
    }

    /// For two messages: `unpark` sends another one.
    fn make_room(&mut self) -> Checked {
        if self.core.fold().inbox().len() + 2 > self.limits.inbox {
            self.step(Input::EditQueue(reins_session::QueueEdit::Clear))?;
        }
        Ok(())
    }

    fn settle(&mut self) -> Checked {
        let from = self.log.len();
        for _ in 0..2000 {
            if self.core.status() == Status::Idle {
                break;
            }
            self.answer_one(true)?;
        }
        if self.core.status() != Status::Idle {
            return Err(format!("{:?} with everything answered", self.core.status()));
        }
        let ended = self.log[from..].iter().any(|event| event.body.kind == "turn/end");
        let completed = matches!(self.shadow.last_end, Some(TurnEndReason::Completed));
        if ended && completed && !self.core.fold().inbox().next_turn().is_empty() {
            return Err("a prompt is left behind a completed turn".to_owned());
        }
        Ok(())
    }
}
