//! One prompt from start to finish: what `reins run` and every headless client needs.

use std::sync::Arc;

use reins_agent::{Agent, ApprovalDecided};
use reins_schema::{
    CallId, CancelCause, Draft, Event, Failure, FailureCode, Message, MessageId, Payload,
    SpliceOutcome, TurnEndReason, Usage,
};
use reins_session::{Refusal, Status};
use reins_world::CancelToken;
use uuid::Uuid;

/// What a run is given.
pub struct RunOrder<'a> {
    /// The prompt.
    pub prompt: String,
    /// Says what made the prompt; committed before it. An event of a registered type.
    pub before: Option<Draft>,
    /// Fires when the user wants it to stop.
    pub cancel: CancelToken,
    /// Sees every committed event from the run's start on, in order.
    pub watch: &'a mut (dyn FnMut(&Event) + Send),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum RunEnd {
    /// The turn of the prompt ended. Or one ended in a way that leaves the prompt waiting in the
    /// inbox: by a cancel, by a failure, or by a limit before any step.
    Turn(TurnEndReason),
    /// The prompt was taken out of the inbox before its turn.
    Removed,
    /// The prompt was not accepted.
    Refused(String),
    /// The log cannot be written any more.
    StoreFailed(String),
}

/// A call that was not allowed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Denied {
    /// The call.
    pub call: CallId,
    /// The tool.
    pub tool: String,
    /// What the model was told.
    pub reason: String,
    /// Nobody was there to ask.
    pub unanswered: bool,
}

/// What a run did.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    /// How it ended.
    pub end: RunEnd,
    /// The turn of the prompt, once it had one.
    pub turn: Option<u64>,
    /// The last non-empty text of the model in that turn.
    pub text: String,
    /// Of all attempts of the run.
    pub usage: Usage,
    /// Steps of the run.
    pub steps: u64,
    /// Calls of the run.
    pub tool_calls: u64,
    /// Calls that were not allowed.
    pub denied: Vec<Denied>,
}

/// Sends the prompt and waits for the turn that takes it. Parked input runs first.
pub async fn run(agent: &Agent, order: RunOrder<'_>) -> RunOutcome {
    let id = MessageId::new(Uuid::now_v7().to_string());
    let from = agent.next_seq();
    let mut events = agent.events(from);
    let mut progress = Progress::new(id.clone(), from);
    if order.cancel.is_cancelled() {
        let cause = CancelCause::User;
        return progress.outcome(RunEnd::Turn(TurnEndReason::Aborted { cause }));
    }
    let before = match order.before {
        Some(draft) => agent.commit(draft).await.map(drop),
        None => Ok(()),
    };
    let accepted = match before {
        Ok(()) => agent.followup(Message::user(id, order.prompt)).await,
        Err(refusal) => Err(refusal),
    };
    if let Err(Refusal(reason)) = accepted {
        let end = agent.dead().map_or(RunEnd::Refused(reason), RunEnd::StoreFailed);
        return progress.outcome(end);
    }
    let (mut status, mut idle) = (agent.status(), agent.status());
    let mut cancelled = false;
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = order.cancel.cancelled(), if !cancelled => {
                cancelled = true;
                agent.cancel(CancelCause::User, true).await;
                continue;
            }
            dead = status.wait_for(|status| *status == Status::Dead) => {
                if dead.is_ok() { None } else { events.next().await }
            }
            // Between two turns: a cancel parks the prompt, and so does a limit that left no step.
            _ = idle.wait_for(|status| *status == Status::Idle),
                if progress.open_turn.is_none() && (cancelled || progress.parked.is_some()) =>
            {
                if progress.next_seq >= agent.next_seq() {
                    let aborted = TurnEndReason::Aborted { cause: CancelCause::User };
                    let parked = progress.parked.take().filter(|_| !cancelled);
                    return progress.outcome(RunEnd::Turn(parked.unwrap_or(aborted)));
                }
                events.next().await
            }
        };
        let Some(event) = event else {
            let words = agent.dead().unwrap_or_else(|| "the session was closed".to_owned());
            return progress.outcome(RunEnd::StoreFailed(words));
        };
        (order.watch)(&event);
        if let Some(end) = progress.see(&event) {
            return progress.outcome(end);
        }
    }
}

struct Progress {
    prompt: MessageId,
    /// After the last event that was seen.
    next_seq: u64,
    open_turn: Option<u64>,
    /// The open turn has a step.
    stepped: bool,
    /// How the last turn ended, when a limit ended it before its first step.
    parked: Option<TurnEndReason>,
    turn: Option<u64>,
    names: std::collections::HashMap<CallId, String>,
    unanswered: Vec<CallId>,
    outcome: RunOutcome,
}

