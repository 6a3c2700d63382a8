//! `reins explain field`

use reins_host::{Explain, FieldFacts, RowFacts};
use reins_kernel::{Origin, Written};

use super::page::{Page, field, flat, heading, taken};
use super::row::in_force;
use super::value::json_as_toml;
use super::{nearest_and_all, unknown};
use crate::exit::CliError;
use crate::layers::{DEFAULT_PROFILE, SETTINGS};
use crate::start::quoted;

pub(super) fn list(explain: &Explain) -> String {
    let mut page = Page::default();
    for facts in explain.rows() {
        for each in explain.fields(&facts) {
            let of = facts.preset.as_ref().map(|name| format!(", of preset `{name}`"));
            page.line(format_args!("{}.{}{}", each.row, field(&each), of.unwrap_or_default()));
        }
    }
    page.done()
}

pub(super) fn one(explain: &Explain, profile: &str, typed: &str) -> Result<String, CliError> {
    let rows = explain.rows();
    // `config set` wants names with dots quoted; paths of rows are told apart without.
    let typed = typed.replace(['"', '\''], "");
    let (row, path) = split(&rows, &typed)?;
    let mut named = explain.rows_named(row);
    // What agents of the preset have stands first.
    named.sort_by_key(|facts| facts.preset.is_none());
    let mut page = Page::default();
    for facts in &named {
        if path == "disabled" {
            about_switch(&mut page, explain, facts, profile);
        } else if let Some(each) = explain.field(facts, path) {
            if !page.is_empty() {
                page.gap();
            }
            about(&mut page, explain, facts, &each);
            // The whole `config` comes from there, also what it leaves out.
            let written_by = each.written.last().map(|written| &written.origin);
            let change = Change { key: settable(&each), value: "VALUE", written_by, profile };
            how(&mut page, explain, facts, change);
        }
    }
    if !page.is_empty() {
        return Ok(page.done());
    }
    let fields: Vec<FieldFacts> = named.iter().flat_map(|facts| explain.fields(facts)).collect();
    let mut paths: Vec<&str> = fields.iter().map(|each| each.path.as_str()).collect();
    paths.push("disabled");
    let error = CliError::usage(format!("row `{row}` has no field `{path}`"));
    Err(error.with_hint(nearest_and_all("fields", path, &paths)))
}

/// The id and the path of `ROW.PATH`. Ids may hold dots, so the longest that fits is the row.
fn split<'t>(rows: &[RowFacts], typed: &'t str) -> Result<(&'t str, &'t str), CliError> {
    let ids = rows.iter().map(|facts| facts.row.id.as_str());
    let fitting = ids.clone().filter(|id| {
        typed.strip_prefix(id).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    });
    let Some(id) = fitting.max_by_key(|id| id.len()) else {
        let row = typed.split('.').next().unwrap_or(typed);
        return Err(unknown("row", row, &ids.collect::<Vec<_>>()));
    };
    let (row, rest) = typed.split_at(id.len());
    let path = rest.strip_prefix('.').unwrap_or_default();
    // As in messages.
    let path = path.strip_prefix("config.").unwrap_or(path);
    if path.is_empty() {
        let message = format!("`{typed}` names a row and none of its fields");
        let hint = format!("`reins explain row {row}` shows them all");
        return Err(CliError::usage(message).with_hint(hint));
    }
    Ok((row, path))
}

