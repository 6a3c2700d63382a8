//! `reins session`

use std::collections::HashMap;

use reins_agent::{CommandRun, CompositionChanged, PresetSelected};
use reins_host::{Host, SessionView};
use reins_schema::{
    Block, CallId, Event, Header, Payload, SessionId, Source, ToolResult, ToolResultBlock,
};
use reins_store::{DamageKind, SessionSummary, StoreError};

use crate::args::{ComposeArgs, SessionCommand};
use crate::exit::CliError;
use crate::start::Start;
use crate::terminal;

/// Cells that a call of a prompt may take; the message below has all of it.
const CALL_CELLS: usize = 100;

pub(crate) async fn session(start: &Start, command: SessionCommand) -> Result<u8, CliError> {
    match command {
        SessionCommand::List { compose } => list(start, &compose).await,
        SessionCommand::Show { id, compose } => show(start, &compose, SessionId::new(id)).await,
    }
}

async fn list(start: &Start, compose: &ComposeArgs) -> Result<u8, CliError> {
    let host = start.host(compose, None).await?;
    let listing = host.list().await;
    host.stop().await;
    let listing = listing?;
    for session in &listing.sessions {
        print(&line(session))?;
    }
    for (path, problem) in &listing.damaged {
        terminal::note(&in_line(&format!("damaged: {}: {problem}", path.display())));
    }
    if listing.sessions.is_empty() && listing.damaged.is_empty() {
        terminal::note("no sessions yet; `reins demo` makes one without a key");
    }
    Ok(crate::exit::COMPLETED)
}

fn line(session: &SessionSummary) -> String {
    let prompt = session.first_prompt.as_deref().unwrap_or("(no prompt yet)");
    format!(
        "{}  {}  {}  {}\n",
        session.header.id,
        local_time(session.modified),
        in_line(&session.header.cwd.display().to_string()),
        terminal::one_line(prompt, 60),
    )
}

/// Text that stays on its line: a name may contain line feeds.
fn in_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_unicode());
        } else {
            line.push(c);
        }
    }
    line
}

/// `2026-02-28 14:05` in the machine's time zone; the number itself when it is out of range.
fn local_time(unix_ms: i64) -> String {
    let Ok(time) = jiff::Timestamp::from_millisecond(unix_ms) else { return unix_ms.to_string() };
    let offset = jiff::tz::TimeZone::system().to_offset(time);
    let local = offset.to_datetime(time);
    format!("{} {:02}:{:02}", local.date(), local.hour(), local.minute())
}

async fn show(start: &Start, compose: &ComposeArgs, id: SessionId) -> Result<u8, CliError> {
    let host = start.host(compose, None).await?;
    let shown = tell(&host, &id).await;
    host.stop().await;
    let view = shown?;
    print(&format!("\n{}\n", totals(&view)))?;
    match view.problem {
        None => Ok(crate::exit::COMPLETED),
        Some(StoreError::Damaged(tail)) if tail.kind == DamageKind::Torn => {
            let text = format!("{tail}; the next run of this session keeps that aside and goes on");
            Err(CliError::new(crate::exit::SESSION, "SESSION_UNREADABLE", text))
        }
        Some(problem) => Err(problem.into()),
    }
}

async fn tell(host: &Host, id: &SessionId) -> Result<SessionView, CliError> {
    // The list leaves out what it cannot read, and that is said below.
    let listing = host.list().await?;
    if let Some(session) = listing.sessions.iter().find(|session| session.header.id == *id) {
        print(&head(&session.header))?;
    }
    let (mut told, mut teller) = (Ok(()), Teller::default());
    let mut each = |event: &Event| {
        if told.is_ok() {
            told = print(&teller.tell(event));
        }
    };
    let view = SessionView::read(host.store().as_ref(), id, &mut each).await;
    told?;
    print(&teller.called)?;
    view.map_err(|e| CliError::from(e.0))
}

fn head(header: &Header) -> String {
    let preset = header.agent_preset.as_deref().map(in_line);
    format!(
        "session {} of {}, in {}{}\n",
        header.id,
        local_time(header.created_at),
        in_line(&header.cwd.display().to_string()),
        preset.map(|preset| format!(", agent preset {preset}")).unwrap_or_default(),
    )
}

fn totals(view: &SessionView) -> String {
    let mut totals =
        vec![terminal::count(view.events, "event"), terminal::count(view.turns, "turn")];
    let usage = view.usage;
    let read = usage.total_input();
    if read > 0 || usage.output_tokens > 0 {
        totals.push(format!("{} in", terminal::count(read, "token")));
        totals.push(format!("{} out", usage.output_tokens));
    }
    totals.join(", ")
}

/// Who said it: a person, the harness, or which model.
fn speaker(source: &Source) -> String {
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
struct Teller {
    /// The tools that are asked for.
    calls: HashMap<CallId, String>,
    /// Prompts that were called and whose turn has not begun: they are told with it.
    called: String,
}

impl Teller {
    fn tell(&mut self, event: &Event) -> String {
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

/// What people want to see of an event; nothing for the bookkeeping. `calls` holds the tools that
/// are asked for.
fn describe(event: &Event, calls: &mut HashMap<CallId, String>) -> Option<String> {
    let text = match Payload::read(&event.body).ok()? {
        Payload::TurnStart(start) => format!("\n== turn {} ==\n", start.turn),
        Payload::UserMessage(entered) => {
            let who = speaker(&entered.message.source);
            format!("[{}] {who}: {}\n", event.seq, entered.message.text())
        }
        Payload::AssistantMessage(answer) => {
            for call in answer.message.calls() {
                calls.insert(call.id.clone(), call.name.clone());
            }
            let blocks = answer.message.content.iter().filter_map(|block| match block {
                Block::Text(text) => Some(text.clone()),
                Block::ToolCall(call) => Some(format!("→ {} {}", call.name, call.arguments)),
                _ => None,
            });
            let lines: Vec<String> = blocks.collect();
            let who = speaker(&answer.message.source);
            format!("[{}] {who}: {}\n", event.seq, lines.join("\n"))
        }
        Payload::AssistantAttempt(attempt) => {
            format!("[{}] attempt {} failed: {}\n", event.seq, attempt.attempt, attempt.failure)
        }
        Payload::ToolResult(result) => result_text(event.seq, &result, calls),
        Payload::TurnEnd(end) => format!("[{}] turn ended: {}\n", event.seq, end.reason.word()),
        Payload::SessionRecovered(facts) => {
            format!("[{}] recovered: {} (kept in {})\n", event.seq, facts.damage, facts.kept_in)
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
    let answers = result.message.content.iter().filter_map(|block| match block {
        Block::ToolResult(answer) => Some(answer),
        _ => None,
    });
    let answers: Vec<&ToolResultBlock> = answers.collect();
    let texts = answers.iter().flat_map(|answer| &answer.content).filter_map(|block| match block {
        Block::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let text: String = texts.collect();
    let tool = answers.first().and_then(|answer| calls.get(&answer.tool_call_id));
    let tool = tool.map_or("?", String::as_str);
    let failed = if answers.iter().any(|answer| answer.is_error) { " (failed)" } else { "" };
    format!("[{seq}] result of {tool}{failed}: {}\n", text.trim_end_matches('\n'))
}

fn print(text: &str) -> Result<(), CliError> {
    terminal::output(text)
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
