//! The page for people: every plugin with every field.

use reins_kernel::{Catalog, FieldDoc, Places, PluginDef, PluginSummary, Reload, Row};

use crate::catalog::GROUPS;
use crate::explain::{json_as_toml, taken};

const INTRO: &str = include_str!("intro.md");

/// Longest value of a shipped row that is shown.
const MAX_VALUE_BYTES: usize = 60;

/// The page, with the shipped rows and the plugins that a binary adds.
pub(super) fn page(catalog: &Catalog, rows: &[Row], added: &[PluginDef]) -> String {
    let mut page = INTRO.to_owned();
    let groups = GROUPS.iter().map(|(title, crates)| (*title, crates.concat()));
    let own = (!added.is_empty()).then(|| ("Added by this binary", added.to_vec()));
    let known = catalog.plugins();
    for (title, plugins) in groups.chain(own) {
        page.push_str(&format!("\n## {title}\n"));
        let summaries = plugins.iter().map(PluginDef::name);
        let summaries = summaries.filter_map(|name| known.iter().find(|known| known.name == name));
        page.extend(summaries.map(|plugin| section(catalog, plugin, rows)));
    }
    page
}

fn section(catalog: &Catalog, plugin: &PluginSummary, rows: &[Row]) -> String {
    let name = plugin.name;
    let mut text = format!("\n### `{name}`\n\n{}\n", sentence(plugin.summary));
    if let Some(details) = details(catalog, name) {
        text.push_str(&format!("\n{details}\n"));
    }
    text.push('\n');
    let used: Vec<String> = rows.iter().filter(|row| row.plugin == name).map(row_line).collect();
    let used = if used.is_empty() { "none".to_owned() } else { used.join("; ") };
    let is_live = plugin.reload == Reload::Live;
    let presets = match plugin.places {
        Places::Global => "no",
        Places::Nested => "only there",
        Places::Both => "yes",
    };
    let lines = [
        ("Shipped rows", used),
        ("A change is taken", taken(is_live, true).to_owned()),
        ("In agent presets", presets.to_owned()),
        ("Needs", names(&plugin.needs)),
        ("Uses when there", names(&plugin.wants)),
        ("Provides", names(&plugin.provides)),
    ];
    for (what, value) in lines.iter().filter(|(_, value)| !value.is_empty()) {
        text.push_str(&format!("- {what}: {value}\n"));
    }
    let fields = catalog.fields(name).unwrap_or_default();
    if fields.is_empty() {
        text.push_str("- Nothing to set.\n");
    } else {
        text.push_str("\n| key | default | meaning |\n| --- | --- | --- |\n");
        text.extend(fields.iter().map(|field| line_of(field, &fields)));
    }
    text
}

/// What the source says of the plugin's `config` after its first paragraph, which is for
/// programmers.
fn details(catalog: &Catalog, plugin: &str) -> Option<String> {
    let schema = catalog.schema(plugin)?;
    let (_, details) = schema.get("description")?.as_str()?.split_once("\n\n")?;
    Some(details.trim_end().to_owned())
}

fn sentence(text: &str) -> String {
    format!("{}.", text.trim_end_matches('.'))
}

fn row_line(row: &Row) -> String {
    let mut line = format!("`{}` ({}", row.id, row.origin.layer);
    if row.disabled {
        line.push_str(", disabled");
    }
    line.push(')');
    let config: Vec<String> = row.config.iter().map(|(key, value)| set(key, value)).collect();
    if !config.is_empty() {
        line.push_str(&format!(" with {}", config.join(", ")));
    }
    line
}

fn set(key: &str, value: &toml::Value) -> String {
    match value.to_string() {
        text if text.len() <= MAX_VALUE_BYTES && !text.contains('\n') => {
            format!("`{key} = {text}`")
        }
        _ => format!("a `{key}` of its own"),
    }
}

fn names(services: &[&str]) -> String {
    let names = services.iter().map(|name| format!("`{}`", name.to_lowercase()));
    names.collect::<Vec<_>>().join(", ")
}

fn line_of(field: &FieldDoc, all: &[FieldDoc]) -> String {
    let inside = |other: &FieldDoc| {
        let rest = other.path.strip_prefix(&field.path);
        rest.is_some_and(|rest| rest.starts_with('.'))
    };
    let default = match &field.default {
        _ if field.required => "required".to_owned(),
        Some(_) if all.iter().any(inside) => "see below".to_owned(),
        Some(value) => format!("`{}`", json_as_toml(value)),
        None => "–".to_owned(),
    };
    let mut kind = field.kind.clone();
    for more in [field.limits.as_str(), if field.secret { "secret" } else { "" }] {
        if !more.is_empty() {
            kind.push_str(&format!(", {more}"));
        }
    }
    let doc: Vec<&str> = field.doc.split_whitespace().collect();
    let cell = |text: &str| text.replace('|', "\\|");
    let meaning = format!("{} ({kind})", doc.join(" "));
    format!("| `{}` | {} | {} |\n", cell(&field.path), cell(&default), cell(meaning.trim()))
}
