//! A layer's text, and the inserts and patches read from it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use super::error::RowError;
use super::nearest::nearest;
use super::syntax::faults;
use crate::origin::place;

/// Longest layer text, in bytes.
pub const MAX_LAYER_BYTES: usize = 1024 * 1024;

const INSERT_KEYS: [&str; 4] = ["id", "plugin", "config", "disabled"];
const KINDS: [&str; 2] = ["insert", "row"];
/// Longest id, in characters.
const MAX_ID_CHARS: usize = 100;

/// One TOML text with the place it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// What people call it, for example `base` or `your settings`.
    pub name: String,
    /// The file it was read from.
    pub file: Option<PathBuf>,
    /// The text: `[[insert]]` and `[[row]]` tables.
    pub text: String,
    /// Top-level keys that whoever read the file has looked at already. They stand before the
    /// first table.
    pub head: &'static [&'static str],
}

impl Layer {
    /// What stands at a top-level key; `None` when it is not there, or when it cannot be read,
    /// which [`compose`](crate::compose) reports: the text is not TOML or too long, or the value
    /// holds a number that is out of range.
    pub fn head_value(&self, key: &str) -> Option<HeadValue> {
        if self.text.len() > MAX_LAYER_BYTES {
            return None;
        }
        let mut document = DeTable::parse(&self.text).ok()?.into_inner();
        let (name, written) = document.iter().find(|(name, _)| name.get_ref() == key)?;
        let line_of = |span: Range<usize>| {
            u32::try_from(self.text[..span.start].matches('\n').count() + 1).unwrap_or(u32::MAX)
        };
        let entries = written.get_ref().as_array().into_iter().flat_map(|list| list.iter());
        let entry_lines = entries.map(|entry| line_of(entry.span())).collect();
        let line = line_of(name.span());
        let value = ValueDeserializer::from(document.remove(key)?);
        let value = toml::Value::deserialize(value).ok()?;
        Some(HeadValue { value, line, entry_lines })
    }

    /// What is wrong with the text by itself, whatever rows there are.
    pub fn errors(&self) -> Vec<RowError> {
        let mut errors = Vec::new();
        drop(read_layer(self, Form::Whole, &mut errors));
        errors
    }
}

/// The value of a top-level key.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadValue {
    /// It.
    pub value: toml::Value,
    /// One-based line of the key.
    pub line: u32,
    /// One-based lines of the entries, when it is a list.
    pub entry_lines: Vec<u32>,
}

/// What the author of a layer is told to write.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Whole,
    /// Patches would meet nothing.
    Inserts,
}

impl Form {
    pub(super) fn tables(self) -> &'static [&'static str] {
        match self {
            Self::Whole => &KINDS,
            Self::Inserts => &["insert"],
        }
    }

    /// The one that is written most.
    pub(super) fn main(self) -> &'static str {
        match self {
            Self::Whole => "row",
            Self::Inserts => "insert",
        }
    }
}

/// Where a layer's text stands.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) layer: Arc<str>,
    pub(super) file: Option<Arc<Path>>,
}

impl Source {
    pub(super) fn error(&self, line: u32, row: Option<&str>, problem: String) -> RowError {
        RowError {
            layer: self.layer.clone(),
            file: self.file.clone(),
            line,
            row: row.map(str::to_owned),
            ..RowError::new(problem)
        }
    }
}

/// A `config` as written, with the line of every field in it.
#[derive(Clone, Debug)]
pub(super) struct ConfigText {
    pub(super) value: toml::Table,
    pub(super) source: Source,
    /// By path, for example `retry.codes[2]`; the whole has the empty path.
    lines: BTreeMap<String, u32>,
}

impl ConfigText {
    pub(super) fn empty(source: Source, line: u32) -> Self {
        let lines = BTreeMap::from([(String::new(), line)]);
        Self { value: toml::Table::new(), source, lines }
    }

