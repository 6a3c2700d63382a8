//! `reins config`

use crate::args::{ComposeArgs, ConfigCommand};
use crate::exit::{self, CliError};
use crate::start::Start;
use crate::terminal;

pub(crate) async fn config(start: &Start, command: &ConfigCommand) -> Result<u8, CliError> {
    let (ConfigCommand::Dump(args) | ConfigCommand::Check(args)) = command;
    let text = match command {
        ConfigCommand::Dump(_) => {
            let composition = start.compose(args)?;
            for warning in &composition.warnings {
                terminal::note(&format!("warning: {warning}"));
            }
            composition.dump()
        }
        ConfigCommand::Check(_) => check(start, args).await?,
    };
    terminal::print_text(&text).map_err(|e| CliError::internal(format!("standard output: {e}")))?;
    Ok(exit::COMPLETED)
}

/// Mounts everything, since plugins check the values of their configuration only then: the rows, each
/// preset, and the model that a new session would have.
async fn check(start: &Start, args: &ComposeArgs) -> Result<String, CliError> {
    let host = start.host(args, None).await?;
    let checked = async {
        let presets = host.blueprint().source.presets();
        for name in &presets {
            host.preset(name).await?;
        }
        host.check_defaults().await?;
        let (rows, _) = host.rows("").await;
        let enabled = rows.iter().filter(|row| !row.disabled).count();
        Ok(format!("{enabled} rows and {} agent presets are fine\n", presets.len()))
    };
    let checked = checked.await;
    host.stop().await;
    checked
}
