//! `reins explain row`

use reins_host::{Explain, FieldFacts, RowFacts};
use reins_kernel::{Contribution, ContributionKind, Origin, Row};

use super::page::{Page, by, field, heading, table, taken};
use super::unknown;
use super::value::json_as_toml;
use crate::exit::CliError;

pub(super) fn list(explain: &Explain) -> String {
    let lines = explain.rows().into_iter().map(|facts| {
        let mut cells = cells(&facts.row);
        let when = if facts.is_live() { "next turn" } else { "next start" };
        cells.insert(2, when.to_owned());
        cells
    });
    table(&lines.collect::<Vec<_>>())
}

/// Id, plugin, whether it is on, and where it was written.
pub(super) fn cells(row: &Row) -> Vec<String> {
    let mut origin = row.origin.layer_and_place();
    let on = match &row.disabled_by {
        Some(by) => {
            origin.push_str(&format!("; turned off by {}", by.layer_and_place()));
            "off"
        }
        None => "on",
    };
    [&*row.id, &*row.plugin, on, &origin].map(str::to_owned).to_vec()
}

pub(super) fn one(explain: &Explain, id: &str) -> Result<String, CliError> {
    let named = explain.rows_named(id);
    if named.is_empty() {
        let rows = explain.rows();
        let ids: Vec<&str> = rows.iter().map(|facts| facts.row.id.as_str()).collect();
        return Err(unknown("row", id, &ids));
    }
    let mut page = Page::default();
    for (at, facts) in named.iter().enumerate() {
        if at > 0 {
            page.gap();
        }
        about(&mut page, explain, facts);
    }
    Ok(page.done())
}

fn about(page: &mut Page, explain: &Explain, facts: &RowFacts) {
    let RowFacts { row, plugin, .. } = facts;
    page.line(heading(facts));
    page.line(plugin.summary);
    page.gap();
    page.line(format_args!("inserted by {}", row.origin.layer_and_place()));
    for patch in &row.patched_by {
        page.line(format_args!("changed by {}", patch.layer_and_place()));
    }
    match &row.disabled_by {
        Some(by) => page.line(format_args!("off: turned off by {}", by.layer_and_place())),
        None => page.line(format_args!("on, in scope {}", facts.scope)),
    }
    for line in in_force(explain, facts) {
        page.line(line);
    }
    page.line(format_args!("a change is taken {}", taken(facts.is_live(), explain.reloads())));
    let from_rows = |services: &[&str]| {
        names(services.iter().map(|service| match explain.provider(facts, service) {
            Some(from) => format!("{service} (row `{}`)", from.row.id),
            None => (*service).to_owned(),
        }))
    };
    page.line(format_args!("needs: {}", from_rows(&plugin.needs)));
    if !plugin.wants.is_empty() {
        let wants = from_rows(&plugin.wants);
        page.line(format_args!("uses when they are there: {wants}"));
    }
    page.line(format_args!("provides: {}", names(plugin.provides.iter().copied())));
    page.gap();
    page.line("contributes:");
    page.items(facts.contributed.iter().map(contribution));
    page.gap();
    page.line("fields:");
    let fields = explain.fields(facts);
    if fields.is_empty() {
        page.item("none: there is nothing to set");
    }
    for each in &fields {
        about_field(page, each);
    }
}

/// Whether agents of the preset have what the row brings, when rows of the preset bring the same.
pub(super) fn in_force(explain: &Explain, facts: &RowFacts) -> Vec<String> {
    let agents = format!("agents of preset `{}`", explain.preset());
    let pairs = explain.shadowed_by_preset();
    if facts.preset.is_some() {
        let wins = pairs.iter().any(|(_, own)| own.origin == facts.row.origin);
        return wins.then(|| format!("in force for {agents}")).into_iter().collect();
    }
    let mut lines: Vec<(&Origin, Vec<String>)> = Vec::new();
    for (held, own) in pairs.iter().filter(|(held, _)| held.origin == facts.row.origin) {
        match lines.iter_mut().find(|(origin, _)| **origin == own.origin) {
            Some((_, what)) => what.push(contribution(held)),
            None => lines.push((&own.origin, vec![contribution(held)])),
        }
    }
    let text = |(origin, what): (&Origin, Vec<String>)| {
        format!("shadowed for {agents} by {}: {}", by(origin), what.join(", "))
    };
    lines.into_iter().map(text).collect()
}

fn about_field(page: &mut Page, each: &FieldFacts) {
    page.item(field(each));
    let doc = &each.doc;
    let mut parts = vec![doc.kind.clone()];
    if !doc.limits.is_empty() {
        parts.push(doc.limits.clone());
    }
    if doc.required {
        parts.push("required".to_owned());
    }
    if let Some(default) = doc.default.as_ref().filter(|_| each.in_force().is_some()) {
        parts.push(format!("default {}", json_as_toml(default)));
    }
    page.wrapped("      ", &format!("{}. {}", parts.join(", "), doc.doc));
}

fn names<N: Into<String>>(names: impl Iterator<Item = N>) -> String {
    let names: Vec<String> = names.map(Into::into).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

pub(super) fn contribution(of: &Contribution) -> String {
    let name = of.name.as_deref().unwrap_or_default();
    match of.kind {
        ContributionKind::Service => format!("service `{}`", of.of),
        ContributionKind::Observer => format!("observer of `{}`", of.of),
        ContributionKind::Layer => format!("layer of chain `{}`, order {}", of.of, of.order),
        ContributionKind::Restriction => format!("restriction of each inherited {}", kind(of.of)),
        ContributionKind::Entry => format!("{} `{name}`", kind(of.of)),
    }
}

/// What people call entries of this type.
fn kind(of: &str) -> &str {
    match of {
        "AnyTool" => "tool",
        "PromptSection" => "prompt section",
        "RuntimeFact" => "runtime fact",
        "Provider" => "provider",
        "ProviderName" => "name of a provider",
        "EventType" => "event type",
        "Guard" => "guard",
        "CommandSource" => "source of commands",
        other => other,
    }
}
