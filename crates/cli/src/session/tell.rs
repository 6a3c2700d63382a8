//! A session's events in words for people.

use std::collections::HashMap;

use reins_agent::{CommandRun, CompositionChanged, PresetSelected};
use reins_schema::{Block, CallId, Event, Message, Payload, Source, ToolResult, ToolResultBlock};

use super::words::in_line;
use crate::terminal;

/// Cells that a call of a prompt may take; the message below has all of it.
const CALL_CELLS: usize = 100;

/// Who said it: a person, the harness, or which model.
pub(super) fn speaker(source: &Source) -> String {
    match source {
        Source::User => "you".to_owned(),
        Source::Model { provider, model, .. } => format!("model {provider}/{model}"),
        Source::Tool { .. } => "tool".to_owned(),
        Source::Plugin { .. } => "reins".to_owned(),
        Source::Unknown(_) => "?".to_owned(),
    }
}

/// Tells a session, event by event.
#[derive(Default)]
pub(super) struct Teller {
    /// The tools that are asked for.
    calls: HashMap<CallId, String>,
    /// Prompts that were called and whose turn has not begun: they are told with it.
    called: String,
    /// After the last event that was told.
    next_seq: Option<u64>,
}

impl Teller {
    pub(super) fn tell(&mut self, event: &Event) -> String {
        let lost = self.next_seq.replace(event.seq + 1).filter(|next| *next < event.seq);
        let lost = lost.map(|first| gap_text(first, event.seq - 1)).unwrap_or_default();
        lost + &self.tell_event(event)
    }

    /// What was not told because its turn never began.
    pub(super) fn rest(&self) -> &str {
        &self.called
    }

    fn tell_event(&mut self, event: &Event) -> String {
        if event.body.kind == CommandRun::TYPE {
            self.called.extend(command_text(event));
            return String::new();
        }
        let mut text = describe(event, &mut self.calls).unwrap_or_default();
        if event.body.kind == "turn/start" {
            text.push_str(&std::mem::take(&mut self.called));
        }
        text
    }
}

/// Numbers that no event of the log has.
fn gap_text(first: u64, last: u64) -> String {
    match first == last {
        true => format!("[{first}] lost\n"),
        false => format!("[{first} to {last}] lost\n"),
    }
}

/// A message that a person or a model said, without calls and results; none for others.
pub(super) fn said(event: &Event) -> Option<Message> {
    let message = match Payload::read(&event.body).ok()? {
        Payload::UserMessage(entered) => entered.message,
        Payload::AssistantMessage(answer) => answer.message,
        _ => return None,
    };
    let is_speech = matches!(message.source, Source::User | Source::Model { .. });
    (is_speech && !message.text().is_empty()).then_some(message)
}

/// What was said in a message, on its lines.
pub(super) fn said_text(seq: u64, message: &Message) -> String {
    let words = message.text();
    format!("[{seq}] {}: {}\n", speaker(&message.source), words.trim_end_matches('\n'))
}

/// A message as the model reads it, on its lines.
pub(super) fn message_text(seq: u64, message: &Message) -> String {
    let who = speaker(&message.source);
    let mut parts = Vec::new();
    for block in &message.content {
        match block {
            Block::Text(text) => parts.push(text.clone()),
            Block::ToolCall(call) => parts.push(format!("→ {} {}", call.name, call.arguments)),
            Block::ToolResult(answer) => parts.push(answer_text(answer)),
            _ => {}
        }
    }
    format!("[{seq}] {who}: {}\n", parts.join("\n").trim_end_matches('\n'))
}

fn answer_text(answer: &ToolResultBlock) -> String {
    let texts = answer.content.iter().filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}

