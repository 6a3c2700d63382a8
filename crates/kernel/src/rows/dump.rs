//! Rows as a text that loads again.

use std::fmt::Write as _;

use super::compose::{Composition, Row};
use crate::Origin;

#[derive(serde::Serialize)]
struct Document<'a> {
    insert: [Insert<'a>; 1],
}

#[derive(serde::Serialize)]
struct Insert<'a> {
    id: &'a str,
    plugin: &'a str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    disabled: bool,
    #[serde(skip_serializing_if = "toml::Table::is_empty")]
    config: &'a toml::Table,
}

impl Composition {
    /// The rows as one layer, with comments that name the origin of each. References are printed as
    /// written, so no value of the environment appears. A secret that is written in a row is
    /// printed as `"[withheld]"`, and a comment says so; the text is still a layer.
    pub fn dump(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            if !text.is_empty() {
                text.push('\n');
            }
            comment(&mut text, "inserted by", &row.origin);
            for patch in &row.patched_by {
                comment(&mut text, "changed by", patch);
            }
            withheld(&mut text, &row.ready.withheld.paths);
            text.push_str(&table(row));
        }
        text
    }
}

fn comment(text: &mut String, verb: &str, origin: &Origin) {
    line(text, &format!("{verb} {}", origin.layer_and_place()));
}

fn withheld(text: &mut String, paths: &[String]) {
    if paths.is_empty() {
        return;
    }
    let paths = paths.join("`, `");
    line(
        text,
        &format!("withheld, since written here: `{paths}`; `${{env:NAME}}` would be printed"),
    );
}

fn line(text: &mut String, comment: &str) {
    // A file name or a key may hold a line break, which would end the comment.
    let comment: String = comment.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let written = writeln!(text, "# {comment}");
    debug_assert!(written.is_ok(), "writing to a string");
}

fn table(row: &Row) -> String {
    let (id, plugin) = (&row.id, &row.plugin);
    let withheld = &row.ready.withheld;
    let config = if withheld.paths.is_empty() { &row.config } else { &withheld.config };
    let insert = Insert { id, plugin, disabled: row.disabled, config };
    match toml::to_string(&Document { insert: [insert] }) {
        Ok(table) => table,
        Err(error) => unreachable!("what was read from TOML can be written as TOML: {error}"),
    }
}
