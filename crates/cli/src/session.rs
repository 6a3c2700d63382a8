//! `reins session`

use reins_host::SessionView;
use reins_schema::{Block, Event, Payload, Role, SessionId};
use reins_store::SessionSummary;

use crate::args::{ComposeArgs, SessionCommand};
use crate::exit::CliError;
use crate::start::Start;
use crate::terminal;

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
        terminal::note(&format!("damaged: {}: {problem}", path.display()));
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
        terminal::shown(&session.header.cwd.to_string_lossy()),
        terminal::one_line(prompt, 60),
    )
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
    let mut shown = Ok(());
    let mut each = |event: &Event| {
        if shown.is_ok()
            && let Some(text) = describe(event)
        {
            shown = print(&text);
        }
    };
    let view = SessionView::read(host.store().as_ref(), &id, &mut each).await;
    host.stop().await;
    shown?;
    let view = view.map_err(|e| CliError::from(e.0))?;
    print(&format!(
        "\n{} events, {} turns, {} tokens in, {} out\n",
        view.events,
        view.turns,
        view.usage.input_tokens + view.usage.cache_read_tokens,
        view.usage.output_tokens
    ))?;
    Ok(crate::exit::COMPLETED)
}

/// What people want to see of an event; nothing for the bookkeeping.
fn describe(event: &Event) -> Option<String> {
    let text = match Payload::read(&event.body).ok()? {
        Payload::TurnStart(start) => format!("\n== turn {} ==\n", start.turn),
        Payload::UserMessage(entered) => {
            let who = if entered.inbox.is_empty() { "reins" } else { "you" };
            format!("[{}] {who}: {}\n", event.seq, entered.message.text())
        }
        Payload::AssistantMessage(answer) => {
            let blocks = answer.message.content.iter().filter_map(|block| match block {
                Block::Text(text) => Some(text.clone()),
                Block::ToolCall(call) => Some(format!("→ {} {}", call.name, call.arguments)),
                _ => None,
            });
            let lines: Vec<String> = blocks.collect();
            let who = if answer.message.role == Role::Assistant { "model" } else { "?" };
            format!("[{}] {who}: {}\n", event.seq, lines.join("\n"))
        }
        Payload::AssistantAttempt(attempt) => {
            format!("[{}] attempt {} failed: {}\n", event.seq, attempt.attempt, attempt.failure)
        }
        Payload::ToolResult(result) => {
            let texts = result.message.content.iter().filter_map(|block| match block {
                Block::ToolResult(answer) => Some(answer.content.iter()),
                _ => None,
            });
            let texts = texts.flatten().filter_map(|block| match block {
                Block::Text(text) => Some(text.as_str()),
                _ => None,
            });
            format!("[{}] result: {}\n", event.seq, texts.collect::<String>())
        }
        Payload::TurnEnd(end) => format!("[{}] turn ended: {}\n", event.seq, end.reason.word()),
        Payload::SessionRecovered(facts) => {
            format!("[{}] recovered: {} (kept in {})\n", event.seq, facts.damage, facts.kept_in)
        }
        Payload::SessionRepaired(_) => {
            format!("[{}] repaired after an unexpected end\n", event.seq)
        }
        Payload::LimitReached(limit) => format!("[{}] limit {} reached\n", event.seq, limit.name),
        _ => return None,
    };
    Some(terminal::shown(&text))
}

fn print(text: &str) -> Result<(), CliError> {
    terminal::print(text).map_err(|e| CliError::internal(format!("standard output: {e}")))
}
