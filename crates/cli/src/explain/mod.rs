//! `reins explain`: where something comes from, in words. The facts are the host's.

mod args;
mod chain;
mod field;
mod page;
mod preset;
mod profile;
mod prompt;
mod row;
mod tool;
mod value;

use std::path::Path;

use reins_host::Explain;
use reins_kernel::nearest;

use crate::exit::{self, CliError};
use crate::start::Start;
use crate::terminal;

pub(crate) use args::ExplainCommand;
use args::OfAgents;
pub(crate) use page::taken;
pub(crate) use value::json_as_toml;

pub(crate) async fn explain(start: &Start, command: ExplainCommand) -> Result<u8, CliError> {
    let text = match &command {
        ExplainCommand::OfAgents(command) => mounted(start, command).await,
        ExplainCommand::Profile { name: None } => profile::list(start),
        ExplainCommand::Profile { name: Some(name) } => profile::one(start, name),
    };
    terminal::output(&text?)?;
    Ok(exit::COMPLETED)
}

async fn mounted(start: &Start, command: &OfAgents) -> Result<String, CliError> {
    let (compose, preset) = command.scope();
    let host = start.host(compose, None).await?;
    let text = match host.explain(preset).await {
        Ok(explain) => text(start, &explain, command).await,
        Err(error) => Err(error.into()),
    };
    host.stop().await;
    text
}

async fn text(start: &Start, explain: &Explain, command: &OfAgents) -> Result<String, CliError> {
    match command {
        OfAgents::Tool { name: None, .. } => Ok(tool::list(explain)),
        OfAgents::Tool { name: Some(name), full, .. } => tool::one(explain, name, *full),
        OfAgents::Chain { name: None, .. } => Ok(chain::list(explain)),
        OfAgents::Chain { name: Some(name), .. } => chain::one(explain, name),
        OfAgents::Row { id: None, .. } => Ok(row::list(explain)),
        OfAgents::Row { id: Some(id), .. } => row::one(explain, id),
        OfAgents::Field { field: None, .. } => Ok(field::list(explain)),
        OfAgents::Field { field: Some(field), of } => {
            field::one(explain, &of.compose.profile, field)
        }
        OfAgents::Preset { name: None, compose } => {
            preset::list(explain, &start.files(compose, None))
        }
        OfAgents::Preset { name: Some(_), compose } => {
            preset::one(explain, &start.files(compose, None))
        }
        OfAgents::Prompt { section, raw, .. } => {
            let prompt = explain.prompt(start.cwd.clone()).await;
            prompt::text(explain, &prompt, section.as_deref(), *raw)
        }
    }
}

/// Where a profile or a preset is from.
fn shipped_or_file(file: Option<&Path>) -> String {
    file.map_or_else(|| "part of Reins".to_owned(), |file| file.display().to_string())
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