fn about(page: &mut Page, explain: &Explain, facts: &RowFacts, each: &FieldFacts) {
    let doc = &each.doc;
    page.line(format_args!("field `{}` of {}", each.path, heading(facts)));
    page.line(flat(&doc.doc));
    page.gap();
    in_force(explain, facts).into_iter().for_each(|line| page.line(line));
    let default = doc.default.as_ref().map(json_as_toml);
    let written = each.in_force().and_then(|w| Some((w.value.as_ref()?, &w.origin)));
    match (&written, &default) {
        (Some((value, origin)), _) => {
            page.line(format_args!("value: {value}"));
            page.line(format_args!("written in {}", origin.layer_and_place()));
        }
        (None, Some(default)) => page.line(format_args!("value: {default}, the default")),
        (None, None) => page.line("value: not set"),
    }
    replaced(page, &each.written);
    page.line(format_args!("takes: {}", doc.kind));
    if !doc.limits.is_empty() {
        page.line(format_args!("limits: {}", doc.limits));
    }
    match (&default, doc.required) {
        (Some(default), _) => page.line(format_args!("default: {default}")),
        (None, true) => page.line("default: none, it is required"),
        (None, false) => page.line("default: none, it may be left out"),
    }
    if doc.secret {
        page.line("secret: what is written here is not printed, references are");
    }
    page.gap();
}

/// What `config`s said that others have replaced as a whole.
fn replaced(page: &mut Page, written: &[Written]) {
    let Some((last, earlier)) = written.split_last() else { return };
    for each in earlier.iter().rev() {
        let Some(value) = &each.value else { continue };
        let at = each.origin.layer_and_place();
        match last.value {
            Some(_) => page.line(format_args!("replaced: {value}, written in {at}")),
            None => page.line(format_args!(
                "replaced: {value}, written in {at}; {} does not repeat it",
                last.origin.layer_and_place()
            )),
        }
    }
}

fn about_switch(page: &mut Page, explain: &Explain, facts: &RowFacts, profile: &str) {
    page.line(format_args!("`disabled` of {}", heading(facts)));
    page.line("Takes the whole row out.");
    page.gap();
    page.line(format_args!("value: {}", facts.row.disabled));
    if let Some(by) = &facts.row.disabled_by {
        page.line(format_args!("written in {}", by.layer_and_place()));
    }
    page.line("takes: true or false");
    page.line("default: false");
    page.gap();
    let value = if facts.row.disabled { "false" } else { "true" };
    let written_by = facts.row.disabled_by.as_ref().or(Some(&facts.row.origin));
    how(page, explain, facts, Change { key: "disabled".to_owned(), value, written_by, profile });
}

/// How `config set` would name a field. A whole list or map stands for entries that are not there.
fn settable(each: &FieldFacts) -> String {
    let path = &each.path;
    if let Some(end) = path.find("[]").into_iter().chain(path.find(".<name>")).min() {
        return path[..end].to_owned();
    }
    let key = path.strip_prefix(each.doc.path.as_str()).and_then(|rest| rest.strip_prefix('.'));
    match key.filter(|key| key.contains('.')) {
        Some(key) => format!("{}.\"{key}\"", each.doc.path),
        None => path.clone(),
    }
}

struct Change<'c> {
    key: String,
    value: &'static str,
    /// What says it now.
    written_by: Option<&'c Origin>,
    profile: &'c str,
}

fn how(page: &mut Page, explain: &Explain, facts: &RowFacts, change: Change<'_>) {
    let Change { key, value, written_by, profile } = change;
    // Settings hold for every profile, are below the patches and do not reach into presets.
    let own_file = written_by.filter(|at| at.file.is_some() && *at.layer != *SETTINGS);
    let how = match (&facts.preset, own_file) {
        (_, Some(origin)) => format!("edit {}", origin.layer_and_place()),
        (Some(preset), None) => format!(
            "write `presets/{preset}.toml` in the home, which takes the place of the shipped preset"
        ),
        (None, None) => {
            let key = quoted(&format!("{}.{key}", facts.row.id));
            match profile {
                DEFAULT_PROFILE => format!("`reins config set {key} {value}`"),
                other => format!(
                    "`reins config set {key} {value} --profile {}`, which holds for every profile",
                    quoted(other)
                ),
            }
        }
    };
    page.line(format_args!("to change it: {how}"));
    page.line(format_args!("a change is taken {}", taken(facts.is_live(), explain.reloads())));
}
