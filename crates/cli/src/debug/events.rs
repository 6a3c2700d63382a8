//! What the log says of a session's events: numbers and names, never content.

use std::collections::HashMap;
use std::time::Instant;

use reins_schema::{CallId, Event, Failure, FailureCode, Payload, ToolResult, Usage};
use serde_json::Value;

use crate::terminal;

/// Cells that a name which a model chose may take.
const NAME_CELLS: usize = 60;

/// Follows the events of a run and logs what they say about its course.
pub(crate) struct Watch {
    is_on: bool,
    tools: HashMap<CallId, String>,
    started: HashMap<CallId, Instant>,
    sent: Option<Instant>,
}

impl Watch {
    /// Of a run that begins now.
    pub(crate) fn new() -> Self {
        Self {
            is_on: log::log_enabled!(log::Level::Debug),
            tools: HashMap::new(),
            started: HashMap::new(),
            sent: None,
        }
    }

    /// Takes the next event.
    pub(crate) fn see(&mut self, event: &Event) {
        if !self.is_on {
            return;
        }
        let Ok(payload) = Payload::read(&event.body) else { return };
        match payload {
            Payload::TurnStart(start) => log::info!("turn {} starts", start.turn),
            Payload::RequestSent(sent) => {
                self.sent = Some(Instant::now());
                log::debug!(
                    "request of turn {} step {} attempt {}: {} items, {} bytes, {} shared",
                    sent.turn,
                    sent.step,
                    sent.attempt,
                    sent.items,
                    sent.bytes,
                    sent.shared,
                );
            }
            Payload::AssistantMessage(answer) => {
                let usage = usage(answer.usage);
                log::info!("answer of step {} after {} ms{usage}", answer.step, self.waited());
            }
            Payload::AssistantAttempt(attempt) => {
                let (number, why) = (attempt.attempt, failure(&attempt.failure));
                log::warn!("attempt {number} failed after {} ms: {why}", self.waited());
            }
            Payload::LlmRetry(retry) => {
                let (number, delay) = (retry.retry, retry.delay_ms);
                log::info!("retry {number} in {delay} ms: {}", failure(&retry.failure));
            }
            Payload::ToolCall(call) => drop(self.tools.insert(call.call_id, name(&call.name))),
            Payload::ToolStart(start) => {
                let tool = self.tool(&start.call_id);
                log::debug!("tool {tool} starts, call {}", name(start.call_id.as_str()));
                self.started.insert(start.call_id, Instant::now());
            }
            Payload::ToolResult(result) => self.result(&result),
            Payload::LimitReached(limit) => log::info!("limit {} reached", name(&limit.name)),
            Payload::SessionRecovered(_) => log::warn!("session recovered at {}", event.seq),
            Payload::SessionRepaired(facts) => {
                let (unknown, unstarted) = (facts.outcome_unknown.len(), facts.not_started.len());
                log::warn!("turn repaired: {unknown} calls unknown, {unstarted} not started");
            }
            Payload::TurnEnd(end) => log::info!("turn {} ends: {}", end.turn, end.reason.word()),
            _ => {}
        }
    }

    fn result(&mut self, result: &ToolResult) {
        for block in &result.message.content {
            let reins_schema::Block::ToolResult(answer) = block else { continue };
            let took = self.started.remove(&answer.tool_call_id).map(|since| since.elapsed());
            let took = took.map(|took| format!(" after {} ms", took.as_millis()));
            let took = took.unwrap_or_else(|| " without a start".to_owned());
            let error = result.error.as_ref().map(|error| format!(", {}", name(&error.code)));
            let how = error.or_else(|| exit(result)).unwrap_or_default();
            log::debug!("tool {} ends{took}{how}", self.tool(&answer.tool_call_id));
            self.tools.remove(&answer.tool_call_id);
        }
    }

    fn tool(&self, call: &CallId) -> &str {
        self.tools.get(call).map_or("?", String::as_str)
    }

    fn waited(&mut self) -> u128 {
        self.sent.take().map_or(0, |since| since.elapsed().as_millis())
    }
}

/// A name that a model or a plugin chose.
fn name(text: &str) -> String {
    terminal::one_line(text, NAME_CELLS)
}

/// The provider's words stay out: they may quote what was sent.
pub(super) fn failure(failure: &Failure) -> String {
    let code = match &failure.code {
        FailureCode::Other(code) => name(code),
        code => code.as_str().to_owned(),
    };
    failure.status.map_or_else(|| code.clone(), |status| format!("{code}, status {status}"))
}

fn usage(usage: Option<Usage>) -> String {
    let Some(usage) = usage else { return String::new() };
    let (read, cached, written) =
        (usage.total_input(), usage.cache_read_tokens, usage.output_tokens);
    format!(": {read} tokens in ({cached} cached), {written} out")
}

fn exit(result: &ToolResult) -> Option<String> {
    let meta: Value = serde_json::from_str(result.meta.as_ref()?.get()).ok()?;
    let code = meta.get("exitCode")?.as_i64();
    Some(code.map_or_else(|| ", no exit code".to_owned(), |code| format!(", exit {code}")))
}
