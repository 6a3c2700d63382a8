//! What differs between two lists of rows.

use super::compose::Row;
use crate::plugin::PluginDef;
use crate::{Catalog, Origin, Reload};

/// One row that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// Its id.
    pub row: String,
    /// `added`, `removed`, `enabled`, `disabled` or `changed`.
    pub what: &'static str,
    /// What made the change, as far as a row of the new list tells; else the old row's origin.
    pub origin: Origin,
}

/// The rows of one kind of reload that differ, in the order of `now`, then those that are gone.
/// A row is compared by plugin and evaluated configuration; rows that are off on both sides are
/// equal.
pub(super) fn changes(
    before: &[Row],
    now: &[Row],
    catalog: &Catalog,
    reload: Reload,
) -> Vec<RowChange> {
    let of_kind =
        |row: &&Row| catalog.get(&row.plugin).map(PluginDef::reload).unwrap_or(reload) == reload;
    let find = |rows: &'_ [Row], id: &str| rows.iter().position(|row| row.id == id);
    let mut changes = Vec::new();
    for row in now.iter().filter(of_kind) {
        let old = find(before, &row.id).map(|at| &before[at]);
        if let Some(what) = change(old, row) {
            let origin = row.patched_by.last().unwrap_or(&row.origin).clone();
            changes.push(RowChange { row: row.id.clone(), what, origin });
        }
    }
    let gone = before.iter().filter(of_kind);
    let gone = gone.filter(|row| !row.disabled && find(now, &row.id).is_none());
    changes.extend(gone.map(|row| RowChange {
        row: row.id.clone(),
        what: "removed",
        origin: row.origin.clone(),
    }));
    changes
}

fn change(old: Option<&Row>, row: &Row) -> Option<&'static str> {
    let Some(old) = old else { return (!row.disabled).then_some("added") };
    match (old.disabled, row.disabled) {
        (true, true) => None,
        (true, false) => Some("enabled"),
        (false, true) => Some("disabled"),
        (false, false) => {
            let same = old.plugin == row.plugin && old.ready.value == row.ready.value;
            (!same).then_some("changed")
        }
    }
}
