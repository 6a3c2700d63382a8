//! A text for people, line by line, and the words for what is in every such text.

use std::fmt::Display;

use reins_host::{FieldFacts, RowFacts, Shadowed};
use reins_kernel::{LayerInfo, Origin};
use unicode_width::UnicodeWidthStr as _;

use super::value::json_as_toml;
use crate::terminal;

/// Cells of a value that stands on a line with others.
const VALUE_CELLS: usize = 60;

/// Longest line of a text that may be broken.
const LINE_CELLS: usize = 100;

#[derive(Default)]
pub(super) struct Page {
    text: String,
}

impl Page {
    pub(super) fn line(&mut self, line: impl Display) {
        self.text.push_str(&format!("{line}\n"));
    }

    /// A line that belongs to the one above.
    pub(super) fn item(&mut self, line: impl Display) {
        self.line(format_args!("  {line}"));
    }

    /// One item for each, or one that says that there is none.
    pub(super) fn items(&mut self, lines: impl IntoIterator<Item = String>) {
        let mut lines = lines.into_iter().peekable();
        if lines.peek().is_none() {
            self.item("none");
        }
        lines.for_each(|line| self.item(line));
    }

    /// A text in lines of at most [`LINE_CELLS`], each behind `indent`.
    pub(super) fn wrapped(&mut self, indent: &str, text: &str) {
        let mut line = String::new();
        for word in text.split_whitespace() {
            let cells = indent.width() + line.width() + 1 + word.width();
            if !line.is_empty() && cells > LINE_CELLS {
                self.line(format_args!("{indent}{line}"));
                line.clear();
            }
            let blank = if line.is_empty() { "" } else { " " };
            line.push_str(blank);
            line.push_str(word);
        }
        self.line(format_args!("{indent}{line}"));
    }

    pub(super) fn gap(&mut self) {
        self.text.push('\n');
    }

    pub(super) fn layers(&mut self, layers: &[LayerInfo]) {
        self.items(layers.iter().map(layer));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn done(self) -> String {
        self.text
    }
}

/// Lines with their cells below each other; the last cell of a line takes what it takes.
pub(super) fn table(lines: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for line in lines {
        for (at, cell) in line.iter().enumerate() {
            match widths.get_mut(at) {
                Some(width) => *width = cell.width().max(*width),
                None => widths.push(cell.width()),
            }
        }
    }
    let mut page = Page::default();
    for line in lines {
        let mut text = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            text.push_str(cell);
            text.push_str(&" ".repeat(width - cell.width() + 2));
        }
        page.line(text.trim_end());
    }
    page.done()
}

/// A row with its layer and place.
pub(super) fn by(origin: &Origin) -> String {
    format!("row `{}` ({})", origin.row, origin.layer_and_place())
}

pub(super) fn layer(layer: &LayerInfo) -> String {
    format!("{}, order {}, scope {}", by(&layer.origin), layer.order, layer.scope)
}

pub(super) fn shadowed(shadowed: &Shadowed) -> String {
    format!("{}, scope {}", by(&shadowed.origin), shadowed.scope)
}

/// A text of a source on one line.
pub(super) fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `timeout_ms = 400 (patch p.toml, p.toml:2)`, `retries = 3 (default)`, `persona not set`.
pub(super) fn field(field: &FieldFacts) -> String {
    let short = |value: String| terminal::one_line(&value, VALUE_CELLS);
    if let Some(written) = field.in_force()
        && let Some(value) = &written.value
    {
        let value = short(value.to_string());
        return format!("{} = {value} ({})", field.path, written.origin.layer_and_place());
    }
    match &field.doc.default {
        Some(default) => format!("{} = {} (default)", field.path, short(json_as_toml(default))),
        None => format!("{} not set", field.path),
    }
}

/// When a change of a row is taken; `live` rows are mounted anew in each generation, when somebody
/// looks at the files (`reloads`).
pub(crate) fn taken(live: bool, reloads: bool) -> &'static str {
    match (live, reloads) {
        (true, true) => "by the next run; a running agent takes it at its next turn",
        (true, false) => "when Reins starts again, since no row of plugin `reload` is on",
        (false, _) => "when Reins starts again",
    }
}

/// A row as the heading of what is said of it.
pub(super) fn heading(facts: &RowFacts) -> String {
    let of = facts.preset.as_ref().map_or(String::new(), |name| format!(" of preset `{name}`"));
    format!("row `{}`{of}, plugin `{}`", facts.row.id, facts.row.plugin)
}
