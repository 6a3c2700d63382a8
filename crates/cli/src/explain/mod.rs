//! `reins explain`: where something comes from, in words. The facts are the host's.

mod args;
mod chain;
mod field;
mod page;
mod prompt;
mod row;
mod tool;

use reins_host::Explain;
use reins_kernel::nearest;

use crate::exit::{self, CliError};
use crate::start::Start;
use crate::terminal;

pub(crate) use args::ExplainCommand;
pub(crate) use page::{json_as_toml, taken};

pub(crate) async fn explain(start: &Start, command: ExplainCommand) -> Result<u8, CliError> {
    let args = command.args();
    let host = start.host(&args.compose, None).await?;
    let text = match host.explain(args.preset.as_deref()).await {
        Ok(explain) => text(start, &explain, &command).await,
        Err(error) => Err(error.into()),
    };
    host.stop().await;
    terminal::output(&text?)?;
    Ok(exit::COMPLETED)
}

async fn text(
    start: &Start,
    explain: &Explain,
    command: &ExplainCommand,
) -> Result<String, CliError> {
    match command {
        ExplainCommand::Tool { name: None, .. } => Ok(tool::list(explain)),
        ExplainCommand::Tool { name: Some(name), .. } => tool::one(explain, name),
        ExplainCommand::Chain { name: None, .. } => Ok(chain::list(explain)),
        ExplainCommand::Chain { name: Some(name), .. } => chain::one(explain, name),
        ExplainCommand::Row { id: None, .. } => Ok(row::list(explain)),
        ExplainCommand::Row { id: Some(id), .. } => row::one(explain, id),
        ExplainCommand::Field { field: None, .. } => Ok(field::list(explain)),
        ExplainCommand::Field { field: Some(field), of } => {
            field::one(explain, &of.compose.profile, field)
        }
        ExplainCommand::Prompt { section, raw, .. } => {
            let prompt = explain.prompt(start.cwd.clone()).await;
            prompt::text(explain, &prompt, section.as_deref(), *raw)
        }
    }
}

/// The error of a name that is nowhere.
fn unknown(what: &str, name: &str, known: &[&str]) -> CliError {
    let error = CliError::usage(format!("there is no {what} `{name}`"));
    error.with_hint(nearest_and_all(&format!("{what}s"), name, known))
}

/// The nearest name, if one is near, and all there are.
fn nearest_and_all(what: &str, name: &str, known: &[&str]) -> String {
    let all = match known {
        [] => format!("there are no {what} at all"),
        _ => format!("{what} are: {}", known.join(", ")),
    };
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? {all}"),
        None => all,
    }
}
