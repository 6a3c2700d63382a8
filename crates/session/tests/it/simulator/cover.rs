//! What the schedules reached.

use std::collections::BTreeMap;

use reins_session::{Effect, Input};

#[derive(Default)]
pub(crate) struct Cover {
    pub(crate) schedules: u64,
    pub(crate) inputs: u64,
    pub(crate) crashes: u64,
    reached: BTreeMap<String, u64>,
}

impl Cover {
    pub(crate) fn of_one() -> Self {
        Self { schedules: 1, ..Self::default() }
    }

    pub(crate) fn count(&mut self, what: &str) {
        match self.reached.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(self.reached.insert(what.to_owned(), 1)),
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.inputs += other.inputs;
        self.crashes += other.crashes;
        for (what, count) in other.reached {
            *self.reached.entry(what).or_default() += count;
        }
    }

    /// What no schedule reached.
    pub(crate) fn missing(&self) -> Vec<String> {
        let crash_points = EVENTS.iter().map(|kind| format!("crash after {kind}"));
        let names = INPUTS
            .iter()
            .chain(&EFFECTS)
            .chain(&ENDS)
            .chain(&LIMITS)
            .map(|name| (*name).to_owned());
        names.chain(crash_points).filter(|name| !self.reached.contains_key(name)).collect()
    }

    pub(crate) fn report(&self) -> String {
        let lines = self.reached.iter().map(|(what, count)| format!("{count:>9} {what}\n"));
        lines.collect()
    }
}

pub(crate) const INPUTS: [&str; 22] = [
    "in UseTypes",
    "in Opened",
    "in Send",
    "in EditQueue",
    "in Cancel",
    "in Commit",
    "in UseLimits",
    "in Assembled",
    "in PreStepDecided",
    "in ConfigDecided",
    "in Rendered",
    "in Flushed",
    "in Chunk",
    "in AttemptEnded",
    "in RetryDecided",
    "in ToolPrepared",
    "in ToolFinished",
    "in StopDecided",
    "in LimitAnswered",
    "in Woke",
    "in StoreFailed",
    "stale answer",
];

pub(crate) fn input_name(input: &Input) -> &'static str {
    match input {
        Input::Opened { .. } => "in Opened",
        Input::Send { .. } => "in Send",
        Input::EditQueue(_) => "in EditQueue",
        Input::Cancel { .. } => "in Cancel",
        Input::Commit { .. } => "in Commit",
        Input::UseLimits(_) => "in UseLimits",
        Input::UseTypes(_) => "in UseTypes",
        Input::Assembled { .. } => "in Assembled",
        Input::PreStepDecided { .. } => "in PreStepDecided",
        Input::ConfigDecided { .. } => "in ConfigDecided",
        Input::Rendered { .. } => "in Rendered",
        Input::Flushed { .. } => "in Flushed",
        Input::Chunk { .. } => "in Chunk",
        Input::AttemptEnded { .. } => "in AttemptEnded",
        Input::RetryDecided { .. } => "in RetryDecided",
        Input::ToolPrepared { .. } => "in ToolPrepared",
        Input::ToolFinished { .. } => "in ToolFinished",
        Input::StopDecided { .. } => "in StopDecided",
        Input::LimitAnswered { .. } => "in LimitAnswered",
        Input::Woke { .. } => "in Woke",
        Input::StoreFailed { .. } => "in StoreFailed",
    }
}

pub(crate) const EFFECTS: [&str; 20] = [
    "out Append",
    "out Flush",
    "out Assemble",
    "out AskPreStep",
    "out AskConfig",
    "out Render",
    "out StartAttempt",
    "out StopAttempt",
    "out AskRetry",
    "out PrepareTool",
    "out StartTool",
    "out StopTool",
    "out AskStop",
    "out AskLimit",
    "out WakeAt",
    "out Abandon",
    "out Status",
    "out SendAnswered",
    "out EditAnswered",
    "out CommitAnswered",
];

pub(crate) fn effect_name(effect: &Effect) -> &'static str {
    match effect {
        Effect::Append(_) => "out Append",
        Effect::Flush { .. } => "out Flush",
        Effect::Assemble { .. } => "out Assemble",
        Effect::AskPreStep { .. } => "out AskPreStep",
        Effect::AskConfig { .. } => "out AskConfig",
        Effect::Render { .. } => "out Render",
        Effect::StartAttempt { .. } => "out StartAttempt",
        Effect::StopAttempt { .. } => "out StopAttempt",
        Effect::AskRetry { .. } => "out AskRetry",
        Effect::PrepareTool { .. } => "out PrepareTool",
        Effect::StartTool { .. } => "out StartTool",
        Effect::StopTool { .. } => "out StopTool",
        Effect::AskStop { .. } => "out AskStop",
        Effect::AskLimit { .. } => "out AskLimit",
        Effect::WakeAt { .. } => "out WakeAt",
        Effect::Abandon { .. } => "out Abandon",
        Effect::Status(_) => "out Status",
        Effect::SendAnswered { .. } => "out SendAnswered",
        Effect::EditAnswered { .. } => "out EditAnswered",
        Effect::CommitAnswered { .. } => "out CommitAnswered",
    }
}

/// Every way in which a turn ends.
pub(crate) const ENDS: [&str; 7] = [
    "end completed",
    "end blocked",
    "end max-tokens",
    "end aborted",
    "end error",
    "end interrupted",
    "end limit",
];

/// When new limits come, and what they meet.
pub(crate) const LIMITS: [&str; 5] = [
    "parked by a limit",
    "limits anew",
    "limits anew while time is asked about",
    "limits kept by an open turn",
    "limits when idle",
];

/// Every event type that may be the last one before a crash.
pub(crate) const EVENTS: [&str; 22] = [
    "turn/start",
    "turn/end",
    "step/start",
    "step/end",
    "user/message",
    "assistant/chunk",
    "assistant/attempt",
    "assistant/message",
    "tool/call",
    "tool/start",
    "tool/result",
    "agent/inbox/spliced",
    "request/header",
    "request/context",
    "request/sent",
    "llm/retry",
    "llm/retry-started",
    "session/end-seed",
    "limit/reached",
    "session/recovered",
    "session/repaired",
    super::super::made::NOTE,
];
