//! Layers become rows.

use serde_json::Value;

use super::check::check_row;
use super::error::{RowError, RowWarning};
use super::layer::{ConfigText, Form, Item, Layer, Source, read_layer};
use super::nearest::nearest;
use super::reference::{MAX_REFERRED_BYTES, References};
use super::withheld::Withheld;
use crate::{Catalog, Origin};

/// One configured plugin instance.
#[derive(Clone, Debug)]
pub struct Row {
    /// Addresses the row; unique in the composition.
    pub id: String,
    /// The plugin's name.
    pub plugin: String,
    /// As written: references are not evaluated.
    pub config: toml::Table,
    /// Whether it is left out when a generation is built.
    pub disabled: bool,
    /// What disabled it, while it is disabled.
    pub disabled_by: Option<Origin>,
    /// The `[[insert]]`.
    pub origin: Origin,
    /// Every `[[row]]` that changed it, in order.
    pub patched_by: Vec<Origin>,
    /// What wrote `config`.
    pub(super) config_by: Origin,
    /// What said `disabled` last.
    pub(super) switched_by: Origin,
    pub(super) plugin_line: u32,
    pub(super) text: ConfigText,
    /// What patches replaced, the newest last.
    pub(super) replaced: Vec<ConfigText>,
    pub(super) ready: Ready,
}

/// A row's configuration with its references evaluated. It may hold secrets: never printed.
#[derive(Clone, Default)]
pub(super) struct Ready {
    pub(super) value: Value,
    /// Values read from the environment, with the reference that stands for each in messages.
    pub(super) secrets: Vec<(String, String)>,
    pub(super) withheld: Withheld,
    /// Where strings hold references.
    pub(super) referring: Vec<String>,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Ready")
    }
}

impl Row {
    /// Where a field of `config` was written, for example `retry.codes[2]`; for a field that was
    /// not written, the nearest table around it.
    pub fn field_origin(&self, path: &str) -> Origin {
        Origin {
            layer: self.text.source.layer.clone(),
            file: self.text.source.file.clone(),
            line: self.text.line_of(path),
            ..self.origin.clone()
        }
    }

    /// An error at the field of `config` with this path; the empty path is the whole. A field that
    /// a patch left out is said to be that.
    pub(super) fn config_error(&self, path: &str, mut problem: String) -> RowError {
        let line = self.text.line_of(path);
        if let Some(place) = self.left_out(path) {
            problem.push_str(&format!(
                "; a patch replaces the row's whole `config`: repeat `{path} = …` from {place}"
            ));
        }
        let mut error = self.text.source.error(line, Some(&self.id), problem);
        let dot = if path.starts_with('[') || path.is_empty() { "" } else { "." };
        error.field = Some(format!("config{dot}{path}"));
        error
    }

    /// Where a field stands that a patch did not repeat.
    fn left_out(&self, path: &str) -> Option<String> {
        if self.text.place_of(path).is_some() {
            return None;
        }
        self.replaced.iter().rev().find_map(|text| text.place_of(path))
    }

    /// An error at the row's `[[insert]]`.
    pub(super) fn error(&self, problem: String) -> RowError {
        RowError::at(&self.origin, problem)
    }
}

/// Checked rows, ready to be built or printed.
#[derive(Clone, Debug)]
pub struct Composition {
    /// Every row, the disabled ones too, in the order of their inserts.
    pub rows: Vec<Row>,
    /// What has no effect and was probably meant to.
    pub warnings: Vec<RowWarning>,
}

/// Applies the layers in order over an empty list and checks every row: plugin, references,
/// configuration. Within a layer the inserts come first; then the patches, in their order.
///
/// # Errors
/// Everything that is wrong, in the order of layers and lines.
pub fn compose(
    layers: &[Layer],
    catalog: &Catalog,
    references: &References<'_>,
) -> Result<Composition, Vec<RowError>> {
    checked(layers, Form::Whole, catalog, references)
}

/// As [`compose`], of the one layer of a nested scope: what is wrong is told without `[[row]]`, as
/// there is nothing below that it could change.
///
/// # Errors
/// As [`compose`].
pub fn compose_nested(
    layer: Layer,
    catalog: &Catalog,
    references: &References<'_>,
) -> Result<Composition, Vec<RowError>> {
    checked(&[layer], Form::Inserts, catalog, references)
}

fn checked(
    layers: &[Layer],
    form: Form,
    catalog: &Catalog,
    references: &References<'_>,
) -> Result<Composition, Vec<RowError>> {
    let mut errors = Vec::new();
    let Composition { mut rows, warnings } = applied(layers, form, &mut errors);
    let mut left = MAX_REFERRED_BYTES;
    for row in &mut rows {
        check_row(row, catalog, references, &mut left, &mut errors);
    }
    // Stable, so within a layer the order of checks stays; layers sort by their first mention.
    let rank = |error: &RowError| layers.iter().position(|layer| *layer.name == *error.layer);
    errors.sort_by_key(|error| (rank(error), error.line));
    if errors.is_empty() { Ok(Composition { rows, warnings }) } else { Err(errors) }
}

