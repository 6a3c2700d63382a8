//! What stands at a path.

use std::ops::Range;

use toml_edit::{Array, ArrayOfTables, Document, InlineTable, Item, Key, Table, Value};

use super::{EditError, Segment, key_text};

/// Something in a document.
#[derive(Clone, Copy)]
pub(super) enum Node<'a> {
    /// Under a header, made by dotted keys, or only implied by headers below it.
    Table(&'a Table),
    /// `[[…]]`
    Tables(&'a ArrayOfTables),
    /// In braces; also one that dotted keys in braces make.
    Inline(&'a InlineTable),
    Array(&'a Array),
    Scalar(&'a Value),
}

/// A node with the key that leads to it.
#[derive(Clone)]
pub(super) struct Visit<'a> {
    pub(super) node: Node<'a>,
    pub(super) key: Option<&'a Key>,
}

impl<'a> Node<'a> {
    pub(super) fn of_value(value: &'a Value) -> Self {
        match value {
            Value::InlineTable(table) => Self::Inline(table),
            Value::Array(array) => Self::Array(array),
            scalar => Self::Scalar(scalar),
        }
    }

    fn of_item(item: &'a Item) -> Option<Self> {
        match item {
            Item::None => None,
            Item::Value(value) => Some(Self::of_value(value)),
            Item::Table(table) => Some(Self::Table(table)),
            Item::ArrayOfTables(tables) => Some(Self::Tables(tables)),
        }
    }

    fn child(self, segment: &Segment) -> Option<Visit<'a>> {
        let (node, key) = match (self, segment) {
            (Self::Table(table), Segment::Key(name)) => {
                let (key, item) = table.get_key_value(name)?;
                (Self::of_item(item)?, Some(key))
            }
            (Self::Inline(table), Segment::Key(name)) => {
                let (key, item) = table.get_key_value(name)?;
                (Self::of_item(item)?, Some(key))
            }
            (Self::Tables(tables), Segment::Index(at)) => (Self::Table(tables.get(*at)?), None),
            (Self::Array(array), Segment::Index(at)) => (Self::of_value(array.get(*at)?), None),
            _ => return None,
        };
        Some(Visit { node, key })
    }

    /// Whether this new child can be added here.
    pub(super) fn takes(self, segment: &Segment) -> Result<bool, EditError> {
        let length = match (self, segment) {
            (Self::Table(_) | Self::Inline(_), Segment::Key(_)) => return Ok(true),
            (Self::Tables(tables), Segment::Index(_)) => tables.len(),
            (Self::Array(array), Segment::Index(_)) => array.len(),
            _ => return Ok(false),
        };
        next_element(segment, length).map(|()| true)
    }

    /// Where it stands, when it stands in one piece as a value.
    pub(super) fn range(self) -> Option<Range<usize>> {
        match self {
            Self::Scalar(value) => value.span(),
            Self::Array(array) => array.span(),
            Self::Inline(table) if !table.is_dotted() => table.span(),
            Self::Inline(_) | Self::Table(_) | Self::Tables(_) => None,
        }
    }
}

/// Refuses an element that would leave a gap in a list.
pub(super) fn next_element(segment: &Segment, length: usize) -> Result<(), EditError> {
    match segment {
        Segment::Index(at) if *at > length => Err(EditError::Gap { length }),
        _ => Ok(()),
    }
}

impl Visit<'_> {
    /// Where it begins; the whole document has no beginning.
    pub(super) fn start(&self) -> Option<usize> {
        match self.node {
            Node::Table(table) if !table.is_implicit() && table.span() != Some(0..0) => {
                table.span().map(|range| range.start)
            }
            _ => {
                let key = self.key.and_then(Key::span);
                key.or_else(|| self.node.range()).map(|range| range.start)
            }
        }
    }
}

/// The document, and along the path as far as it leads.
pub(super) fn walk<'a>(document: &'a Document<&str>, path: &[Segment]) -> Vec<Visit<'a>> {
    let mut found = vec![Visit { node: Node::Table(document.as_table()), key: None }];
    for segment in path {
        let Some(next) = found[found.len() - 1].node.child(segment) else { break };
        found.push(next);
    }
    found
}

/// What a header of the last of these says between its brackets.
pub(super) fn header(found: &[Visit<'_>]) -> String {
    let keys = found.iter().filter_map(|visit| visit.key);
    keys.map(|key| key_text(key.get())).collect::<Vec<_>>().join(".")
}

/// How many of the last visits, and which keys, dotted keys lead through to the last one.
pub(super) fn dotted(found: &[Visit<'_>]) -> (usize, String) {
    let is_dotted = |visit: &&Visit<'_>| match visit.node {
        Node::Table(table) => table.is_dotted(),
        Node::Inline(table) => table.is_dotted(),
        _ => false,
    };
    let count = found.iter().rev().take_while(is_dotted).count();
    let keys = found[found.len() - count..].iter().filter_map(|visit| visit.key);
    (count, keys.map(|key| format!("{}.", key_text(key.get()))).collect())
}