/// What people want to see of an event; nothing for the bookkeeping. `calls` holds the tools that
/// are asked for.
fn describe(event: &Event, calls: &mut HashMap<CallId, String>) -> Option<String> {
    let text = match Payload::read(&event.body).ok()? {
        Payload::TurnStart(start) => format!("\n== turn {} ==\n", start.turn),
        Payload::UserMessage(entered) => message_text(event.seq, &entered.message),
        Payload::AssistantMessage(answer) => {
            for call in answer.message.calls() {
                calls.insert(call.id.clone(), call.name.clone());
            }
            message_text(event.seq, &answer.message)
        }
        Payload::AssistantAttempt(attempt) => {
            format!("[{}] attempt {} failed: {}\n", event.seq, attempt.attempt, attempt.failure)
        }
        Payload::ToolResult(result) => result_text(event.seq, &result, calls),
        Payload::TurnEnd(end) => format!("[{}] turn ended: {}\n", event.seq, end.reason.word()),
        Payload::SessionRecovered(facts) => {
            let words = super::words::recovered(&facts, None);
            format!("[{}] recovered: {words}\n", event.seq)
        }
        Payload::SessionMoved(moved) => {
            let to = in_line(&moved.to.display().to_string());
            format!("[{}] moved to {to}\n", event.seq)
        }
        Payload::SessionRepaired(_) => {
            format!("[{}] repaired after an unexpected end\n", event.seq)
        }
        Payload::LimitReached(limit) => format!("[{}] limit {} reached\n", event.seq, limit.name),
        Payload::Other if event.body.kind == CompositionChanged::TYPE => rows_text(event)?,
        Payload::Other => {
            format!("[{}] agent preset {}\n", event.seq, in_line(&PresetSelected::of(event)?))
        }
        _ => return None,
    };
    Some(text)
}

/// A prompt of one's own that was called: what was typed, and the file that it is in.
fn command_text(event: &Event) -> Option<String> {
    let run: CommandRun = serde_json::from_str(event.body.data.get()).ok()?;
    let typed = terminal::one_line(format!("/{} {}", run.name, run.args).trim_end(), CALL_CELLS);
    let file = run.file.map(|file| format!(" ({file})")).unwrap_or_default();
    Some(format!("[{}] called {}{}\n", event.seq, typed, in_line(&file)))
}

/// The rows that the agent took up, or why it did not.
fn rows_text(event: &Event) -> Option<String> {
    let changed: CompositionChanged = serde_json::from_str(event.body.data.get()).ok()?;
    let rows = changed.rows.iter().map(|row| format!("{} {} ({})", row.row, row.what, row.place));
    let rows: Vec<String> = rows.collect();
    let how = match &changed.refused {
        None => "rows taken up".to_owned(),
        Some(problem) => format!("rows not taken up: {problem}"),
    };
    let told = if rows.is_empty() { how } else { format!("{how}: {}", rows.join(", ")) };
    Some(format!("[{}] {}\n", event.seq, in_line(&told)))
}

fn result_text(seq: u64, result: &ToolResult, calls: &HashMap<CallId, String>) -> String {
    let (tool, failed, text) = result_of(result, calls);
    let failed = if failed { " (failed)" } else { "" };
    format!("[{seq}] result of {tool}{failed}: {}\n", text.trim_end_matches('\n'))
}

/// The tool of a result, whether it failed, and what it says.
pub(super) fn result_of<'a>(
    result: &ToolResult,
    calls: &'a HashMap<CallId, String>,
) -> (&'a str, bool, String) {
    let answers = result.message.content.iter().filter_map(|block| match block {
        Block::ToolResult(answer) => Some(answer),
        _ => None,
    });
    let answers: Vec<&ToolResultBlock> = answers.collect();
    let text = answers.iter().map(|answer| answer_text(answer)).collect();
    let tool = answers.first().and_then(|answer| calls.get(&answer.tool_call_id));
    let failed = answers.iter().any(|answer| answer.is_error);
    (tool.map_or("?", String::as_str), failed, text)
}

#[cfg(test)]
mod tests {
    use reins_agent::{ChangedRow, EventType, draft};

    use super::*;

    fn told(rows: usize, refused: Option<&str>) -> String {
        let row = ChangedRow {
            row: "bash".to_owned(),
            what: "changed".to_owned(),
            place: "a\nb.toml:3".to_owned(),
        };
        let rows = vec![row; rows];
        let changed =
            CompositionChanged { generation: 2, rows, refused: refused.map(str::to_owned) };
        let of = EventType { version: 1, ignorable: true, keep_last: false };
        let body = draft(CompositionChanged::TYPE, of, &changed).unwrap();
        Teller::default().tell(&Event { seq: 7, time: 1, body })
    }

    #[test]
    fn changed_rows_are_told_in_one_line() {
        let row = "bash changed (a\\u{a}b.toml:3)";
        assert_eq!(told(2, None), format!("[7] rows taken up: {row}, {row}\n"));
        let refused = format!("[7] rows not taken up: no\\u{{a}}tool: {row}\n");
        assert_eq!(told(1, Some("no\ntool")), refused);
        assert_eq!(told(0, None), "[7] rows taken up\n");
    }
}
