//! Edits of a TOML text that leave alone every byte that they are not about: comments, order,
//! blanks, line ends.
//!
//! A text is parsed for the places of things and then cut and joined as text. A value stands
//! either in lines (tables under headers, dotted keys) or in braces (inline tables, lists), and
//! the two are edited differently.
//!
//! The writer of `toml_edit` is not used, since it touches the rest of a file: it drops a byte
//! order mark, turns CRLF into LF, ends the last line, moves dotted keys together, drops the
//! comment after a value that is replaced, and leaves that of an element that is cut to the next.

mod braces;
mod lines;
#[cfg(test)]
mod tests;
mod walk;

use std::fmt;

use toml_edit::{Document, Key};

use braces::fields;
use lines::Lines;
use walk::{Node, Visit, next_element, walk};

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// A key of a table.
    Key(String),
    /// An element of a list, from 0.
    Index(usize),
}

impl Segment {
    pub(crate) fn key(name: &str) -> Self {
        Self::Key(name.to_owned())
    }
}

/// Why a text cannot be edited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EditError {
    /// The text is not TOML.
    Syntax,
    /// A list of `length` elements has no place for the one that was asked for.
    Gap { length: usize },
    /// An element of `[[…]]` tables must be a table.
    NoTable,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax => f.write_str("not valid TOML"),
            Self::Gap { length: 0 } => f.write_str("the list is empty; its next element is `[0]`"),
            Self::Gap { length } => {
                write!(f, "the list ends with `[{}]`; its next element is `[{length}]`", length - 1)
            }
            Self::NoTable => f.write_str("must be a table here"),
        }
    }
}

fn parse(text: &str) -> Result<Document<&str>, EditError> {
    Document::parse(text).map_err(|_| EditError::Syntax)
}

/// The text with `value`, itself TOML, at this path. Tables on the way are made; what is there
/// and is no table or list as the path wants it gives way.
pub(crate) fn put(text: &str, path: &[Segment], value: &str) -> Result<String, EditError> {
    let document = parse(text)?;
    let found = walk(&document, path);
    let depth = found.len() - 1;
    let holder = found[depth].node;
    let fits = path.get(depth).map_or(Ok(false), |next| holder.takes(next))?;
    // New lists begin with their first element.
    let mut made = path.iter().skip(depth + usize::from(fits));
    made.try_for_each(|segment| next_element(segment, 0))?;
    if fits {
        return insert(text, &document, &found, path, value);
    }
    let value = wrap(&path[depth..], value);
    if let Some(range) = holder.range() {
        return Ok(format!("{}{value}{}", &text[..range.start], &text[range.end..]));
    }
    let at = &path[..depth];
    if matches!((at.last(), holder), (Some(Segment::Index(_)), Node::Table(_))) {
        return refill(text, at, holder, &value);
    }
    let text = cut(text, at)?;
    put(&text, at, &value)
}

/// Gives a table of `[[…]]` other fields in its place.
fn refill(
    text: &str,
    path: &[Segment],
    holder: Node<'_>,
    value: &str,
) -> Result<String, EditError> {
    let Node::Table(table) = holder else { return Err(EditError::NoTable) };
    let fields = fields(value).ok_or(EditError::NoTable)?;
    let mut text = text.to_owned();
    for (name, _) in table {
        text = cut(&text, &[path, &[Segment::key(name)]].concat())?;
    }
    for field in fields {
        text = put(&text, &[path, &[Segment::Key(field.name)]].concat(), &field.value)?;
    }
    Ok(text)
}

/// The text without what is at this path; a table or list around it stays, be it empty. The same
/// text when nothing is there.
pub(crate) fn cut(text: &str, path: &[Segment]) -> Result<String, EditError> {
    let mut text = text.to_owned();
    let mut was_list = false;
    loop {
        let document = parse(&text)?;
        let found = walk(&document, path);
        if found.len() <= path.len() || path.is_empty() {
            break;
        }
        let around = found[path.len() - 1].node;
        was_list = matches!(around, Node::Tables(_));
        let next = if matches!(around, Node::Inline(_) | Node::Array(_)) {
            braces::cut(&text, &found)
        } else {
            Lines::new(&text, &document).cut(found[path.len()].clone())
        };
        // What came after it in a list has its index now. Of a dotted key in braces only the last
        // entry went.
        let is_done =
            matches!(around, Node::Array(_) | Node::Tables(_)) || next.len() >= text.len();
        text = next;
        if is_done {
            break;
        }
    }
    let around = &path[..path.len().saturating_sub(1)];
    // The lists of rows themselves may go.
    if around.len() > 1 && walk(&parse(&text)?, around).len() <= around.len() {
        text = put(&text, around, if was_list { "[]" } else { "{}" })?;
    }
    Ok(text)
}

/// The one-based line of what is at this path, or of the nearest thing around it that is there.
pub(crate) fn line_of(text: &str, path: &[Segment]) -> Result<u32, EditError> {
    let document = parse(text)?;
    let found = walk(&document, path);
    let at = found.iter().rev().find_map(Visit::start).unwrap_or(0);
    let breaks = text[..at].matches('\n').count();
    Ok(u32::try_from(breaks + 1).unwrap_or(u32::MAX))
}

/// As a key of TOML.
pub(crate) fn key_text(name: &str) -> String {
    Key::new(name).display_repr().into_owned()
}

/// The value with tables and lists around it, so that the whole has `path` at the place where it
/// is put.
fn wrap(path: &[Segment], value: &str) -> String {
    path.iter().rev().fold(value.to_owned(), |inner, segment| match segment {
        Segment::Key(name) => format!("{{ {} = {inner} }}", key_text(name)),
        Segment::Index(_) => format!("[{inner}]"),
    })
}

fn insert(
    text: &str,
    document: &Document<&str>,
    found: &[Visit<'_>],
    path: &[Segment],
    value: &str,
) -> Result<String, EditError> {
    let depth = found.len() - 1;
    let rest = wrap(&path[depth + 1..], value);
    match (found[depth].node, &path[depth]) {
        (Node::Table(_), Segment::Key(key)) if depth == 0 && path.len() == 2 => {
            Lines::new(text, document).append_row(key, value)
        }
        (Node::Tables(_), _) if depth == 1 => {
            Lines::new(text, document).append_row(&walk::header(found), &rest)
        }
        (Node::Tables(_), _) => {
            Lines::new(text, document).append_table(&found[depth], &walk::header(found), &rest)
        }
        (Node::Table(_), Segment::Key(key)) => {
            Ok(Lines::new(text, document).insert(found, key, &rest))
        }
        (_, segment) => Ok(braces::insert(text, found, segment, &rest)),
    }
}
