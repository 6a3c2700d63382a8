//! What differs between two lists of rows.

use super::compose::Row;
use crate::plugin::PluginDef;
use crate::{Catalog, Origin, Reload};

/// One row that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowChange {
    /// Its id.
    pub row: String,
    /// `added`, `removed`, `enabled`, `disabled`, `changed` or `moved`.
    pub what: &'static str,
    /// What made the change, as far as a row of the new list tells; else the old row's origin.
    pub origin: Origin,
}

/// The row stands elsewhere among the others, which decides ties between layers of a chain,
/// observers and restrictions.
pub(super) const MOVED: &str = "moved";

/// The rows that differ, in the order of `now`, then those that are gone; with `reload` only rows
/// of plugins of this kind, on both sides. A row is compared by plugin and evaluated configuration;
/// rows that are off on both sides are equal. A row that is on, and otherwise equal, is compared by
/// its place among those that are on, too.
pub(super) fn changes(
    before: &[Row],
    now: &[Row],
    catalog: &Catalog,
    reload: Option<Reload>,
) -> Vec<RowChange> {
    let of_kind = |row: &&Row| {
        let kind = catalog.get(&row.plugin).map(PluginDef::reload);
        reload.is_none() || kind.is_none() || kind == reload
    };
    let moved = moved(before.iter().filter(of_kind), now.iter().filter(of_kind));
    let mut changes = Vec::new();
    for row in now.iter().filter(of_kind) {
        let old = before.iter().filter(of_kind).find(|old| old.id == row.id);
        if let Some((what, origin)) = change(old, row) {
            changes.push(RowChange { row: row.id.clone(), what, origin: origin.clone() });
        } else if moved.contains(&&*row.id) {
            let (row, origin) = (row.id.clone(), row.origin.clone());
            changes.push(RowChange { row, what: MOVED, origin });
        }
    }
    let stays = |old: &Row| now.iter().filter(of_kind).any(|row| row.id == old.id);
    let gone = before.iter().filter(of_kind).filter(|row| !row.disabled && !stays(row));
    changes.extend(gone.map(|row| RowChange {
        row: row.id.clone(),
        what: "removed",
        origin: row.origin.clone(),
    }));
    changes
}

fn change<'r>(old: Option<&Row>, row: &'r Row) -> Option<(&'static str, &'r Origin)> {
    let Some(old) = old else { return (!row.disabled).then_some(("added", &row.origin)) };
    match (old.disabled, row.disabled) {
        (true, true) => None,
        (true, false) => Some(("enabled", &row.switched_by)),
        (false, true) => Some(("disabled", &row.switched_by)),
        (false, false) if old.plugin != row.plugin => Some(("changed", &row.origin)),
        (false, false) => {
            (old.ready.value != row.ready.value).then_some(("changed", &row.config_by))
        }
    }
}

/// The ids of few rows that, taken out, leave the others that are on both times in the same order.
fn moved<'r>(
    before: impl Iterator<Item = &'r Row>,
    now: impl Iterator<Item = &'r Row>,
) -> Vec<&'r str> {
    let on = |row: &&Row| !row.disabled;
    let (before, now): (Vec<&Row>, Vec<&Row>) =
        (before.filter(on).collect(), now.filter(on).collect());
    let both = |row: &&&Row, others: &[&Row]| others.iter().any(|other| other.id == row.id);
    let mut old: Vec<&str> = before.iter().filter(|row| both(row, &now)).map(|r| &*r.id).collect();
    let mut new: Vec<&str> = now.iter().filter(|row| both(row, &before)).map(|r| &*r.id).collect();
    let mut moved = Vec::new();
    while let Some(at) = old.iter().zip(&new).position(|(old, new)| old != new) {
        // Taken out where it was, if the rest then fits again; else where it is.
        let id = if old.get(at + 1) == Some(&new[at]) { old[at] } else { new[at] };
        old.retain(|other| *other != id);
        new.retain(|other| *other != id);
        moved.push(id);
    }
    moved
}
