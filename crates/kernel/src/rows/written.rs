//! What the layers wrote into the `config` of a row, for people.

use super::compose::Row;
use super::layer::{ConfigText, join};
use super::withheld::shown;
use crate::{Catalog, Origin};

/// What one `config` says of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The layer, with the line of the field, or of the nearest table around it.
    pub origin: Origin,
    /// As written, references are not evaluated; a secret that stands there is `"[withheld]"`.
    /// `None` when the field is left out.
    pub value: Option<toml::Value>,
}

impl Row {
    /// What each `config` that the row ever had says of a field, for example `retry.codes[2]`; the
    /// empty path is the whole. The oldest comes first; the last one is in force and has replaced
    /// the others as a whole.
    pub fn written(&self, path: &str, catalog: &Catalog) -> Vec<Written> {
        let schema = catalog.schema(&self.plugin).unwrap_or_default();
        let of = |text: &ConfigText| Written {
            origin: Origin {
                layer: text.source.layer.clone(),
                file: text.source.file.clone(),
                line: text.line_of(path),
                ..self.origin.clone()
            },
            value: get(&shown(&text.value, &schema), path),
        };
        self.replaced.iter().chain([&self.text]).map(of).collect()
    }

    /// The path of every value that is written in the `config` in force, tables and lists before
    /// what is in them.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        list_table(&self.config, "", &mut paths);
        paths
    }
}

fn get(table: &toml::Table, path: &str) -> Option<toml::Value> {
    if path.is_empty() {
        return Some(toml::Value::Table(table.clone()));
    }
    in_table(table, path, "").cloned()
}

/// Compares whole paths instead of taking `path` apart: keys may hold dots.
fn in_table<'v>(table: &'v toml::Table, path: &str, at: &str) -> Option<&'v toml::Value> {
    table.iter().find_map(|(key, value)| below(value, path, &join(at, key)))
}

fn below<'v>(value: &'v toml::Value, path: &str, at: &str) -> Option<&'v toml::Value> {
    let rest = path.strip_prefix(at)?;
    match value {
        _ if rest.is_empty() => Some(value),
        toml::Value::Table(table) if rest.starts_with('.') => in_table(table, path, at),
        toml::Value::Array(entries) if rest.starts_with('[') => {
            let entries = entries.iter().enumerate();
            entries.into_iter().find_map(|(n, entry)| below(entry, path, &format!("{at}[{n}]")))
        }
        _ => None,
    }
}

fn list_table(table: &toml::Table, at: &str, paths: &mut Vec<String>) {
    for (key, value) in table {
        list(value, join(at, key), paths);
    }
}

fn list(value: &toml::Value, at: String, paths: &mut Vec<String>) {
    paths.push(at.clone());
    match value {
        toml::Value::Table(table) => list_table(table, &at, paths),
        toml::Value::Array(entries) => {
            for (n, entry) in entries.iter().enumerate() {
                list(entry, format!("{at}[{n}]"), paths);
            }
        }
        _ => {}
    }
}
