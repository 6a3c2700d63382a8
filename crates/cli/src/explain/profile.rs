//! `reins explain profile`

use reins_kernel::{Layer, RowError, as_written};

use super::page::{Page, table};
use crate::args::ComposeArgs;
use crate::exit::CliError;
use crate::layers::{DEFAULT_PROFILE, profile_description};
use crate::start::{Start, row_errors};

pub(super) fn list(start: &Start) -> Result<String, CliError> {
    let args = ComposeArgs::of_profile(DEFAULT_PROFILE);
    let found = start.files(&args, None).profiles().map_err(|errors| row_errors(&errors))?;
    let lines = found.names.iter().map(|name| {
        let default = if name == DEFAULT_PROFILE { "default" } else { "" };
        let (place, what) = match layers(start, name) {
            Ok(layers) if layers.iter().all(|layer| layer.errors().is_empty()) => {
                (place(name, &layers), about(name, &layers))
            }
            _ => (String::new(), format!("cannot be read, see `reins explain profile {name}`")),
        };
        [name, default, &place, &what].map(str::to_owned).to_vec()
    });
    Ok(table(&lines.collect::<Vec<_>>()))
}

pub(super) fn one(start: &Start, name: &str) -> Result<String, CliError> {
    let layers = layers(start, name).map_err(|errors| row_errors(&errors))?;
    let wrong: Vec<RowError> = layers.iter().flat_map(Layer::errors).collect();
    if !wrong.is_empty() {
        return Err(row_errors(&wrong));
    }
    let mut page = Page::default();
    page.line(format_args!("profile `{name}`, {}", place(name, &layers)));
    page.line(about(name, &layers));
    page.gap();
    page.line("rows below your settings:");
    let rows: Vec<Vec<String>> = as_written(&layers).iter().map(super::row::cells).collect();
    page.items(table(&rows).lines().map(str::to_owned));
    Ok(page.done())
}

fn layers(start: &Start, name: &str) -> Result<Vec<Layer>, Vec<RowError>> {
    let args = ComposeArgs::of_profile(name);
    start.files(&args, None).below_settings()
}

fn place(name: &str, layers: &[Layer]) -> String {
    let own = layers.iter().find(|layer| layer.name == format!("profile {name}"));
    super::shipped_or_file(own.and_then(|layer| layer.file.as_deref()))
}

fn about(name: &str, layers: &[Layer]) -> String {
    let bundles = layers.iter().filter_map(|layer| layer.name.strip_prefix("bundle "));
    let bundles = bundles.collect::<Vec<_>>().join(", ");
    let bundles = if bundles.is_empty() { "none" } else { &bundles };
    let is_own = layers.iter().any(|layer| layer.name == format!("profile {name}"));
    match profile_description(name).filter(|_| !is_own) {
        Some(text) => format!("{text} Bundles: {bundles}."),
        None => format!("Bundles: {bundles}."),
    }
}
