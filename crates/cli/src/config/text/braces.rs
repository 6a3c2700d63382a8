//! Entries of inline tables and elements of lists.

use std::ops::Range;

use toml_edit::{InlineTable, Value};

use super::walk::{Node, Visit, dotted};
use super::{Segment, key_text};

/// Adds an entry at the end of the last node, which stands in braces or brackets.
pub(super) fn insert(text: &str, found: &[Visit<'_>], segment: &Segment, value: &str) -> String {
    let (count, prefix) = dotted(found);
    let around = found[found.len() - 1 - count].node;
    let Some(whole) = around.range() else { return text.to_owned() };
    let entry = match segment {
        Segment::Key(name) => format!("{prefix}{} = {value}", key_text(name)),
        Segment::Index(_) => value.to_owned(),
    };
    let entries = entries(text, around, &whole);
    let Some(last) = entries.last() else { return fill(text, around, &whole, &entry) };
    let after = skip_trivia(text, last.end);
    let comma = text[after..].starts_with(',');
    let line = text[..last.start].rfind('\n').map_or(0, |at| at + 1);
    let indent = &text[line..last.start];
    if line <= whole.start || !indent.trim().is_empty() {
        let (at, entry) = if comma {
            (after + 1, format!(" {entry},"))
        } else {
            (last.end, format!(", {entry}"))
        };
        return splice(text, at..at, &entry);
    }
    // One entry a line: after what else stands on the line of the last one.
    let from = if comma { after + 1 } else { last.end };
    let end = text[from..].find('\n').map_or(text.len(), |at| from + at);
    let at = if end < whole.end { text[..end].trim_end_matches('\r').len() } else { from };
    let break_ = if text[..at].contains("\r\n") { "\r\n" } else { "\n" };
    let entry = format!("{break_}{indent}{entry}{}", if comma { "," } else { "" });
    let text = splice(text, at..at, &entry);
    if comma { text } else { splice(&text, last.end..last.end, ",") }
}

fn fill(text: &str, around: Node<'_>, whole: &Range<usize>, entry: &str) -> String {
    let inside = whole.start + 1..whole.end - 1;
    if !text[inside.clone()].trim().is_empty() {
        // Comments.
        return splice(text, inside.end..inside.end, entry);
    }
    let entry =
        if matches!(around, Node::Inline(_)) { format!(" {entry} ") } else { entry.to_owned() };
    splice(text, inside, &entry)
}

/// Takes the last entry of the last node away, of which there are several when it is made of
/// dotted keys; the node before it stands in braces or brackets.
pub(super) fn cut(text: &str, found: &[Visit<'_>]) -> String {
    let [before @ .., target] = found else { return text.to_owned() };
    let (count, _) = dotted(before);
    let around = before[before.len() - 1 - count].node;
    let Some(whole) = around.range() else { return text.to_owned() };
    let mut ends = Vec::new();
    leaf_ends(target.node, &mut ends);
    let entries = entries(text, around, &whole);
    let Some(at) = entries.iter().rposition(|entry| ends.contains(&entry.end)) else {
        return text.to_owned();
    };
    cut_entry(text, &entries, at, &whole)
}

fn cut_entry(text: &str, entries: &[Range<usize>], at: usize, whole: &Range<usize>) -> String {
    let entry = entries[at].clone();
    let after = skip_trivia(text, entry.end);
    if text[after..].starts_with(',') {
        return splice(text, with_line(text, entry.start..after + 1, whole), "");
    }
    let Some(before) = at.checked_sub(1).map(|at| entries[at].end) else {
        let inside = whole.start + 1..whole.end - 1;
        let left = splice(text, entry.clone(), "");
        let rest = inside.start..inside.end - entry.len();
        return if left[rest.clone()].trim().is_empty() { splice(&left, rest, "") } else { left };
    };
    let comma = skip_trivia(text, before);
    if text[comma + 1..entry.start].trim().is_empty() {
        return splice(text, comma..entry.end, "");
    }
    let text = splice(text, with_line(text, entry, whole), "");
    splice(&text, comma..comma + 1, "")
}

/// The entry with its line when it is alone there, else with the blanks after it.
fn with_line(text: &str, entry: Range<usize>, whole: &Range<usize>) -> Range<usize> {
    let start = text[..entry.start].rfind('\n').map_or(0, |at| at + 1);
    let end = text[entry.end..].find('\n').map_or(text.len(), |at| entry.end + at + 1);
    let rest = text[entry.end..end].trim();
    let alone = start > whole.start
        && end < whole.end
        && text[start..entry.start].trim().is_empty()
        && (rest.is_empty() || rest.starts_with('#'));
    if alone {
        return start..end;
    }
    let blanks = text[entry.end..].len() - text[entry.end..].trim_start_matches([' ', '\t']).len();
    entry.start..entry.end + blanks
}

/// From the key, or of an element from the value, to the end of the value; in the order of the
/// text.
fn entries(text: &str, around: Node<'_>, whole: &Range<usize>) -> Vec<Range<usize>> {
    let mut ends = Vec::new();
    match around {
        Node::Inline(table) => table_ends(table, &mut ends),
        Node::Array(array) => {
            array.iter().for_each(|value| leaf_ends(Node::of_value(value), &mut ends))
        }
        Node::Table(_) | Node::Tables(_) | Node::Scalar(_) => {}
    }
    ends.sort_unstable();
    let mut from = whole.start + 1;
    let range = |end: usize| {
        let mut start = skip_trivia(text, from);
        if text[start..].starts_with(',') {
            start = skip_trivia(text, start + 1);
        }
        from = end;
        start..end
    };
    ends.into_iter().map(range).collect()
}

fn leaf_ends(node: Node<'_>, ends: &mut Vec<usize>) {
    match node {
        Node::Inline(table) if table.is_dotted() => table_ends(table, ends),
        node => ends.extend(node.range().map(|range| range.end)),
    }
}

fn table_ends(table: &InlineTable, ends: &mut Vec<usize>) {
    table.iter().for_each(|(_, value)| leaf_ends(Node::of_value(value), ends));
}

/// The first place from here that is no blank, line break or comment.
fn skip_trivia(text: &str, mut at: usize) -> usize {
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
        if !text[at..].starts_with('#') {
            return at;
        }
        at = text[at..].find('\n').map_or(text.len(), |end| at + end);
    }
}

pub(super) fn splice(text: &str, range: Range<usize>, with: &str) -> String {
    format!("{}{with}{}", &text[..range.start], &text[range.end..])
}

/// A field of a value in braces.
pub(super) struct Field {
    pub(super) name: String,
    /// As written.
    pub(super) value: String,
    /// Whether it is a table that is not empty.
    pub(super) is_table: bool,
}

impl Field {
    pub(super) fn statement(&self) -> String {
        format!("{} = {}", key_text(&self.name), self.value)
    }
}

/// The fields of a value in braces; nothing for another value.
pub(super) fn fields(value: &str) -> Option<Vec<Field>> {
    let value: Value = value.parse().ok()?;
    let table = value.as_inline_table()?;
    let field = |(name, value): (&str, &Value)| Field {
        name: name.to_owned(),
        value: value.to_string().trim().to_owned(),
        is_table: value.as_inline_table().is_some_and(|table| !table.is_empty()),
    };
    Some(table.iter().map(field).collect())
}
