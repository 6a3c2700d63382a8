//! `reins config`

mod check;
mod edit;
mod file;
mod judge;
mod key;
mod model;
mod says;
mod set;
mod settings;
mod text;
mod value;

use check::check;

use crate::args::{ComposeArgs, ConfigCommand, ProfileArgs};
use crate::exit::{self, CliError};
use crate::start::{Start, row_errors};
use crate::{reference, terminal};

pub(crate) async fn config(start: &Start, command: &ConfigCommand) -> Result<u8, CliError> {
    let text = match command {
        ConfigCommand::Dump(args) => dump(start, args)?,
        ConfigCommand::Check(args) => check(start, args).await?,
        ConfigCommand::Schema { markdown: false } => reference::schema(start)?,
        ConfigCommand::Schema { markdown: true } => reference::page(start)?,
        ConfigCommand::Set(args) => return set::set(start, args).await,
        ConfigCommand::Unset(args) => return set::unset(start, args).await,
        ConfigCommand::Edit(args) => {
            edit::edit(start, args).await?;
            let checked = check(start, &args.compose()).await;
            checked.map_err(|error| error.with_hint("`reins config edit` opens the file again"))?
        }
        ConfigCommand::Path(args) => path(start, args)?,
    };
    terminal::output(&text)?;
    Ok(exit::COMPLETED)
}

/// What a dump begins with: it has the form of a layer, but its ids are taken.
const DUMP_HEAD: &str = "\
# All rows in force. Not a settings file: change rows with `reins config set ROW.FIELD VALUE`, or with
# a `[[row]]` table in your settings.

";

fn dump(start: &Start, args: &ComposeArgs) -> Result<String, CliError> {
    let composition = start.compose(args)?;
    for warning in &composition.warnings {
        terminal::note(&format!("warning: {warning}"));
    }
    Ok(format!("{DUMP_HEAD}{}", composition.dump()))
}

/// All profiles have the same settings; the profile is only asked to be one.
fn path(start: &Start, args: &ProfileArgs) -> Result<String, CliError> {
    let files = start.files(&args.compose(), None);
    files.below_settings().map_err(|errors| row_errors(&errors))?;
    let path = files.settings();
    let text = path.to_str().ok_or_else(|| {
        CliError::config(format!("the path {} is not UTF-8", path.display()))
            .with_hint("set REINS_HOME to a path that is")
    })?;
    Ok(format!("{text}\n"))
}
