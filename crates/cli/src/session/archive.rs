//! `reins session archive`

use serde::Serialize;

use super::Sessions;
use super::args::ArchiveArgs;
use super::words::object;
use crate::exit::{self, CliError};
use crate::terminal;

#[derive(Serialize)]
struct Object<'a> {
    schema: &'static str,
    session: &'a str,
    archived: bool,
}

pub(super) async fn archive(sessions: &Sessions<'_>, args: &ArchiveArgs) -> Result<u8, CliError> {
    let id = sessions.find(&args.id).await?;
    let archived = !args.undo;
    sessions.store().archive(&id, archived).await?;
    if args.form.json {
        object(&Object { schema: "reins.session.archive/1", session: id.as_str(), archived })?;
    } else if archived {
        terminal::note(&format!(
            "session {id} is archived: `session list` shows it with --all, and --undo takes it back"
        ));
    } else {
        terminal::note(&format!("session {id} is not archived any more"));
    }
    Ok(exit::COMPLETED)
}
