//! One event as one line, and the other way round for what plugins commit.

use reins_schema::{
    Block, CancelCause, Draft, Event, InboxSpliced, InboxTarget, Message, MessageId, Payload,
    SourceRange, SpliceOutcome, SurfaceOp, ToolResult, TurnEndReason, UserMessage,
};
use serde_json::value::RawValue;

use super::stage::content;

pub(crate) fn event_line(event: &Event) -> String {
    let kind = &event.body.kind;
    let detail = match Payload::read(&event.body) {
        Ok(payload) => detail(&payload),
        Err(problem) => problem.to_string(),
    };
    let mut line = format!("{} {kind} {detail}", event.seq).trim_end().to_owned();
    if let Some(SurfaceOp::Replace(first, last)) = event.body.surface {
        line.push_str(&format!(" replaces {first}..{last}"));
    }
    if !event.body.sources.is_empty() {
        let source = |range: &SourceRange| match range.bounds() {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        let sources: Vec<String> = event.body.sources.iter().map(source).collect();
        line.push_str(&format!(" <{}", sources.join(",")));
    }
    line
}

fn detail(payload: &Payload) -> String {
    match payload {
        Payload::TurnStart(p) => p.turn.to_string(),
        Payload::TurnEnd(p) => format!("{} {}", p.turn, reason(&p.reason)),
        Payload::StepStart(p) => p.step.to_string(),
        Payload::StepEnd(p) => p.step.to_string(),
        Payload::UserMessage(p) => {
            let inbox: Vec<&str> = p.inbox.iter().map(MessageId::as_str).collect();
            let (id, text) = (&p.message.id, content(&p.message));
            let short: String = text.chars().take(30).collect();
            format!("{id}: {short} -[{}]", inbox.join(" "))
        }
        Payload::AssistantChunk(p) => format!("#{}", p.attempt),
        Payload::AssistantAttempt(p) => format!("#{} {}", p.attempt, p.failure.code),
        Payload::AssistantMessage(p) => {
            format!("#{} {:?} {}", p.attempt, p.finish, content(&p.message))
        }
        Payload::ToolCall(p) => format!("{} {}", p.call_id, p.name),
        Payload::ToolStart(p) => p.call_id.to_string(),
        Payload::ToolResult(p) => result(p),
        Payload::InboxSpliced(p) => splice(p),
        Payload::RequestHeader(p) => format!("{} {:?}", p.config.model, p.reason),
        Payload::RequestContext(p) => p.model.clone(),
        Payload::RequestSent(p) => format!("{:?} #{} {} items", p.purpose, p.attempt, p.items),
        Payload::LlmRetry(p) => {
            format!("{} in {} ms after {}", p.retry, p.delay_ms, p.failure.code)
        }
        Payload::LlmRetryStarted(p) => p.retry.to_string(),
        Payload::LimitReached(p) => format!("{} {}", p.name, p.value),
        Payload::SessionRepaired(p) => {
            format!("{} unknown {:?} not started {:?}", p.turn, p.outcome_unknown, p.not_started)
        }
        Payload::SessionRecovered(_)
        | Payload::SessionMoved(_)
        | Payload::EndSeed(_)
        | Payload::Other => String::new(),
    }
}

fn reason(reason: &TurnEndReason) -> String {
    match reason {
        TurnEndReason::Aborted { cause: CancelCause::Hook { reason } } => {
            format!("aborted by {reason}")
        }
        TurnEndReason::Aborted { cause } => format!("aborted by {cause:?}"),
        TurnEndReason::Error { failure } => format!("error {}", failure.code),
        TurnEndReason::Limit { name } => format!("limit {name}"),
        other => other.word().to_owned(),
    }
}

fn result(p: &ToolResult) -> String {
    let id = match p.message.content.first() {
        Some(Block::ToolResult(block)) => block.tool_call_id.to_string(),
        _ => "none".to_owned(),
    };
    let code = p.error.as_ref().map_or("ok", |error| &error.code);
    format!("{id} {code}")
}

fn splice(p: &InboxSpliced) -> String {
    let mut words = vec![match p.target {
        InboxTarget::NextTurn => "next-turn".to_owned(),
        InboxTarget::NextStep => "next-step".to_owned(),
    }];
    words.extend(p.removed.iter().map(|id| format!("-{id}")));
    words.extend(p.inserted.iter().map(|message| format!("+{}", message.id)));
    words.extend(p.outcome.map(|outcome| {
        match outcome {
            SpliceOutcome::Rejected => "rejected",
            SpliceOutcome::Dropped => "dropped",
            SpliceOutcome::Canceled => "canceled",
        }
        .to_owned()
    }));
    words.join(" ")
}

/// `summary FIRST LAST`: a user message in place of a span of consecutive events; else an event
/// of that type.
pub(crate) fn draft(kind: &str, rest: &str) -> Draft {
    let numbers: Vec<u64> = rest.split(' ').filter_map(|word| word.parse().ok()).collect();
    if let ("summary", [first, last]) = (kind, numbers.as_slice()) {
        let message = Message::notice(MessageId::new("sum"), "compaction", "summary");
        let payload = Payload::from(UserMessage { message, inbox: Vec::new() });
        let sources = vec![SourceRange::Range(*first, *last)];
        if let Ok(mut draft) = payload.draft(sources) {
            draft.surface = Some(SurfaceOp::Replace(*first, *last));
            return draft;
        }
    }
    Draft {
        kind: kind.to_owned(),
        v: None,
        data: RawValue::from_string("{}".to_owned()).unwrap_or_default(),
        surface: None,
        sources: Vec::new(),
        ignorable: false,
    }
}
