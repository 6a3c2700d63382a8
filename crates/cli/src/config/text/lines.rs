//! Statements (`key = value`) and headers (`[table]`, `[[table]]`), which stand in lines.

use std::ops::Range;

use toml_edit::{Document, Item, Key, Table};

use super::braces::{Field, fields, splice};
use super::walk::{Node, Visit, dotted, header};
use super::{EditError, key_text};

/// A text with the places of its statements and headers.
pub(super) struct Lines<'t> {
    text: &'t str,
    /// After a byte order mark.
    first: usize,
    line_break: &'static str,
    /// Whole lines, in the order of the text.
    blocks: Vec<Block>,
}

#[derive(Clone)]
struct Block {
    range: Range<usize>,
    is_header: bool,
}

impl<'t> Lines<'t> {
    pub(super) fn new(text: &'t str, document: &Document<&str>) -> Self {
        let first = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let is_dos = text.find('\n').is_some_and(|at| text[..at].ends_with('\r'));
        let line_break = if is_dos { "\r\n" } else { "\n" };
        let mut lines = Self { text, first, line_break, blocks: Vec::new() };
        lines.blocks = lines.below(document.as_table(), |_| true);
        lines
    }

    /// The blocks in a table and in those tables in it that are `meant`, in the order of the text.
    fn below(&self, table: &Table, meant: fn(&Table) -> bool) -> Vec<Block> {
        let inner = |table: &Table| match meant(table) {
            true => self.head(table).into_iter().chain(self.below(table, meant)).collect(),
            false => Vec::new(),
        };
        let of = |(name, item): (&str, &Item)| match item {
            Item::None => Vec::new(),
            Item::Value(value) => {
                self.statement(table.key(name), value.span()).into_iter().collect()
            }
            Item::Table(table) => inner(table),
            Item::ArrayOfTables(tables) => tables.iter().flat_map(inner).collect(),
        };
        let mut blocks: Vec<Block> = table.iter().flat_map(of).collect();
        blocks.sort_by_key(|block| block.range.start);
        blocks
    }

    fn head(&self, table: &Table) -> Option<Block> {
        let span = table.span().filter(|_| !table.is_implicit())?;
        Some(Block { range: self.whole(span), is_header: true })
    }

    fn statement(&self, key: Option<&Key>, value: Option<Range<usize>>) -> Option<Block> {
        let range = self.whole(key?.span()?.start..value?.end);
        Some(Block { range, is_header: false })
    }

    /// With the rest of the lines.
    fn whole(&self, span: Range<usize>) -> Range<usize> {
        let start = self.text[..span.start].rfind('\n').map_or(self.first, |at| at + 1);
        let end = self.text[span.end..].find('\n').map_or(self.text.len(), |at| span.end + at + 1);
        start..end
    }

    /// Blocks of the node, with its headers.
    fn blocks_of(&self, visit: &Visit<'_>) -> Vec<Block> {
        let whole = |table: &Table| {
            let head = self.head(table).into_iter();
            head.chain(self.below(table, |_| true)).collect::<Vec<_>>()
        };
        let mut blocks = match visit.node {
            Node::Table(table) => whole(table),
            Node::Tables(tables) => tables.iter().flat_map(whole).collect(),
            node => self.statement(visit.key, node.range()).into_iter().collect(),
        };
        blocks.sort_by_key(|block| block.range.start);
        blocks
    }

