//! `reins session path`

use serde::Serialize;

use super::Sessions;
use super::args::OneArgs;
use super::words::object;
use crate::exit::{self, CliError};
use crate::terminal;

#[derive(Serialize)]
struct Object<'a> {
    schema: &'static str,
    session: &'a str,
    path: &'a str,
}

pub(super) async fn path(sessions: &Sessions<'_>, args: &OneArgs) -> Result<u8, CliError> {
    let id = sessions.find(&args.id).await?;
    let path = sessions.store().path(&id).await?;
    if args.form.json {
        let path = path.to_string_lossy();
        object(&Object { schema: "reins.session.path/1", session: id.as_str(), path: &path })?;
    } else {
        terminal::output(&format!("{}\n", path.display()))?;
    }
    Ok(exit::COMPLETED)
}
