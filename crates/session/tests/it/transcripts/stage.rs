//! Plays a script of what people, the model and tools do, and tells what was written.
//!
//! Routine waits (assembly, pre-step, config, rendering, barriers, stopping) are answered at once
//! unless the script holds them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reins_schema::{
    Block, CancelCause, ChunkRun, Event, FailureCode, FinishReason, InboxTarget, Message,
    MessageId, PartKind,
};
use reins_session::{
    AttemptOutcome, Core, Effect, Entering, Input, LimitAnswer, Limits, Op, PreStepDecision,
    Prepared, QueueEdit, RetryDecision, Status,
};

use super::line::event_line;
use crate::made;
use crate::rules::strict_chat;

enum Wait {
    PreStep(Vec<Message>),
    Prepare,
    Body(String),
    Plain(&'static str),
}

pub(crate) struct Stage {
    core: Core,
    limits: Limits,
    log: Vec<Arc<Event>>,
    waits: BTreeMap<Op, Wait>,
    held: BTreeSet<String>,
    runs: Vec<ChunkRun>,
    out: Vec<String>,
    now: i64,
}

impl Stage {
    pub(crate) fn play(limits: Limits, script: &str) -> String {
        Self::run(limits, script).out.join("\n")
    }

    /// The events that a script leads to.
    pub(crate) fn log(script: &str) -> Vec<Arc<Event>> {
        Self::run(Limits::default(), script).log
    }

    fn run(limits: Limits, script: &str) -> Self {
        let mut stage = Self {
            core: Core::new(made::empty_fold(), limits),
            limits,
            log: Vec::new(),
            waits: BTreeMap::new(),
            held: BTreeSet::new(),
            runs: Vec::new(),
            out: Vec::new(),
            now: 0,
        };
        stage.input(Input::Opened { recovered: Vec::new() });
        stage.out.clear();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            stage.command(line);
        }
        stage
    }

    fn command(&mut self, line: &str) {
        let mut words = line.splitn(3, ' ');
        let verb = words.next().unwrap_or_default();
        let (a, b) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        match verb {
            "send" => self.send(a, b, InboxTarget::NextTurn, true),
            "queue" => self.send(a, b, InboxTarget::NextTurn, false),
            "steer" => self.send(a, b, InboxTarget::NextStep, true),
            "inject" => self.send(a, b, InboxTarget::NextStep, false),
            "hold" => drop(self.held.insert(a.to_owned())),
            "release" => {
                self.held.remove(a);
                self.routine();
            }
            "text" => self.runs.push(made::run(self.part(), PartKind::Text, rest(line))),
            "reason" => self.runs.push(made::run(self.part(), PartKind::Reasoning, rest(line))),
            "call" => {
                let id = if a == "-" { "" } else { a };
                self.runs.push(made::call_run(self.part(), id, b, "{}"));
            }
            "arrive" => self.chunk(),
            "finish" => self.finish(a),
            "fail" => self.fail(a),
            "retry" => {
                let delay_ms = a.parse().unwrap_or(0);
                let op = self.take("retry");
                let decision = RetryDecision::Retry { delay_ms, max_retries: None };
                self.input(Input::RetryDecided { op, decision });
            }
            "give-up" => {
                let op = self.take("retry");
                self.input(Input::RetryDecided { op, decision: RetryDecision::GiveUp });
            }
            "woke" => {
                let op = self.take("clock");
                self.input(Input::Woke { op });
            }
            "limit" => self.limit(a, b),
            "limits" => {
                self.limits.turn = super::read_limits(rest(line)).turn;
                self.input(Input::UseLimits(self.limits.turn));
            }
            "prepare" => self.prepare(a),
            "done" => self.done(a, b),
            "cancel" => self.cancel(a, b),
            "edit" => self.edit(a, b),
            "commit" => self.commit(a, b),
            _ => self.odd(verb, a),
        }
    }

    /// What goes wrong.
    fn odd(&mut self, verb: &str, a: &str) {
        match verb {
            "assembly-fails" => {
                let op = self.take("assemble");
                let result = Err(made::failure(FailureCode::InvalidRequest));
                self.input(Input::Assembled { op, result });
            }
            "reject" => self.decide(PreStepDecision::Reject { reason: "no".to_owned() }),
            "enter-nothing" => self.decide(PreStepDecision::Enter(Vec::new())),
            "enter" => {
                let message = made::message(a, "rewritten");
                let inbox = Vec::new();
                self.decide(PreStepDecision::Enter(vec![Entering { message, inbox }]));
            }
            "disk-fails" => {
                let op = self.take("flush");
                self.input(Input::Flushed { op, result: Err("no space".to_owned()) });
            }
            "crash" => self.crash(a),
            other => panic!("the script says `{other}`"),
        }
    }

    fn send(&mut self, id: &str, text: &str, target: InboxTarget, wake: bool) {
        let message = made::message(id, text);
        self.input(Input::Send { message, target, wake });
    }

    fn part(&self) -> u32 {
        u32::try_from(self.runs.len()).unwrap_or(0)
    }