    /// Takes the node away, with the comment that is surely its own. What else is commented in it
    /// or below it stays: it may be something that waits to be switched on again.
    pub(super) fn cut(&self, visit: Visit<'_>) -> String {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for block in self.blocks_of(&visit) {
            let Range { start, end } = block.range;
            match ranges.last_mut() {
                None => ranges.push(self.with_own_comment(start)..end),
                // Empty lines between the statements go with these.
                Some(last) if self.text[last.end..start].trim().is_empty() => last.end = end,
                Some(_) => ranges.push(start..end),
            }
        }
        let mut text = self.text.to_owned();
        for range in ranges.into_iter().rev() {
            text.replace_range(range.clone(), "");
            self.close_gap(&mut text, range.start);
        }
        text
    }

    /// Where the comment begins that is surely about what starts here: it stands directly above,
    /// an empty line sets it off from what comes before, and it is no TOML that was commented out.
    fn with_own_comment(&self, start: usize) -> usize {
        let from = self.with_comments_above(start);
        let before = self.blocks.iter().filter(|block| block.range.end <= from);
        let is_set_off = before.map(|block| block.range.end).max().unwrap_or(self.first) < from;
        let is_toml = |line: &str| {
            let words = line.trim_start().trim_start_matches('#').trim_start();
            words.starts_with('[') || words.contains('=')
        };
        let is_own = is_set_off && !self.text[from..start].lines().any(is_toml);
        if is_own { from } else { start }
    }

    /// Where the comments begin that stand directly above. Those at the beginning of the file speak
    /// of all of it.
    fn with_comments_above(&self, start: usize) -> usize {
        let before = self.blocks.iter().filter(|block| block.range.end <= start);
        let floor = before.map(|block| block.range.end).max().unwrap_or(self.first);
        let mut from = start;
        while from > floor {
            let line = self.text[..from - 1].rfind('\n').map_or(self.first, |at| at + 1).max(floor);
            if !self.text[line..from].trim_start().starts_with('#') {
                return from;
            }
            from = line;
        }
        if from == self.first { start } else { from }
    }

    /// Takes empty lines away that would be double, or the last ones of the file, after something
    /// went from here.
    fn close_gap(&self, text: &mut String, at: usize) {
        const BLANK: [char; 4] = [' ', '\t', '\r', '\n'];
        let (before, after) = (&text[self.first..at], &text[at..]);
        let blank = after.len() - after.trim_start_matches(BLANK).len();
        if blank == after.len() {
            let kept = self.first + before.trim_end_matches(BLANK).len();
            let end = text[kept..at].find('\n').map_or(kept, |end| kept + end + 1);
            // A file whose last line has no end goes on without one.
            let has_end = kept > self.first && self.text.ends_with('\n');
            text.truncate(if has_end { end } else { kept });
        } else if before.is_empty() || before.ends_with("\n\n") || before.ends_with("\n\r\n") {
            let lines = after[..blank].rfind('\n').map_or(0, |end| end + 1);
            text.replace_range(at..at + lines, "");
        }
    }

    /// Adds a statement to the last table.
    pub(super) fn insert(&self, found: &[Visit<'_>], key: &str, value: &str) -> String {
        let (count, prefix) = dotted(found);
        let visit = &found[found.len() - 1];
        let Node::Table(table) = visit.node else { return self.text.to_owned() };
        let statement = format!("{prefix}{} = {value}", key_text(key));
        if count == 0 && table.is_implicit() {
            return self.insert_header(found, &statement);
        }
        // What dotted keys lead to counts as its own.
        let own = self.below(table, Table::is_dotted);
        let head = self.head(table).filter(|_| count == 0);
        let last = own.into_iter().rev().find(|block| !block.is_header).or(head);
        let Some(Block { range: last, .. }) = last else { return self.text.to_owned() };
        let indent = self.indent(last.start);
        // A row's configuration gets a table of its own.
        if found.len() == 3
            && count == 0
            && let Some(fields) = fields(value).filter(|fields| !fields.is_empty())
        {
            let mut lines = vec![format!("{indent}[{}.{}]", header(found), key_text(key))];
            lines.extend(fields.iter().map(|field| format!("{indent}{}", field.statement())));
            return self.insert_lines(last.end, &lines);
        }
        self.insert_lines(last.end, &[format!("{indent}{statement}")])
    }

    /// Gives a table that only headers below it imply a header of its own.
    fn insert_header(&self, found: &[Visit<'_>], statement: &str) -> String {
        let blocks = self.blocks_of(&found[found.len() - 1]);
        let Some(below) = blocks.first() else { return self.text.to_owned() };
        let indent = self.indent(below.range.start);
        let at = self.with_comments_above(below.range.start);
        let lines = [format!("{indent}[{}]", header(found)), format!("{indent}{statement}")];
        self.insert_lines(at, &lines)
    }

    fn indent(&self, line: usize) -> &'t str {
        let rest = &self.text[line..];
        &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()]
    }

    /// `at` is the beginning of a line, or the end of the text.
    fn insert_lines(&self, at: usize, lines: &[String]) -> String {
        let joined = lines.join(self.line_break);
        if at == self.text.len() && at > self.first && !self.text.ends_with('\n') {
            return format!("{}{}{joined}", self.text, self.line_break);
        }
        splice(self.text, at..at, &format!("{joined}{}", self.line_break))
    }

    /// One more `[[…]]` after the last of these.
    pub(super) fn append_table(
        &self,
        visit: &Visit<'_>,
        header: &str,
        value: &str,
    ) -> Result<String, EditError> {
        let fields = fields(value).ok_or(EditError::NoTable)?;
        let blocks = self.blocks_of(visit);
        let Some(last) = blocks.last() else { return Ok(self.text.to_owned()) };
        let heads: Vec<&Block> = blocks.iter().filter(|block| block.is_header).collect();
        let indent = heads.last().map_or("", |block| self.indent(block.range.start));
        let mut lines = vec![format!("{indent}[[{header}]]")];
        lines.extend(fields.iter().map(|field| format!("{indent}{}", field.statement())));
        Ok(self.insert_lines(last.range.end, &lines))
    }

    /// One more `[[…]]` at the end of the file, an empty line before it; tables in it get headers.
    pub(super) fn append_row(&self, header: &str, value: &str) -> Result<String, EditError> {
        let row = fields(value).ok_or(EditError::NoTable)?;
        let (tables, plain): (Vec<Field>, Vec<Field>) =
            row.into_iter().partition(|field| field.is_table);
        let mut lines = vec![format!("[[{header}]]")];
        lines.extend(plain.iter().map(Field::statement));
        for table in &tables {
            lines.push(format!("[{header}.{}]", key_text(&table.name)));
            let fields = fields(&table.value).unwrap_or_default();
            lines.extend(fields.iter().map(Field::statement));
        }
        let joined = lines.join(self.line_break);
        let (text, end) = (self.text, self.line_break);
        if text[self.first..].is_empty() {
            return Ok(format!("{text}{joined}{end}"));
        }
        if !text.ends_with('\n') {
            return Ok(format!("{text}{end}{end}{joined}"));
        }
        let gap = if text.ends_with("\n\n") || text.ends_with("\n\r\n") { "" } else { end };
        Ok(format!("{text}{gap}{joined}{end}"))
    }
}
