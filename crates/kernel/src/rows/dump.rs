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
    /// The rows as one layer, with comments that name the origin of each. References are
    /// printed as written, so no value of the environment appears.
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
            text.push_str(&table(row));
        }
        text
    }
}

fn comment(text: &mut String, verb: &str, origin: &Origin) {
    let at = match &origin.file {
        Some(_) => format!("{} ({})", origin.layer, origin.place()),
        None => origin.place(),
    };
    // A file name may hold a line break, which would end the comment.
    let at: String = at.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let written = writeln!(text, "# {verb} {at}");
    debug_assert!(written.is_ok(), "writing to a string");
}

fn table(row: &Row) -> String {
    let (id, plugin) = (&row.id, &row.plugin);
    let insert = Insert { id, plugin, disabled: row.disabled, config: &row.config };
    match toml::to_string(&Document { insert: [insert] }) {
        Ok(table) => table,
        Err(error) => unreachable!("what was read from TOML can be written as TOML: {error}"),
    }
}