    fn chunk(&mut self) {
        let runs = std::mem::take(&mut self.runs);
        let op = self.find("attempt");
        self.input(Input::Chunk { op, runs });
    }

    fn finish(&mut self, word: &str) {
        let finish = match word {
            "stop" => FinishReason::Stop,
            "calls" => FinishReason::ToolCalls,
            "cut" => FinishReason::MaxTokens,
            other => panic!("no finish `{other}`"),
        };
        if !self.runs.is_empty() {
            self.chunk();
        }
        let op = self.take("attempt");
        let outcome = AttemptOutcome::Finished { finish, usage: None, replay: None };
        self.input(Input::AttemptEnded { op, outcome });
    }

    fn fail(&mut self, code: &str) {
        if !self.runs.is_empty() {
            self.chunk();
        }
        let op = self.take("attempt");
        let failure = made::failure(FailureCode::from(code.to_owned()));
        let outcome = AttemptOutcome::Failed { failure, usage: None };
        self.input(Input::AttemptEnded { op, outcome });
    }

    fn limit(&mut self, a: &str, b: &str) {
        let op = self.take("limit");
        let answer = match a {
            "extend" => LimitAnswer::Extend(b.parse().unwrap_or(1)),
            _ => LimitAnswer::Stop,
        };
        self.input(Input::LimitAnswered { op, answer });
    }

    fn prepare(&mut self, word: &str) {
        let decision = match word {
            "ro" => Prepared::Run { parallel: true, read_only: true },
            "rw" => Prepared::Run { parallel: true, read_only: false },
            "exclusive" => Prepared::Run { parallel: false, read_only: false },
            "needs-alone" => Prepared::NeedsAlone,
            code => Prepared::Refused(Box::new(made::outcome("refused", Some(code)))),
        };
        let op = self.prepares().unwrap_or_else(|| panic!("nothing is prepared"));
        self.waits.remove(&op);
        self.input(Input::ToolPrepared { op, decision });
    }

    fn prepares(&self) -> Option<Op> {
        let mut waits = self.waits.iter();
        waits.find_map(|(op, wait)| matches!(wait, Wait::Prepare).then_some(*op))
    }

    fn done(&mut self, id: &str, how: &str) {
        let body = |wait: &Wait| matches!(wait, Wait::Body(call) if call == id);
        let op = self.waits.iter().find_map(|(op, wait)| body(wait).then_some(*op));
        let op = op.unwrap_or_else(|| panic!("{id} does not run"));
        self.waits.remove(&op);
        let error = (how == "error").then_some("FAILED");
        let mut outcome = made::outcome("result", error);
        outcome.concludes = how == "concludes";
        if let Some(id) = how.strip_prefix("context ") {
            outcome.contexts.push(made::message(id, "context"));
        }
        self.input(Input::ToolFinished { op, outcome });
    }

    fn cancel(&mut self, cause: &str, keep: &str) {
        let cause = match cause {
            "user" => CancelCause::User,
            "disposed" => CancelCause::Disposed,
            "parent" => CancelCause::Parent,
            reason => CancelCause::Hook { reason: reason.to_owned() },
        };
        self.input(Input::Cancel { cause, keep_inbox: keep == "keep" });
    }

    fn edit(&mut self, verb: &str, rest: &str) {
        let words: Vec<&str> = rest.split(' ').collect();
        let id = MessageId::new(words[0]);
        let edit = match verb {
            "remove" => QueueEdit::Remove(id),
            "replace" => QueueEdit::Replace(id, Box::new(made::message(words[1], "edited"))),
            "clear" => QueueEdit::Clear,
            "to-step" => QueueEdit::Move { id, target: InboxTarget::NextStep, at: 0 },
            _ => QueueEdit::Move { id, target: InboxTarget::NextTurn, at: 0 },
        };
        self.input(Input::EditQueue(edit));
    }

    fn commit(&mut self, kind: &str, rest: &str) {
        let draft = super::line::draft(kind, rest);
        self.input(Input::Commit { ticket: 1, draft });
    }

    /// The process ends with this many events on disk.
    fn crash(&mut self, keep: &str) {
        let keep = keep.parse().unwrap_or(self.log.len());
        self.log.truncate(keep);
        let mut fold = made::empty_fold();
        for event in &self.log {
            if let Err(problem) = fold.apply(event) {
                panic!("{problem}");
            }
        }
        self.waits.clear();
        self.out.push("> crash".to_owned());
        self.core = Core::new(fold, self.limits);
        self.input(Input::Opened { recovered: Vec::new() });
    }

    fn decide(&mut self, decision: PreStepDecision) {
        let pre_step = |wait: &Wait| matches!(wait, Wait::PreStep(_));
        let op = self.waits.iter().find_map(|(op, wait)| pre_step(wait).then_some(*op));
        let op = op.unwrap_or_else(|| panic!("no pre-step is asked"));
        self.waits.remove(&op);
        self.input(Input::PreStepDecided { op, decision });
    }

    fn find(&self, name: &str) -> Op {
        let plain = |wait: &Wait| matches!(wait, Wait::Plain(wait) if *wait == name);
        let found = self.waits.iter().find_map(|(op, wait)| plain(wait).then_some(*op));
        found.unwrap_or_else(|| panic!("nothing waits for `{name}`:\n{}", self.out.join("\n")))
    }

