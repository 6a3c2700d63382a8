//! `reins config schema`: what rows take, for editors and as a page for people. Both are read from
//! the plugins themselves.

mod page;
mod schema;

use std::path::Path;

use reins_kernel::{Catalog, Composition, Layer, References, compose};

use crate::args::ComposeArgs;
use crate::exit::CliError;
use crate::layers::{DEFAULT_PROFILE, shipped, shipped_presets};
use crate::start::{Start, row_errors};
use crate::terminal;

/// The JSON Schema of the files that hold rows.
pub(crate) fn schema(start: &Start) -> Result<String, CliError> {
    let catalog = start.catalog()?;
    let args = ComposeArgs::of_profile(DEFAULT_PROFILE);
    // Who mends a broken file wants the schema all the more.
    let composition = start.compose(&args).or_else(|error| {
        terminal::note(&format!(
            "only the shipped rows are in the schema, as the configuration has mistakes:\n{error}"
        ));
        composed(&shipped(DEFAULT_PROFILE, start.additions.rows), &catalog)
    })?;
    let schema = schema::schema(&catalog, &composition.rows);
    let text = serde_json::to_string_pretty(&schema);
    text.map(|text| text + "\n").map_err(|e| CliError::internal(e.to_string()))
}

/// The reference page of all plugins.
pub(crate) fn page(start: &Start) -> Result<String, CliError> {
    let catalog = start.catalog()?;
    let mut rows = composed(&shipped(DEFAULT_PROFILE, start.additions.rows), &catalog)?.rows;
    for preset in shipped_presets() {
        rows.extend(composed(&[preset], &catalog)?.rows);
    }
    Ok(page::page(&catalog, &rows, &start.additions.plugins))
}

fn composed(layers: &[Layer], catalog: &Catalog) -> Result<Composition, CliError> {
    // The values do not matter here, and no variable needs to be set.
    let references = References { env: &|_| Some(String::new()), home: Path::new("/") };
    compose(layers, catalog, &references).map_err(|errors| row_errors(&errors))
}