    /// Where exactly this field was written, when it was.
    pub(super) fn place_of(&self, path: &str) -> Option<String> {
        let line = *self.lines.get(path)?;
        Some(place(&self.source.layer, self.source.file.as_deref(), line))
    }

    /// The line of the field, or of the nearest table around it that is in the text.
    pub(super) fn line_of(&self, path: &str) -> u32 {
        let mut path = path;
        loop {
            if let Some(line) = self.lines.get(path) {
                return *line;
            }
            if path.is_empty() {
                return 0;
            }
            path = path.rfind(['.', '[']).map_or("", |at| &path[..at]);
        }
    }
}

/// One `[[insert]]` or `[[row]]`.
pub(super) struct Item {
    pub(super) id: String,
    pub(super) line: u32,
    pub(super) plugin: Option<(String, u32)>,
    pub(super) config: Option<ConfigText>,
    pub(super) disabled: Option<bool>,
}

pub(super) struct LayerItems {
    pub(super) source: Source,
    pub(super) inserts: Vec<Item>,
    pub(super) patches: Vec<Item>,
}

/// Reads everything readable; what is wrong goes to `errors`.
pub(super) fn read_layer(layer: &Layer, form: Form, errors: &mut Vec<RowError>) -> LayerItems {
    let source =
        Source { layer: layer.name.as_str().into(), file: layer.file.as_deref().map(Arc::from) };
    let mut items = LayerItems { source: source.clone(), inserts: vec![], patches: vec![] };
    if layer.text.len() > MAX_LAYER_BYTES {
        let problem = format!("longer than {MAX_LAYER_BYTES} bytes; take out what is not needed");
        errors.push(source.error(0, None, problem));
        return items;
    }
    let breaks = layer.text.match_indices('\n').map(|(at, _)| at).collect();
    let mut reader = Reader { breaks, source, head: layer.head, form, errors };
    let (document, syntax) = DeTable::parse_recoverable(&layer.text);
    for fault in faults(&layer.text, &syntax, form) {
        let line = reader.line(&(fault.at..fault.at));
        let problem = format!("not valid TOML: {}", fault.problem);
        reader.errors.push(reader.source.error(line, None, problem));
    }
    // What a recovered parse says about the rest would mostly be consequences.
    if syntax.is_empty() {
        reader.document(document.get_ref(), &mut items);
    }
    items
}

struct Reader<'a> {
    /// Offsets of the line breaks, ascending.
    breaks: Vec<usize>,
    source: Source,
    /// Top-level keys that belong to whoever read the file.
    head: &'static [&'static str],
    form: Form,
    errors: &'a mut Vec<RowError>,
}

type Entries<'t, 'i> = &'t [Spanned<DeValue<'i>>];