    fn take(&mut self, name: &str) -> Op {
        let op = self.find(name);
        self.waits.remove(&op);
        op
    }

    fn input(&mut self, input: Input) {
        self.now += 1;
        for effect in self.core.step(self.now, input) {
            self.effect(effect);
        }
        if let Err(problem) = reins_session::check(self.core.fold()) {
            panic!("{problem}");
        }
        self.routine();
    }

    /// Answers what the script does not hold.
    fn routine(&mut self) {
        let held = &self.held;
        let due = self.waits.iter().find_map(|(op, wait)| match wait {
            Wait::PreStep(_) if !held.contains("pre-step") => Some(*op),
            Wait::Plain(name @ ("assemble" | "config" | "render" | "flush" | "stop"))
                if !held.contains(*name) =>
            {
                Some(*op)
            }
            _ => None,
        });
        let Some(op) = due else { return };
        let input = match self.waits.remove(&op) {
            Some(Wait::PreStep(claimed)) => {
                let enter = |m: Message| Entering { inbox: vec![m.id.clone()], message: m };
                let entries = claimed.into_iter().map(enter).collect();
                Input::PreStepDecided { op, decision: PreStepDecision::Enter(entries) }
            }
            Some(Wait::Plain("assemble")) => Input::Assembled { op, result: Ok(None) },
            Some(Wait::Plain("config")) => Input::ConfigDecided { op, result: Ok(made::plan("m")) },
            Some(Wait::Plain("render")) => {
                if let Err(problem) = strict_chat(self.core.fold()) {
                    panic!("{problem}");
                }
                let items = self.core.fold().surface().nodes().len() as u64;
                Input::Rendered { op, result: Ok(made::facts(items)) }
            }
            Some(Wait::Plain("flush")) => Input::Flushed { op, result: Ok(()) },
            _ => Input::StopDecided { op },
        };
        self.input(input);
    }

    fn effect(&mut self, effect: Effect) {
        let mut plain = |op: Op, name: &'static str| drop(self.waits.insert(op, Wait::Plain(name)));
        match effect {
            Effect::Append(event) => {
                self.out.push(event_line(&event));
                self.log.push(event);
            }
            Effect::Flush { op, .. } => {
                plain(op, "flush");
                self.out.push("> flush".to_owned());
            }
            Effect::Assemble { op, .. } => plain(op, "assemble"),
            Effect::AskPreStep { op, claimed, .. } => {
                self.waits.insert(op, Wait::PreStep(claimed));
            }
            Effect::AskConfig { op, .. } => plain(op, "config"),
            Effect::Render { op, .. } => plain(op, "render"),
            Effect::StartAttempt { op, .. } => {
                plain(op, "attempt");
                self.out.push("> start attempt".to_owned());
            }
            Effect::AskRetry { op, .. } => plain(op, "retry"),
            Effect::PrepareTool { op, call, alone, .. } => {
                self.waits.insert(op, Wait::Prepare);
                let alone = if alone { " alone" } else { "" };
                self.out.push(format!("> prepare {}{alone}", call.id));
            }
            Effect::StartTool { op, call, .. } => {
                self.waits.insert(op, Wait::Body(call.id.to_string()));
                self.out.push(format!("> start {}", call.id));
            }
            Effect::AskStop { op, .. } => plain(op, "stop"),
            Effect::AskLimit { op, .. } => plain(op, "limit"),
            Effect::WakeAt { op, .. } => plain(op, "clock"),
            Effect::StopAttempt { op } => {
                self.waits.remove(&op);
                self.out.push("> stop attempt".to_owned());
            }
            Effect::StopTool { call_id, .. } => self.out.push(format!("> stop {call_id}")),
            Effect::Abandon { op } => drop(self.waits.remove(&op)),
            Effect::Status(status) => self.out.push(format!("> {}", word(status))),
            Effect::SendAnswered { result: Err(refusal), .. }
            | Effect::EditAnswered { result: Err(refusal) }
            | Effect::CommitAnswered { result: Err(refusal), .. } => {
                self.out.push(format!("> refused: {refusal}"));
            }
            Effect::SendAnswered { .. } => {}
            Effect::EditAnswered { .. } | Effect::CommitAnswered { .. } => {}
        }
    }
}

fn rest(line: &str) -> &str {
    line.split_once(' ').map_or("", |(_, rest)| rest)
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Idle => "idle",
        Status::Running => "running",
        Status::Cancelling => "cancelling",
        Status::Dead => "dead",
    }
}

/// The text of a message, with what is not text in brackets.
pub(crate) fn content(message: &Message) -> String {
    let part = |block: &Block| match block {
        Block::Text(text) => text.clone(),
        Block::Reasoning(text) => format!("[{text}]"),
        Block::ToolCall(call) => format!("({} {})", call.id, call.name),
        _ => "(other)".to_owned(),
    };
    message.content.iter().map(part).collect::<Vec<_>>().join(" ")
}
