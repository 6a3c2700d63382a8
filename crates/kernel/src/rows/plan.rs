//! The order in which rows mount.

use std::any::TypeId;
use std::collections::{BTreeSet, HashMap};

use super::compose::Row;
use super::error::{RowError, RowErrorKind};
use crate::plugin::PluginDef;
use crate::{Catalog, Places, Reload, Scope, ServiceKey};

/// Indices of the rows that stay for the life of the process, and of those that reload.
pub(super) fn split(rows: &[Row], catalog: &Catalog) -> (Vec<usize>, Vec<usize>) {
    let stays = |at: &usize| {
        catalog.get(&rows[*at].plugin).is_some_and(|def| def.reload() == Reload::Restart)
    };
    (0..rows.len()).partition(stays)
}

/// Refuses enabled rows of plugins that may not stand here.
pub(super) fn check_places(
    rows: &[Row],
    catalog: &Catalog,
    here: Places,
) -> Result<(), Vec<RowError>> {
    let mut errors = Vec::new();
    for row in rows.iter().filter(|row| !row.disabled) {
        let places = catalog.get(&row.plugin).map(|def| def.places);
        let problem = match (here, places) {
            (Places::Nested, Some(Places::Global)) => format!(
                "plugin `{}` serves the whole process and cannot be set for some agents only; put \
                 the row into the settings",
                row.plugin
            ),
            (Places::Global, Some(Places::Nested)) => format!(
                "plugin `{}` narrows what some agents get and has no meaning for the whole \
                 process; put the row into an agent preset",
                row.plugin
            ),
            _ => continue,
        };
        let mut error = row.error(problem);
        error.line = row.plugin_line;
        error.field = Some("plugin".to_owned());
        errors.push(error);
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Checks the rows of the process as at a start, when only `given` services are there, and answers
/// the mount order of the rows that stay, then of those that reload.
pub(super) fn start_order(
    rows: &[Row],
    catalog: &Catalog,
    given: &dyn Fn(TypeId) -> bool,
) -> Result<(Vec<usize>, Vec<usize>), Vec<RowError>> {
    let all: Vec<usize> = (0..rows.len()).collect();
    // A service of a row that stays and one of a row that reloads would be in two scopes, and one
    // would hide the other.
    let mut errors = check_places(rows, catalog, Places::Global).err().unwrap_or_default();
    errors.extend(provided_twice(rows, &all, catalog));
    let (standing, live) = split(rows, catalog);
    let stay = providers(&enabled_rows(rows, &standing, catalog));
    let first = order(rows, &standing, catalog, Places::Global, given);
    let there = |key| given(key) || stay.contains_key(&key);
    let then = order(rows, &live, catalog, Places::Global, &there);
    match (first, then) {
        (Ok(first), Ok(then)) if errors.is_empty() => return Ok((first, then)),
        (first, then) => {
            errors.extend(first.err().into_iter().chain(then.err()).flatten());
        }
    }
    errors.sort_by_key(|error| rows.iter().position(|row| Some(&row.id) == error.row.as_ref()));
    Err(errors)
}

/// Those of the rows `of` that are enabled, in mount order below the scope `around`: providers
/// first, ties in row order.
pub(super) fn mount_order(
    rows: &[Row],
    of: &[usize],
    catalog: &Catalog,
    here: Places,
    around: &Scope,
) -> Result<Vec<usize>, Vec<RowError>> {
    let mut errors = provided_twice(rows, of, catalog);
    match order(rows, of, catalog, here, &|key| around.sees(key)) {
        Ok(order) if errors.is_empty() => return Ok(order),
        more => errors.extend(more.err().into_iter().flatten()),
    }
    Err(errors)
}

fn order(
    rows: &[Row],
    of: &[usize],
    catalog: &Catalog,
    here: Places,
    there: &dyn Fn(TypeId) -> bool,
) -> Result<Vec<usize>, Vec<RowError>> {
    let mut errors = unknown_plugins(rows, of, catalog);
    let enabled = enabled_rows(rows, of, catalog);
    let providers = providers(&enabled);
    let mut waits: HashMap<usize, BTreeSet<usize>> = HashMap::new();
    for (at, def) in &enabled {
        let on = waits.entry(*at).or_default();
        for key in (def.needs)() {
            match providers.get(&key.type_id()) {
                Some(provider) => drop(on.insert(*provider)),
                None if there(key.type_id()) => {}
                None => errors.push(missing(&rows[*at], key, (rows, here), catalog)),
            }
        }
        on.extend((def.wants)().iter().filter_map(|key| providers.get(&key.type_id())));
    }
    if errors.is_empty() { sort(rows, waits) } else { Err(errors) }
}

fn enabled_rows<'c>(
    rows: &[Row],
    of: &[usize],
    catalog: &'c Catalog,
) -> Vec<(usize, &'c PluginDef)> {
    let enabled = of.iter().filter(|at| !rows[**at].disabled);
    enabled.filter_map(|at| Some((*at, catalog.get(&rows[*at].plugin)?))).collect()
}

/// There are any only when the rows were composed with another catalog.
fn unknown_plugins(rows: &[Row], of: &[usize], catalog: &Catalog) -> Vec<RowError> {
    let enabled = of.iter().map(|at| &rows[*at]).filter(|row| !row.disabled);
    let unknown = enabled.filter(|row| catalog.get(&row.plugin).is_none());
    unknown.map(|row| row.error(format!("there is no plugin `{}`", row.plugin))).collect()
}

/// The first row that provides each service.
fn providers(enabled: &[(usize, &PluginDef)]) -> HashMap<TypeId, usize> {
    let mut providers = HashMap::new();
    for (at, def) in enabled {
        for key in (def.provides)() {
            providers.entry(key.type_id()).or_insert(*at);
        }
    }
    providers
}

fn provided_twice(rows: &[Row], of: &[usize], catalog: &Catalog) -> Vec<RowError> {
    let enabled = enabled_rows(rows, of, catalog);
    let providers = providers(&enabled);
    let mut errors = Vec::new();
    for (at, def) in &enabled {
        for key in (def.provides)() {
            let Some(first) = providers.get(&key.type_id()).filter(|first| *first != at) else {
                continue;
            };
            let problem = format!(
                "service `{}` is already provided by row `{}` ({}); disable one of the two",
                key.name(),
                rows[*first].id,
                rows[*first].origin.place()
            );
            errors.push(rows[*at].error(problem));
        }
    }
    errors
}

fn missing(
    row: &Row,
    key: ServiceKey,
    (rows, here): (&[Row], Places),
    catalog: &Catalog,
) -> RowError {
    let provides = |def: &PluginDef| (def.provides)().contains(&key);
    let could = rows.iter().filter(|row| catalog.get(&row.plugin).is_some_and(provides));
    // Enabled, and yet not there: it is among the rows that stay or those that reload.
    let elsewhere = could.clone().find(|row| !row.disabled);
    let could: Vec<String> = could.map(off).collect();
    let plugins: Vec<&PluginDef> = catalog.iter().filter(|def| provides(def)).collect();
    let fit_here = plugins.iter().any(|def| def.places != Places::Global);
    let plugins: Vec<String> = plugins.iter().map(|def| format!("`{}`", def.name())).collect();
    if let Some(provider) = elsewhere {
        let problem = match catalog.get(&provider.plugin).map(PluginDef::reload) {
            Some(Reload::Restart) => format!(
                "needs service `{}` of row `{}`, which is there when Reins starts again",
                key.name(),
                provider.id
            ),
            _ => format!(
                "stays for the life of the process, and cannot need service `{}` of row `{}`, \
                 which reloads",
                key.name(),
                provider.id
            ),
        };
        return row.error(problem);
    }
    let hint = match (&could[..], &plugins[..]) {
        ([], []) => "no plugin of this build provides it".to_owned(),
        ([], _) if here == Places::Nested && !fit_here => format!(
            "only a row of the whole process can, of plugin {}; enable or insert one in the \
             settings",
            plugins.join(" or ")
        ),
        ([], plugins) => format!("insert a row of plugin {}", plugins.join(" or ")),
        (could, _) => format!("enable row {}", could.join(" or ")),
    };
    let problem = format!("needs service `{}`, which no enabled row provides; {hint}", key.name());
    RowError { kind: RowErrorKind::NeedsService, ..row.error(problem) }
}

/// A row with what disabled it.
fn off(row: &Row) -> String {
    let by = row.disabled_by.as_ref().filter(|by| **by != row.origin);
    let by = by.map_or_else(String::new, |by| format!(", which {} disables", by.place()));
    format!("`{}`{by}", row.id)
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