impl Progress {
    fn new(prompt: MessageId, next_seq: u64) -> Self {
        Self {
            prompt,
            next_seq,
            open_turn: None,
            stepped: false,
            parked: None,
            turn: None,
            names: Default::default(),
            unanswered: Vec::new(),
            outcome: RunOutcome {
                end: RunEnd::Removed,
                turn: None,
                text: String::new(),
                usage: Usage::default(),
                steps: 0,
                tool_calls: 0,
                denied: Vec::new(),
            },
        }
    }

    fn outcome(mut self, end: RunEnd) -> RunOutcome {
        self.outcome.end = end;
        self.outcome.turn = self.turn;
        self.outcome
    }

    /// Takes one event; the run's end when this is it.
    fn see(&mut self, event: &Arc<Event>) -> Option<RunEnd> {
        self.next_seq = event.seq + 1;
        if event.body.kind == ApprovalDecided::TYPE {
            self.see_decision(event);
            return None;
        }
        match Payload::read(&event.body).ok()? {
            Payload::TurnStart(start) => {
                (self.open_turn, self.stepped, self.parked) = (Some(start.turn), false, None);
            }
            Payload::UserMessage(entered) if entered.inbox.contains(&self.prompt) => {
                self.turn = self.open_turn;
            }
            Payload::InboxSpliced(splice) if splice.removed.contains(&self.prompt) => {
                match splice.outcome {
                    Some(SpliceOutcome::Rejected | SpliceOutcome::Dropped) => {
                        self.turn = self.open_turn;
                    }
                    _ => return Some(RunEnd::Removed),
                }
            }
            Payload::StepStart(_) => {
                self.stepped = true;
                self.outcome.steps += 1;
            }
            Payload::ToolCall(call) => {
                self.outcome.tool_calls += 1;
                self.names.insert(call.call_id, call.name);
            }
            Payload::ToolResult(result) => self.see_result(&result),
            Payload::AssistantAttempt(attempt) => self.add_usage(attempt.usage),
            Payload::AssistantMessage(answer) => {
                self.add_usage(answer.usage);
                let text = answer.message.text();
                if self.turn.is_some() && !text.trim().is_empty() {
                    self.outcome.text = text;
                }
            }
            Payload::TurnEnd(end) => return self.see_end(end.turn, end.reason),
            _ => {}
        }
        None
    }

    fn see_end(&mut self, turn: u64, reason: TurnEndReason) -> Option<RunEnd> {
        self.open_turn = None;
        if self.turn == Some(turn) {
            return Some(RunEnd::Turn(reason));
        }
        if matches!(reason, TurnEndReason::Limit { .. }) && !self.stepped {
            self.parked = Some(reason);
            return None;
        }
        // The turn of parked input, or one that repair closes when a session is opened. Only after
        // these does the agent go on by itself.
        let goes_on = matches!(
            reason,
            TurnEndReason::Completed
                | TurnEndReason::MaxTokens
                | TurnEndReason::Limit { .. }
                | TurnEndReason::Interrupted
        );
        (!goes_on).then_some(RunEnd::Turn(reason))
    }

    fn see_decision(&mut self, event: &Event) {
        if let Ok(decided) = serde_json::from_str::<ApprovalDecided>(event.body.data.get())
            && decided.outcome == "unavailable"
        {
            self.unanswered.push(decided.call_id);
        }
    }

    fn see_result(&mut self, result: &reins_schema::ToolResult) {
        if result.error.as_ref().is_none_or(|error| error.code != "DENIED") {
            return;
        }
        for block in &result.message.content {
            let reins_schema::Block::ToolResult(answer) = block else { continue };
            let texts = answer.content.iter().filter_map(|block| match block {
                reins_schema::Block::Text(text) => Some(text.as_str()),
                _ => None,
            });
            let call = answer.tool_call_id.clone();
            self.outcome.denied.push(Denied {
                tool: self.names.get(&call).cloned().unwrap_or_default(),
                reason: texts.collect(),
                unanswered: self.unanswered.contains(&call),
                call,
            });
        }
    }

    fn add_usage(&mut self, usage: Option<Usage>) {
        self.outcome.usage = self.outcome.usage.plus(usage.unwrap_or_default());
    }
}

impl RunEnd {
    /// The failure behind this end, when there is one.
    pub fn failure(&self) -> Option<Failure> {
        match self {
            Self::Turn(TurnEndReason::Error { failure }) => Some(failure.clone()),
            Self::StoreFailed(words) => {
                Some(Failure::new(FailureCode::Other("STORE".to_owned()), words))
            }
            Self::Refused(words) => {
                Some(Failure::new(FailureCode::Other("REFUSED".to_owned()), words))
            }
            _ => None,
        }
    }
}