impl Reader<'_> {
    fn line(&self, span: &Range<usize>) -> u32 {
        let breaks = self.breaks.partition_point(|at| *at < span.start);
        u32::try_from(breaks + 1).unwrap_or(u32::MAX)
    }

    fn document(&mut self, document: &DeTable<'_>, items: &mut LayerItems) {
        for (key, value) in document {
            let name = key.get_ref().as_ref();
            if self.head.contains(&name) {
                self.head_value(value, name);
                continue;
            }
            let line = self.line(&key.span());
            if !KINDS.contains(&name) {
                self.unknown(name, line);
                continue;
            }
            let Some(entries) = self.entries(value, name, line) else { continue };
            let read: Vec<Item> =
                entries.iter().filter_map(|entry| self.item(entry, name)).collect();
            if name == "insert" { items.inserts = read } else { items.patches = read }
        }
    }

    fn unknown(&mut self, name: &str, line: u32) {
        let (tables, main) = (self.form.tables(), self.form.main());
        let others = tables.iter().filter(|kind| **kind != main);
        let others = others.map(|kind| format!("`[[{kind}]]`"));
        let known: Vec<String> =
            self.head.iter().map(|key| format!("`{key}`")).chain(others).collect();
        let and = if known.is_empty() { "" } else { " and " };
        let problem =
            format!("unknown key; a layer has {}{and}`[[{main}]]` tables", known.join(", "));
        let suggestion = nearest(name, tables.iter().chain(self.head).copied());
        self.push(line, None, Some(name), problem, suggestion.map(str::to_owned));
    }

    /// Reports what [`Layer::head_value`] could not read.
    fn head_value(&mut self, value: &Spanned<DeValue<'_>>, name: &str) {
        let known = self.errors.len();
        drop(self.value(value, name, None, &mut BTreeMap::new()));
        self.errors[known..].iter_mut().for_each(|error| error.field = Some(name.to_owned()));
    }

    fn entries<'t, 'i>(
        &mut self,
        value: &'t Spanned<DeValue<'i>>,
        name: &str,
        line: u32,
    ) -> Option<Entries<'t, 'i>> {
        let array = value.get_ref().as_array();
        let tables = array.filter(|array| array.iter().all(|entry| entry.get_ref().is_table()));
        if tables.is_none() {
            let problem = format!("must be written as `[[{name}]]` tables");
            let mut error = self.source.error(line, None, problem);
            error.field = Some(name.to_owned());
            self.errors.push(error);
        }
        tables.map(|array| &array[..])
    }

    fn item(&mut self, entry: &Spanned<DeValue<'_>>, kind: &str) -> Option<Item> {
        let table = entry.get_ref().as_table()?;
        let line = self.line(&entry.span());
        let known = self.errors.len();
        let id = self.id(table, line, kind);
        let row = id.as_deref();
        let mut item = Item { id: String::new(), line, plugin: None, config: None, disabled: None };
        for (key, value) in table {
            let key_line = self.line(&key.span());
            let name = key.get_ref().as_ref();
            match (name, value.get_ref()) {
                ("id", _) => {}
                ("plugin", DeValue::String(plugin)) => {
                    item.plugin = Some((plugin.to_string(), key_line));
                }
                ("disabled", DeValue::Boolean(disabled)) => item.disabled = Some(*disabled),
                ("config", DeValue::Table(config)) => {
                    item.config = Some(self.config(config, key_line, row));
                }
                (_, value) => self.refuse_key(row, name, key_line, value),
            }
        }
        if kind == "insert" && item.plugin.is_none() && !has_key(table, "plugin") {
            self.push(line, row, Some("plugin"), "is required: name the plugin".to_owned(), None);
        }
        item.id = id?;
        // A damaged patch must not half apply.
        (self.errors.len() == known).then_some(item)
    }

    fn id(&mut self, table: &DeTable<'_>, line: u32, kind: &str) -> Option<String> {
        let found = table.iter().find(|(key, _)| key.get_ref() == "id");
        let Some((key, value)) = found else {
            let problem = format!("is required: give the `[[{kind}]]` an id");
            self.push(line, None, Some("id"), problem, None);
            return None;
        };
        let line = self.line(&key.span());
        let DeValue::String(id) = value.get_ref() else {
            let problem = wrong_type("a string", value.get_ref());
            self.push(line, None, Some("id"), problem, None);
            return None;
        };
        let odd = |c: char| c.is_whitespace() || c.is_control() || c == '`';
        if id.is_empty() || id.contains(odd) {
            let problem = "must be a word without blanks and back-ticks".to_owned();
            self.push(line, None, Some("id"), problem, None);
            return None;
        }
        if id.chars().count() > MAX_ID_CHARS {
            let problem = format!("must not be longer than {MAX_ID_CHARS} characters");
            self.push(line, None, Some("id"), problem, None);
            return None;
        }
        Some(id.to_string())
    }

    fn refuse_key(&mut self, row: Option<&str>, name: &str, line: u32, value: &DeValue<'_>) {
        let expected = match name {
            "plugin" => "a string",
            "disabled" => "true or false",
            "config" => "a table",
            _ if self.head.contains(&name) => {
                let problem = "belongs at the top of the file, before the first `[[..]]` table";
                return self.push(line, row, Some(name), problem.to_owned(), None);
            }
            _ => {
                // The opposite is no typing error, and yet this is what was meant.
                let near = if name == "enabled" { "disabled" } else { name };
                let suggestion = nearest(near, INSERT_KEYS).map(str::to_owned);
                let mut problem =
                    "unknown key; a row has `id`, `plugin`, `config`, `disabled`".to_owned();
                if suggestion.is_none() {
                    problem.push_str(", and what its plugin takes stands in `config`");
                }
                return self.push(line, row, Some(name), problem, suggestion);
            }
        };
        self.push(line, row, Some(name), wrong_type(expected, value), None);
    }

    fn push(
        &mut self,
        line: u32,
        row: Option<&str>,
        field: Option<&str>,
        problem: String,
        suggestion: Option<String>,
    ) {
        let mut error = self.source.error(line, row, problem);
        error.field = field.map(str::to_owned);
        error.suggestion = suggestion;
        self.errors.push(error);
    }

    fn config(&mut self, config: &DeTable<'_>, line: u32, row: Option<&str>) -> ConfigText {
        let mut text = ConfigText::empty(self.source.clone(), line);
        text.value = self.table(config, "", row, &mut text.lines);
        text
    }

    fn table(
        &mut self,
        table: &DeTable<'_>,
        path: &str,
        row: Option<&str>,
        lines: &mut BTreeMap<String, u32>,
    ) -> toml::Table {
        let mut read = toml::Table::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let path = join(path, name);
            lines.insert(path.clone(), self.line(&key.span()));
            if let Some(value) = self.value(value, &path, row, lines) {
                read.insert(name.to_owned(), value);
            }
        }
        read
    }

    fn value(
        &mut self,
        value: &Spanned<DeValue<'_>>,
        path: &str,
        row: Option<&str>,
        lines: &mut BTreeMap<String, u32>,
    ) -> Option<toml::Value> {
        let refused = match value.get_ref() {
            DeValue::String(text) => return Some(toml::Value::String(text.to_string())),
            DeValue::Boolean(flag) => return Some(toml::Value::Boolean(*flag)),
            // No plugin takes a date; one that is read as a string was not meant as a date.
            DeValue::Datetime(_) => "a date must stand in quotes",
            DeValue::Table(table) => {
                return Some(toml::Value::Table(self.table(table, path, row, lines)));
            }
            DeValue::Array(array) => {
                let mut read = Vec::new();
                for (index, value) in array.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    lines.insert(path.clone(), self.line(&value.span()));
                    read.extend(self.value(value, &path, row, lines));
                }
                return Some(toml::Value::Array(read));
            }
            DeValue::Integer(number) => {
                match i64::from_str_radix(number.as_str(), number.radix()) {
                    Ok(number) => return Some(toml::Value::Integer(number)),
                    Err(_) => {
                        "must be from -9223372036854775808 to 9223372036854775807, which is what \
                         fits into 64 bits"
                    }
                }
            }
            DeValue::Float(number) => match number.as_str().parse::<f64>() {
                Ok(number) if number.is_finite() => return Some(toml::Value::Float(number)),
                _ => "must be a finite number",
            },
        };
        let line = self.line(&value.span());
        self.push(line, row, Some(&format!("config.{path}")), refused.to_owned(), None);
        None
    }
}

fn has_key(table: &DeTable<'_>, name: &str) -> bool {
    table.keys().any(|key| key.get_ref() == name)
}

fn wrong_type(expected: &str, found: &DeValue<'_>) -> String {
    format!("must be {expected}, found {}", described(found))
}

fn described(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// Paths are written as `serde_path_to_error` writes them.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
