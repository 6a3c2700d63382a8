//! `reins session remove`

use std::io::{BufRead as _, IsTerminal as _};
use std::time::Duration;

use reins_schema::SessionId;
use reins_store::{ListFilter, SessionState, SessionSummary, StoreError};
use serde::Serialize;

use super::Sessions;
use super::args::RemoveArgs;
use super::list::line;
use super::words::{object, size};
use crate::exit::{self, CliError};
use crate::terminal;

#[derive(Default, Serialize)]
struct Object {
    schema: &'static str,
    dry_run: bool,
    removed: Vec<SessionId>,
    kept: Vec<Kept>,
}

#[derive(Serialize)]
struct Kept {
    id: SessionId,
    reason: String,
}

pub(super) async fn remove(sessions: &Sessions<'_>, args: &RemoveArgs) -> Result<u8, CliError> {
    let chosen = match args.older {
        Some(age) => older(sessions, age).await?,
        None => named(sessions, &args.ids).await?,
    };
    let mut object_of = Object { schema: "reins.session.remove/1", ..Object::default() };
    // Before the question; without one each is told when it is gone.
    let is_told = !args.form.json && (args.dry_run || !args.yes);
    if is_told {
        chosen.iter().try_for_each(|session| terminal::output(&line(session)))?;
    }
    if args.dry_run {
        object_of.dry_run = true;
        object_of.removed = chosen.iter().map(|session| session.header.id.clone()).collect();
        return end(args, &object_of, &chosen);
    }
    if chosen.is_empty() {
        return end(args, &object_of, &chosen);
    }
    if !args.yes && !agreed(chosen.len()).await? {
        terminal::note("nothing was removed");
        return Ok(exit::COMPLETED);
    }
    for session in &chosen {
        let id = session.header.id.clone();
        match sessions.store().remove(&id).await {
            Ok(()) => {
                object_of.removed.push(id);
                if !args.form.json && !is_told {
                    terminal::output(&line(session))?;
                }
            }
            // Somebody took it up, or removed it, meanwhile.
            Err(error @ (StoreError::Busy { .. } | StoreError::NotFound { .. }))
                if args.older.is_some() =>
            {
                object_of.kept.push(Kept { id, reason: error.to_string() });
            }
            Err(error) => {
                tell_removed(args, &object_of);
                return Err(error.into());
            }
        }
    }
    end(args, &object_of, &chosen)
}

/// What an error does not undo is told.
fn tell_removed(args: &RemoveArgs, object_of: &Object) {
    if !args.form.json && !object_of.removed.is_empty() {
        let count = terminal::count(object_of.removed.len() as u64, "session");
        terminal::note(&format!("{count} removed before that"));
    }
}

fn end(args: &RemoveArgs, of: &Object, chosen: &[SessionSummary]) -> Result<u8, CliError> {
    if args.form.json {
        object(of)?;
        return Ok(exit::COMPLETED);
    }
    for kept in &of.kept {
        terminal::note(&format!("kept: {}", kept.reason));
    }
    let bytes = chosen.iter().filter(|session| of.removed.contains(&session.header.id));
    let bytes = size(bytes.map(|session| session.bytes).sum());
    let count = terminal::count(of.removed.len() as u64, "session");
    terminal::note(&match (of.removed.is_empty(), of.dry_run) {
        (true, _) => "no session is that old".to_owned(),
        (false, true) => format!("{count} of {bytes} would be removed"),
        (false, false) => format!("{count} of {bytes} removed"),
    });
    Ok(exit::COMPLETED)
}

/// Sessions by name, each once.
async fn named(sessions: &Sessions<'_>, typed: &[String]) -> Result<Vec<SessionSummary>, CliError> {
    let mut ids = Vec::new();
    for typed in typed {
        let id = sessions.find(typed).await?;
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    let filter = ListFilter { archived: true, ..ListFilter::default() };
    let listed = sessions.store().list(filter).await?.sessions;
    let chosen = ids.into_iter().map(|id| {
        let found = listed.iter().find(|session| session.header.id == id).cloned();
        // Its folder is there and cannot be read, so that nobody knows what would be lost.
        found.ok_or_else(|| {
            let text = format!("session {id} cannot be read, so it is not removed");
            let hint = format!("`reins session path {id}` says where it is; remove that by hand");
            CliError::new(exit::SESSION, "SESSION_UNREADABLE", text).with_hint(hint)
        })
    });
    chosen.collect()
}

/// Sessions that nobody used for so long.
async fn older(sessions: &Sessions<'_>, age: Duration) -> Result<Vec<SessionSummary>, CliError> {
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let before = sessions.host.clock().now_ms().saturating_sub(age);
    let filter = ListFilter { older_than: Some(before), ..ListFilter::default() };
    let mut listed = sessions.store().list(filter).await?.sessions;
    listed.retain(|session| !matches!(session.state, SessionState::Live(_)));
    Ok(listed)
}

/// Asks on the terminal.
async fn agreed(count: usize) -> Result<bool, CliError> {
    if !std::io::stdin().is_terminal() || !terminal::is_watched() {
        let text = "there is no terminal to ask on";
        let hint = "--yes removes without asking; --dry-run says what it would be";
        return Err(CliError::usage(text).with_hint(hint));
    }
    let what = terminal::count(count as u64, "session");
    terminal::note_part(&format!("remove {what} for good? [y/N] "));
    let answer = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).map(|_| line)
    });
    let answer = answer.await.map_err(|e| CliError::internal(e.to_string()))?;
    let answer = answer.map_err(|e| CliError::usage(format!("standard input: {e}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