/// The rows as far as they can be read: neither their plugins nor what their `config` holds is
/// looked at, and what is wrong is left out. For showing and editing what is written; such rows
/// cannot be built.
pub fn as_written(layers: &[Layer]) -> Vec<Row> {
    applied(layers, Form::Whole, &mut Vec::new()).rows
}

fn applied(layers: &[Layer], form: Form, errors: &mut Vec<RowError>) -> Composition {
    let mut rows: Vec<Row> = Vec::new();
    let mut warnings = Vec::new();
    for layer in layers {
        let items = read_layer(layer, form, errors);
        for item in items.inserts {
            insert(&mut rows, item, &items.source, errors);
        }
        for item in items.patches {
            match rows.iter().position(|row| row.id == item.id) {
                Some(at) => {
                    if item.config.is_none() && item.disabled.is_none() {
                        warnings.push(empty_patch(&item, &items.source));
                    }
                    warnings.extend(patch(&mut rows[at], item, &items.source, errors));
                }
                None => warnings.push(absent(&rows, &item, &items.source)),
            }
        }
    }
    Composition { rows, warnings }
}

fn origin_of(source: &Source, item: &Item, rank: usize) -> Origin {
    Origin {
        layer: source.layer.clone(),
        file: source.file.clone(),
        line: item.line,
        row: item.id.as_str().into(),
        rank: u32::try_from(rank).unwrap_or(u32::MAX),
    }
}

fn insert(rows: &mut Vec<Row>, item: Item, source: &Source, errors: &mut Vec<RowError>) {
    if let Some(held) = rows.iter().find(|row| row.id == item.id) {
        let problem = format!(
            "this id is taken by the row inserted at {}; change it with `[[row]]`, or choose \
             another id",
            held.origin.place()
        );
        let mut error = source.error(item.line, Some(&item.id), problem);
        error.field = Some("id".to_owned());
        errors.push(error);
        return;
    }
    let origin = origin_of(source, &item, rows.len());
    let text = item.config.unwrap_or_else(|| ConfigText::empty(source.clone(), item.line));
    let (plugin, plugin_line) = item.plugin.unwrap_or_default();
    rows.push(Row {
        id: item.id,
        plugin,
        config: text.value.clone(),
        disabled: item.disabled == Some(true),
        disabled_by: (item.disabled == Some(true)).then(|| origin.clone()),
        config_by: origin.clone(),
        switched_by: origin.clone(),
        origin,
        patched_by: Vec::new(),
        plugin_line,
        text,
        replaced: Vec::new(),
        ready: Ready::default(),
    });
}

fn patch(
    row: &mut Row,
    item: Item,
    source: &Source,
    errors: &mut Vec<RowError>,
) -> Option<RowWarning> {
    if let Some((plugin, line)) = &item.plugin
        && *plugin != row.plugin
    {
        let problem = format!(
            "the row is of plugin `{}` (inserted at {}), not `{plugin}`; a patch cannot change it",
            row.plugin,
            row.origin.place()
        );
        let mut error = source.error(*line, Some(&row.id), problem);
        error.field = Some("plugin".to_owned());
        errors.push(error);
        return None;
    }
    let origin = origin_of(source, &item, row.origin.rank as usize);
    row.patched_by.push(origin.clone());
    if let Some(disabled) = item.disabled {
        row.disabled = disabled;
        row.disabled_by = disabled.then(|| origin.clone());
        row.switched_by = origin.clone();
    }
    let text = item.config?;
    let warning = replaces_own(row, &text, source);
    row.config_by = origin;
    row.config = text.value.clone();
    row.replaced.push(std::mem::replace(&mut row.text, text));
    warning
}

/// Nobody writes a `config` twice into one layer to have only the second.
fn replaces_own(row: &Row, text: &ConfigText, source: &Source) -> Option<RowWarning> {
    let by_patch = row.config_by != row.origin;
    if !by_patch || row.config_by.layer != source.layer || row.config_by.file != source.file {
        return None;
    }
    let problem = format!(
        "replaces the `config` of line {} as a whole; write both into one `[[row]]`",
        row.text.line_of("")
    );
    Some(RowWarning(source.error(text.line_of(""), Some(&row.id), problem)))
}

fn absent(rows: &[Row], item: &Item, source: &Source) -> RowWarning {
    let hint = if item.plugin.is_some() { "; to add a row write `[[insert]]`" } else { "" };
    let problem = format!("no row has this id, so this patch changes nothing{hint}");
    let mut error = source.error(item.line, Some(&item.id), problem);
    let known = rows.iter().map(|row| row.id.as_str());
    let of_plugin = || rows.iter().find(|row| row.plugin == item.id).map(|row| row.id.as_str());
    error.suggestion = nearest(&item.id, known).or_else(of_plugin).map(str::to_owned);
    RowWarning(error)
}

fn empty_patch(item: &Item, source: &Source) -> RowWarning {
    let problem = "this patch changes nothing; give it `config` or `disabled`".to_owned();
    RowWarning(source.error(item.line, Some(&item.id), problem))
}
