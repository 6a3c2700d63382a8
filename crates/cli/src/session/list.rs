//! `reins session list`

use reins_store::{ListFilter, SessionState, SessionSummary};
use serde::Serialize;

use super::Sessions;
use super::args::ListArgs;
use super::words::{SummaryObject, directory, holder, in_line, local_time, object};
use crate::exit::{self, CliError};
use crate::terminal;

/// Cells of a prompt.
const PROMPT_CELLS: usize = 60;

#[derive(Serialize)]
struct Object {
    schema: &'static str,
    sessions: Vec<SummaryObject>,
    damaged: Vec<Stranger>,
    total: usize,
}

/// What looks like a session and is none.
#[derive(Serialize)]
struct Stranger {
    path: String,
    problem: String,
}

pub(super) async fn list(sessions: &Sessions<'_>, args: &ListArgs) -> Result<u8, CliError> {
    let filter = ListFilter {
        cwd: args.cwd.then(|| sessions.start.cwd.clone()),
        archived: args.all,
        limit: args.limit,
        older_than: None,
    };
    let listing = sessions.store().list(filter).await?;
    if args.form.json {
        let damaged = listing.damaged.iter().map(|(path, problem)| Stranger {
            path: path.to_string_lossy().into_owned(),
            problem: problem.clone(),
        });
        object(&Object {
            schema: "reins.session.list/1",
            sessions: listing.sessions.iter().map(SummaryObject::of).collect(),
            damaged: damaged.collect(),
            total: listing.total,
        })?;
        return Ok(exit::COMPLETED);
    }
    for session in &listing.sessions {
        terminal::output(&line(session))?;
    }
    for (path, problem) in &listing.damaged {
        terminal::note(&in_line(&format!("damaged: {}: {problem}", path.display())));
    }
    let left_out = listing.total.saturating_sub(listing.sessions.len());
    if left_out > 0 {
        terminal::note(&format!("and {left_out} more; a higher --limit shows them"));
    }
    if listing.total == 0 && listing.damaged.is_empty() {
        let none = if args.cwd { "no sessions of this directory yet" } else { "no sessions yet" };
        terminal::note(&format!("{none}; `reins demo` makes one without a key"));
    }
    Ok(exit::COMPLETED)
}

/// One session on its line.
pub(super) fn line(session: &SessionSummary) -> String {
    let prompt = session.first_prompt.as_deref().unwrap_or("(no prompt yet)");
    format!(
        "{}  {}  {}  {}{}\n",
        session.header.id,
        local_time(session.modified),
        directory(&session.cwd),
        marks(session),
        terminal::one_line(prompt, PROMPT_CELLS),
    )
}

/// What is not as usual with it.
fn marks(session: &SessionSummary) -> String {
    let mut marks = Vec::new();
    match &session.state {
        SessionState::Idle => {}
        SessionState::InTurn => marks.push("interrupted".to_owned()),
        SessionState::Live(lease) => marks.push(format!("in use by {}", holder(lease))),
    }
    marks.extend(session.archived.then(|| "archived".to_owned()));
    marks.extend(session.problem.as_ref().map(|_| "damaged".to_owned()));
    if marks.is_empty() { String::new() } else { format!("[{}] ", marks.join(", ")) }
}
