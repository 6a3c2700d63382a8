//! One row against its plugin.

use serde_json::Value;

use super::compose::{Ready, Row};
use super::error::{RowError, RowErrorKind};
use super::layer::join;
use super::nearest::nearest;
use super::reference::{BadReference, References, expand};
use super::schema::{Finding, Flaw, find_flaws};
use super::withheld::Withheld;
use crate::Catalog;
use crate::plugin::{ConfigError, PluginDef};

/// Shorter values from the environment are not hidden in messages: they are no secrets, and
/// hiding them would garble the text.
pub(super) const SECRET_MIN_BYTES: usize = 4;

/// Evaluates the row's references, which may bring `left` bytes more, and checks it; what is wrong
/// goes to `errors`.
pub(super) fn check_row(
    row: &mut Row,
    catalog: &Catalog,
    references: &References<'_>,
    left: &mut usize,
    errors: &mut Vec<RowError>,
) {
    let mut ready = Ready::default();
    let mut bad = Vec::new();
    let mut expansion = Expansion { references, left, ready: &mut ready, bad: &mut bad };
    let config = toml::Value::Table(row.config.clone());
    let mut value = expansion.value(&config, "");
    match catalog.get(&row.plugin) {
        Some(plugin) => check_config(row, plugin, &mut value, &mut ready, errors),
        None => errors.push(unknown_plugin(row, catalog)),
    }
    for (path, bad) in bad {
        // A row that is off may wait for its variable.
        if bad.unset && row.disabled {
            continue;
        }
        // What is between the braces alone may be quoted; other parts of a secret may not.
        let bad =
            if bad.beside && ready.withheld.paths.contains(&path) { bad.unquoted() } else { bad };
        let mut error = row.config_error(&path, bad.problem);
        error.suggestion = bad.suggestion;
        errors.push(error);
    }
    ready.value = value;
    row.ready = ready;
}

fn unknown_plugin(row: &Row, catalog: &Catalog) -> RowError {
    let mut error = row.error(format!("there is no plugin `{}`", row.plugin));
    error.line = row.plugin_line;
    error.field = Some("plugin".to_owned());
    // People call a plugin by what it brings: `bash` for `tool-bash`.
    let ends = |known: &&str| known.split_once('-').is_some_and(|(_, end)| end == row.plugin);
    let near = nearest(&row.plugin, catalog.names()).or_else(|| catalog.names().find(ends));
    if near.is_none() {
        let known: Vec<&str> = catalog.names().collect();
        error.problem.push_str(&format!("; known are `{}`", known.join("`, `")));
    }
    error.suggestion = near.map(str::to_owned);
    error
}

struct Expansion<'a> {
    references: &'a References<'a>,
    left: &'a mut usize,
    ready: &'a mut Ready,
    bad: &'a mut Vec<(String, BadReference)>,
}

impl Expansion<'_> {
    fn value(&mut self, value: &toml::Value, path: &str) -> Value {
        match value {
            toml::Value::String(text) => Value::String(self.text(text, path)),
            toml::Value::Integer(number) => Value::from(*number),
            toml::Value::Float(number) => Value::from(*number),
            toml::Value::Boolean(flag) => Value::Bool(*flag),
            toml::Value::Datetime(time) => Value::String(time.to_string()),
            toml::Value::Array(values) => {
                let indexed = values.iter().enumerate();
                indexed.map(|(at, value)| self.value(value, &format!("{path}[{at}]"))).collect()
            }
            toml::Value::Table(table) => {
                let fields = table.iter();
                let fields =
                    fields.map(|(key, value)| (key.clone(), self.value(value, &join(path, key))));
                Value::Object(fields.collect())
            }
        }
    }

    fn text(&mut self, text: &str, path: &str) -> String {
        match expand(text, self.references, self.left) {
            Ok(expanded) => {
                if expanded.text != text {
                    self.ready.referring.push(path.to_owned());
                }
                self.ready.secrets.extend(expanded.secrets);
                expanded.text
            }
            Err(bad) => {
                self.bad.push((path.to_owned(), bad));
                text.to_owned()
            }
        }
    }
}

/// Unknown keys are taken out of `value` on the way, so that each is reported once.
fn check_config(
    row: &Row,
    plugin: &PluginDef,
    value: &mut Value,
    ready: &mut Ready,
    errors: &mut Vec<RowError>,
) {
    let schema = (plugin.schema)();
    ready.withheld = Withheld::of(&schema, &row.config, value);
    let mut flaws = find_flaws(&schema, value);
    match (plugin.check)(value) {
        // The type is the judge: a schema may be stricter than what serde takes.
        Ok(()) => flaws.retain(|finding| {
            matches!(finding.flaw, Flaw::UnknownKey { .. } | Flaw::Quoted { .. })
        }),
        Err(error) if is_covered(&error, &flaws) => {}
        Err(error) => {
            let problem = ready.redact(error.message, &error.field);
            errors.push(row.config_error(&error.field, problem));
        }
    }
    for finding in flaws {
        let mut problem = ready.redact(finding.problem(), &finding.path);
        if matches!(finding.flaw, Flaw::WrongType { .. }) && ready.referring.contains(&finding.path)
        {
            problem.push_str("; a reference gives a string, so write the value itself");
        }
        let mut error = row.config_error(&finding.path, problem);
        error.suggestion = finding.suggestion;
        error.kind = match finding.flaw {
            Flaw::Missing { .. } => RowErrorKind::Missing,
            Flaw::WrongType { .. } => RowErrorKind::WrongType,
            _ => RowErrorKind::Other,
        };
        errors.push(error);
    }
}

/// Whether one of the findings already says what serde says.
fn is_covered(error: &ConfigError, flaws: &[Finding]) -> bool {
    let missing = error.message.starts_with("missing field");
    flaws.iter().any(|finding| match finding.flaw {
        Flaw::Missing { .. } => missing && is_parent(&error.field, &finding.path),
        Flaw::UnknownKey { .. } => {
            missing && finding.suggestion.is_some() && is_parent(&error.field, &finding.path)
        }
        Flaw::WrongType { .. } | Flaw::NoChoice { .. } | Flaw::OutOfRange { .. } => {
            finding.path == error.field
        }
        Flaw::Quoted { .. } => false,
    })
}

fn is_parent(parent: &str, path: &str) -> bool {
    path.rfind('.').map_or("", |at| &path[..at]) == parent
}

impl Ready {
    /// A message about `field` without secrets: what was written in the row is withheld, values
    /// from the environment are replaced with the references that named them.
    pub(super) fn redact(&self, message: String, field: &str) -> String {
        let mut message = self.withheld.redact(message, field);
        for (value, reference) in &self.secrets {
            if value.len() >= SECRET_MIN_BYTES {
                message = replaced(&message, value, reference);
            }
        }
        message
    }
}

/// Replaces a value also where it is quoted as in source code.
pub(super) fn replaced(message: &str, value: &str, with: &str) -> String {
    let escaped: String = value.escape_debug().collect();
    message.replace(value, with).replace(&escaped, with)
}
