//! `reins config`

use crate::args::ConfigCommand;
use crate::exit::{self, CliError};
use crate::start::{Start, row_errors};
use crate::terminal;

pub(crate) async fn config(start: &Start, command: &ConfigCommand) -> Result<u8, CliError> {
    let (ConfigCommand::Dump(args) | ConfigCommand::Check(args)) = command;
    let composition = start.compose(args, None)?;
    for warning in &composition.warnings {
        terminal::note(&format!("warning: {warning}"));
    }
    let text = match command {
        ConfigCommand::Dump(_) => composition.dump(),
        ConfigCommand::Check(_) => {
            let enabled = composition.rows.iter().filter(|row| !row.disabled).count();
            // Plugins check the values of their configuration when they are mounted.
            let built = composition.build(&start.catalog()?, 1, start.root()?).await;
            built.map_err(|errors| row_errors(&errors))?.stop().await;
            format!("{enabled} rows are fine\n")
        }
    };
    terminal::print_text(&text).map_err(|e| CliError::internal(format!("standard output: {e}")))?;
    Ok(exit::COMPLETED)
}
