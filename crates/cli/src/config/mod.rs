//! `reins config`

mod edit;
mod file;
mod judge;
mod key;
mod model;
mod set;
mod settings;
mod text;
mod value;

use reins_host::{Host, HostError};
use reins_kernel::RowError;

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
    terminal::print_text(&text).map_err(|e| CliError::internal(format!("standard output: {e}")))?;
    Ok(exit::COMPLETED)
}

fn dump(start: &Start, args: &ComposeArgs) -> Result<String, CliError> {
    let composition = start.compose(args)?;
    for warning in &composition.warnings {
        terminal::note(&format!("warning: {warning}"));
    }
    Ok(composition.dump())
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

/// Mounts everything, since plugins check the values of their configuration only then: the rows,
/// each preset, and what a new session would have.
async fn check(start: &Start, args: &ComposeArgs) -> Result<String, CliError> {
    let (host, warnings) = match Host::start(start.blueprint(args, None)?).await {
        Ok(started) => started,
        Err(HostError::Rows(mut errors)) => {
            // What presets show by themselves is told along.
            let blueprint = start.blueprint(args, None)?;
            let presets = blueprint.source.presets();
            errors.extend(presets.iter().filter_map(|name| blueprint.preset(name).err()).flatten());
            return Err(row_errors(&errors));
        }
        Err(error) => return Err(error.into()),
    };
    for warning in &warnings {
        terminal::note(&format!("warning: {warning}"));
    }
    let checked = check_host(&host).await;
    host.stop().await;
    checked
}

async fn check_host(host: &Host) -> Result<String, CliError> {
    let source = &host.blueprint().source;
    let mut errors: Vec<RowError> = Vec::new();
    let mut note = |error: HostError| match error {
        HostError::Rows(found) => {
            for error in found {
                // Presets that say nothing of their own share what the settings say.
                if !errors.contains(&error) {
                    errors.push(error);
                }
            }
            Ok(())
        }
        other => Err(other),
    };
    host.check_defaults().await.or_else(&mut note)?;
    let mut fine = 0;
    for name in source.presets() {
        let is_shipped = source.preset(&name).is_ok_and(|layer| layer.file.is_none());
        let checked = match is_shipped {
            true => host.preset(&name).await.map(drop),
            false => host.check_preset(&name).await,
        };
        match checked {
            Ok(()) => fine += 1,
            // Settings may leave a shipped preset without what it needs.
            Err(error) if is_shipped => {
                terminal::note(&format!("warning: agent preset `{name}`: {error}"));
            }
            Err(error) => note(error)?,
        }
    }
    if !errors.is_empty() {
        return Err(row_errors(&errors));
    }
    let (rows, _) = host.rows("").await;
    let enabled = rows.iter().filter(|row| !row.disabled).count();
    Ok(format!("{enabled} rows and {fine} agent presets are fine\n"))
}
