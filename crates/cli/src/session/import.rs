//! `reins session import`

use reins_schema::SessionId;
use reins_store::ImportOrder;
use serde::Serialize;

use super::Sessions;
use super::args::ImportArgs;
use super::meter::Meter;
use super::words::object;
use crate::exit::{self, CliError};
use crate::terminal;

#[derive(Serialize)]
struct Object<'a> {
    schema: &'static str,
    sessions: &'a [SessionId],
    already: &'a [SessionId],
}

pub(super) async fn import(sessions: &Sessions<'_>, args: &ImportArgs) -> Result<u8, CliError> {
    if let Err(error) = std::fs::metadata(&args.file) {
        let text = format!("{} cannot be imported: {error}", args.file.display());
        return Err(CliError::usage(text).with_hint("give a file that `session export` wrote"));
    }
    let order = ImportOrder { file: sessions.start.cwd.join(&args.file), as_new: args.as_new };
    let meter = Meter::new(sessions.start, "import");
    let imported = sessions.store().import(order, meter.progress()).await?;
    drop(meter);
    if args.form.json {
        object(&Object {
            schema: "reins.session.import/1",
            sessions: &imported.sessions,
            already: &imported.already,
        })?;
        return Ok(exit::COMPLETED);
    }
    for id in &imported.sessions {
        terminal::output(&format!("{id}\n"))?;
    }
    for id in &imported.already {
        terminal::note(&format!("session {id} is here already, the same"));
    }
    Ok(exit::COMPLETED)
}
