//! `reins explain preset`

use reins_host::{Explain, LayerSource as _};
use reins_kernel::{Layer, RowError};

use super::page::{Page, by, table};
use super::row::contribution;
use crate::exit::CliError;
use crate::layers::Files;
use crate::start::row_errors;

/// All presets; `explain` is that of new sessions.
pub(super) fn list(explain: &Explain, files: &Files) -> Result<String, CliError> {
    let names = files.presets().map_err(wrong)?;
    let lines = names.iter().map(|name| {
        let default = if name == explain.preset() { "default" } else { "" };
        let (place, description) = match files.preset(name) {
            Ok(layer) if layer.errors().is_empty() => {
                (super::shipped_or_file(layer.file.as_deref()), description(&layer))
            }
            _ => (String::new(), format!("cannot be read, see `reins explain preset {name}`")),
        };
        [name, default, &place, &description].map(str::to_owned).to_vec()
    });
    Ok(table(&lines.collect::<Vec<_>>()))
}

pub(super) fn one(explain: &Explain, files: &Files) -> Result<String, CliError> {
    let name = explain.preset();
    let layer = files.preset(name).map_err(wrong)?;
    let mut page = Page::default();
    page.line(format_args!(
        "agent preset `{name}`, {}",
        super::shipped_or_file(layer.file.as_deref())
    ));
    page.line(description(&layer));
    page.gap();
    page.line("rows:");
    let rows = explain.rows().into_iter().filter(|facts| facts.preset.is_some());
    let rows: Vec<Vec<String>> = rows.map(|facts| super::row::cells(&facts.row)).collect();
    page.items(table(&rows).lines().map(str::to_owned));
    page.line("hides from its agents:");
    let hidden = explain.tools().into_iter().filter_map(|tool| {
        let hider = tool.hidden_by?;
        explain.row_of(&hider)?.preset?;
        let held = by(&tool.place.origin);
        Some(format!("tool `{}` of {held}, by row `{}`", tool.name, hider.row))
    });
    page.items(hidden.collect::<Vec<_>>());
    page.line("takes the place of:");
    let replaced = explain.shadowed_by_preset().into_iter().map(|(held, own)| {
        format!("{} of {}, by row `{}`", contribution(&held), by(&held.origin), own.origin.row)
    });
    page.items(replaced.collect::<Vec<_>>());
    Ok(page.done())
}

fn description(layer: &Layer) -> String {
    let found = layer.head_value("description");
    let text = found.as_ref().and_then(|found| found.value.as_str());
    text.map_or_else(|| "no description".to_owned(), super::page::flat)
}

fn wrong(errors: Vec<RowError>) -> CliError {
    row_errors(&errors)
}
