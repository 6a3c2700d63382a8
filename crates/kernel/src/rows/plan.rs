//! The order in which rows mount.

use std::any::TypeId;
use std::collections::{BTreeSet, HashMap};

use super::compose::Row;
use super::error::RowError;
use crate::plugin::PluginDef;
use crate::{Catalog, Scope, ServiceKey};

/// Indices of the enabled rows in mount order: providers first, ties in row order.
pub(super) fn mount_order(
    rows: &[Row],
    catalog: &Catalog,
    root: &Scope,
) -> Result<Vec<usize>, Vec<RowError>> {
    let mut errors = Vec::new();
    let enabled = enabled_rows(rows, catalog, &mut errors);
    let providers = providers(rows, &enabled, &mut errors);
    let mut waits: HashMap<usize, BTreeSet<usize>> = HashMap::new();
    for (at, def) in &enabled {
        let on = waits.entry(*at).or_default();
        for key in (def.needs)() {
            match providers.get(&key.type_id()) {
                Some(provider) => drop(on.insert(*provider)),
                None if root.holds(key.type_id()) => {}
                None => errors.push(missing(&rows[*at], key, rows, catalog)),
            }
        }
        on.extend((def.wants)().iter().filter_map(|key| providers.get(&key.type_id())));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    sort(rows, waits)
}

fn enabled_rows<'c>(
    rows: &[Row],
    catalog: &'c Catalog,
    errors: &mut Vec<RowError>,
) -> Vec<(usize, &'c PluginDef)> {
    let mut enabled = Vec::new();
    for (at, row) in rows.iter().enumerate().filter(|(_, row)| !row.disabled) {
        match catalog.get(&row.plugin) {
            Some(def) => enabled.push((at, def)),
            // Only when composed with another catalog.
            None => errors.push(row.error(format!("there is no plugin `{}`", row.plugin))),
        }
    }
    enabled
}

fn providers(
    rows: &[Row],
    enabled: &[(usize, &PluginDef)],
    errors: &mut Vec<RowError>,
) -> HashMap<TypeId, usize> {
    let mut providers: HashMap<TypeId, usize> = HashMap::new();
    for (at, def) in enabled {
        for key in (def.provides)() {
            let Some(first) = providers.insert(key.type_id(), *at) else { continue };
            let problem = format!(
                "service `{}` is already provided by row `{}` ({}); disable one of the two",
                key.name(),
                rows[first].id,
                rows[first].origin.place()
            );
            errors.push(rows[*at].error(problem));
        }
    }
    providers
}

fn missing(row: &Row, key: ServiceKey, rows: &[Row], catalog: &Catalog) -> RowError {
    let provides = |def: &PluginDef| (def.provides)().contains(&key);
    let could = rows.iter().filter(|row| catalog.get(&row.plugin).is_some_and(provides));
    let could: Vec<String> = could.map(|row| format!("`{}`", row.id)).collect();
    let plugins = catalog.iter().filter(|def| provides(def));
    let plugins: Vec<String> = plugins.map(|def| format!("`{}`", def.name())).collect();
    let hint = match (&could[..], &plugins[..]) {
        ([], []) => "no plugin of this build provides it".to_owned(),
        ([], plugins) => format!("insert a row of plugin {}", plugins.join(" or ")),
        (could, _) => format!("enable row {}", could.join(" or ")),
    };
    row.error(format!("needs service `{}`, which no enabled row provides; {hint}", key.name()))
}

/// Takes the first row in row order that waits for nothing, again and again.
fn sort(
    rows: &[Row],
    mut waits: HashMap<usize, BTreeSet<usize>>,
) -> Result<Vec<usize>, Vec<RowError>> {
    let mut free: BTreeSet<usize> =
        waits.iter().filter(|(_, on)| on.is_empty()).map(|(at, _)| *at).collect();
    let mut order = Vec::new();
    while let Some(at) = free.pop_first() {
        waits.remove(&at);
        order.push(at);
        for (waiting, on) in &mut waits {
            if on.remove(&at) && on.is_empty() {
                free.insert(*waiting);
            }
        }
    }
    if waits.is_empty() { Ok(order) } else { Err(vec![cycle(rows, &waits)]) }
}

fn cycle(rows: &[Row], waits: &HashMap<usize, BTreeSet<usize>>) -> RowError {
    // Every row left waits for a row left, so the walk comes back to a row it has seen.
    let mut path: Vec<usize> = Vec::new();
    let mut at = waits.keys().copied().min().unwrap_or_default();
    while !path.contains(&at) {
        path.push(at);
        let next = waits.get(&at).and_then(BTreeSet::first);
        at = next.copied().unwrap_or(at);
    }
    let start = path.iter().position(|seen| *seen == at).unwrap_or_default();
    let names: Vec<String> =
        path[start..].iter().chain([&at]).map(|at| format!("`{}`", rows[*at].id)).collect();
    let ring = names.join(" → ");
    rows[at].error(format!("rows need each other's services: {ring}; disable one of them"))
}
