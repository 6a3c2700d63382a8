//! `reins session move`

use serde::Serialize;

use super::Sessions;
use super::args::MoveArgs;
use super::words::{object, place};
use crate::exit::{self, CliError};
use crate::terminal;

#[derive(Serialize)]
struct Object<'a> {
    schema: &'static str,
    session: &'a str,
    cwd: &'a str,
}

pub(super) async fn move_to(sessions: &Sessions<'_>, args: &MoveArgs) -> Result<u8, CliError> {
    let id = sessions.find(&args.id).await?;
    let dir = sessions.start.directory("DIR", &args.dir)?;
    let Some(cwd) = dir.to_str() else {
        let text = format!("the directory `{}` is not UTF-8", dir.display());
        return Err(CliError::usage(text).with_hint("give one whose whole path is"));
    };
    sessions.store().move_to(&id, &dir, sessions.known().await).await?;
    if args.form.json {
        object(&Object { schema: "reins.session.move/1", session: id.as_str(), cwd })?;
    } else {
        terminal::note(&format!("session {id} belongs to {} now", place(&dir)));
    }
    Ok(exit::COMPLETED)
}
