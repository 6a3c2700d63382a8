//! The settings' text with its values, and what they say of a row.

use reins_kernel::Row;
use toml::{Table, Value};

use super::judge::quoted;
use super::key::What;
use super::text::{self, EditError, Segment};
use super::{model, value};
use crate::exit::CliError;

/// A text that is TOML, and its values.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) text: String,
    pub(super) values: Value,
}

/// One `[[insert]]` or `[[row]]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    list: &'static str,
    at: usize,
}

impl Item {
    pub(super) const INSERT: &'static str = "insert";
    pub(super) const ROW: &'static str = "row";

    pub(super) fn path(self, below: &[Segment]) -> Vec<Segment> {
        [&[Segment::key(self.list), Segment::Index(self.at)], below].concat()
    }

    pub(super) fn is_insert(self) -> bool {
        self.list == Self::INSERT
    }
}

/// A step from one text to another.
#[derive(Clone, Debug)]
pub(super) enum Edit {
    /// The value as TOML.
    Put(Vec<Segment>, String),
    Cut(Vec<Segment>),
}

/// What is in force of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct InForce {
    pub(super) config: Value,
    pub(super) disabled: bool,
}

impl InForce {
    /// Whether this text of TOML is what is in force of a switch or field.
    pub(super) fn is(&self, what: &What, text: &str) -> bool {
        let value = value::parsed(text);
        match what {
            What::Row => false,
            What::Disabled => value == Some(Value::Boolean(self.disabled)),
            What::Field(path) => value.as_ref() == model::get(&self.config, path),
        }
    }
}

impl Settings {
    /// Nothing when the text is no TOML, or its rows are no `[[…]]` tables.
    pub(super) fn read(text: &str) -> Option<Self> {
        let values = Value::Table(toml::from_str::<Table>(text).ok()?);
        let is_fine = |list: &str| {
            let rows = values.get(list).map(|rows| rows.as_array().map(Vec::as_slice));
            rows.is_none_or(|rows| rows.is_some_and(|rows| rows.iter().all(Value::is_table)))
        };
        let is_fine = is_fine(Item::INSERT) && is_fine(Item::ROW);
        is_fine.then(|| Self { text: text.to_owned(), values })
    }

    fn rows(&self, list: &'static str) -> impl Iterator<Item = (Item, &Value)> {
        let rows = self.values.get(list).and_then(Value::as_array).map(Vec::as_slice);
        let rows = rows.unwrap_or_default().iter().enumerate();
        rows.map(move |(at, row)| (Item { list, at }, row))
    }

    /// Everything with this id, in the order in which it applies.
    pub(super) fn items(&self, id: &str) -> Vec<Item> {
        let all = self.rows(Item::INSERT).chain(self.rows(Item::ROW));
        all.filter(|(_, row)| id_of(row) == Some(id)).map(|(item, _)| item).collect()
    }

    /// The ids of all rows that are inserted here.
    pub(super) fn inserted(&self) -> impl Iterator<Item = &str> {
        self.rows(Item::INSERT).filter_map(|(_, row)| id_of(row))
    }

    /// The ids of everything.
    pub(super) fn ids(&self) -> impl Iterator<Item = &str> {
        self.inserted().chain(self.rows(Item::ROW).filter_map(|(_, row)| id_of(row)))
    }

    pub(super) fn get(&self, item: Item, below: &[Segment]) -> Option<&Value> {
        model::get(&self.values, &item.path(below))
    }

    /// The item whose value of this key holds.
    pub(super) fn last_with(&self, id: &str, key: &str) -> Option<Item> {
        let has = |item: &Item| self.get(*item, &[Segment::key(key)]).is_some();
        self.items(id).into_iter().rev().find(has)
    }

    /// Where one more `[[row]]` comes.
    pub(super) fn next_row(&self) -> Item {
        Item { list: Item::ROW, at: self.rows(Item::ROW).count() }
    }

    /// The plugin of a row that is inserted here.
    pub(super) fn plugin(&self, id: &str) -> Option<&str> {
        let insert = self.items(id).into_iter().find(|item| item.is_insert())?;
        self.get(insert, &[Segment::key("plugin")])?.as_str()
    }

    /// What is in force of a row with this one below; nothing when it is nowhere.
    pub(super) fn in_force(&self, id: &str, below: Option<&Row>) -> Option<InForce> {
        if below.is_none() && !self.inserted().any(|inserted| inserted == id) {
            return None;
        }
        let own = |key: &str| self.get(self.last_with(id, key)?, &[Segment::key(key)]);
        let config = own("config").cloned().unwrap_or_else(|| config_of(below));
        let disabled = own("disabled").and_then(Value::as_bool);
        let disabled = disabled.unwrap_or_else(|| below.is_some_and(|row| row.disabled));
        Some(InForce { config, disabled })
    }

    /// Settings that hold nothing but what is in force of this row.
    pub(super) fn alone(&self, id: &str, below: Option<&Row>) -> String {
        let Some(InForce { config, disabled }) = self.in_force(id, below) else {
            return String::new();
        };
        let (list, plugin) = match (below, self.plugin(id)) {
            (None, Some(plugin)) => (Item::INSERT, format!("plugin = {}\n", quoted(plugin))),
            _ => (Item::ROW, String::new()),
        };
        let id = quoted(id);
        format!("[[{list}]]\nid = {id}\n{plugin}disabled = {disabled}\nconfig = {config}\n")
    }

    /// The settings after these edits. That they mean what they should is checked, so that a form
    /// of TOML that is edited wrongly changes no file.
    pub(super) fn edited(&self, edits: &[Edit]) -> Result<Self, Refused> {
        let (mut text, mut values) = (self.text.clone(), self.values.clone());
        for edit in edits {
            match edit {
                Edit::Put(path, value) => {
                    text = text::put(&text, path, value).map_err(Refused::Edit)?;
                    let value = value::parsed(value).ok_or(Refused::Lost)?;
                    model::put(&mut values, path, value);
                }
                Edit::Cut(path) => {
                    text = text::cut(&text, path).map_err(Refused::Edit)?;
                    model::cut(&mut values, path);
                }
            }
        }
        let edited = Self::read(&text).ok_or(Refused::Lost)?;
        let same = without_empty_lists(&edited.values) == without_empty_lists(&values);
        if same { Ok(edited) } else { Err(Refused::Lost) }
    }
}

/// Why an edit is not made.
#[derive(Debug)]
pub(super) enum Refused {
    Edit(EditError),
    /// It would not mean what was asked.
    Lost,
}

impl Refused {
    pub(super) fn of(self, key: &str) -> CliError {
        match self {
            Self::Edit(error) => CliError::usage(format!("`{key}`: {error}")),
            Self::Lost => {
                CliError::internal(format!("`{key}` cannot be changed in the form of this file"))
                    .with_hint("change it with `reins config edit`")
            }
        }
    }
}

fn id_of(row: &Value) -> Option<&str> {
    row.get("id").and_then(Value::as_str)
}

pub(super) fn config_of(below: Option<&Row>) -> Value {
    Value::Table(below.map(|row| row.config.clone()).unwrap_or_default())
}

/// As text, since a number that is none equals nothing.
fn without_empty_lists(values: &Value) -> String {
    let mut table = values.as_table().cloned().unwrap_or_default();
    table.retain(|_, rows| rows.as_array().is_none_or(|rows| !rows.is_empty()));
    Value::Table(table).to_string()
}
