//! `reins explain row`

use reins_host::{Explain, FieldFacts, RowFacts};
use reins_kernel::{Contribution, ContributionKind};

use super::page::{Page, field, flat, json_as_toml, place, row_taken, table};
use super::unknown;
use crate::exit::CliError;

pub(super) fn list(explain: &Explain) -> String {
    let lines = explain.rows().into_iter().map(|facts| {
        let reload = if facts.is_live() { "live" } else { "restart" };
        let mut origin = place(&facts.row.origin);
        let on = match &facts.row.disabled_by {
            Some(by) => {
                origin.push_str(&format!("; turned off by {}", place(by)));
                "off"
            }
            None => "on",
        };
        let texts = [&*facts.row.id, &*facts.row.plugin, reload, on, &origin];
        texts.map(str::to_owned).to_vec()
    });
    table(&lines.collect::<Vec<_>>())
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
    let of = facts.preset.as_ref().map_or(String::new(), |name| format!(" of preset `{name}`"));
    page.line(format_args!("row `{}`{of}, plugin `{}`", row.id, row.plugin));
    page.line(plugin.summary);
    page.gap();
    page.line(format_args!("inserted by {}", place(&row.origin)));
    for patch in &row.patched_by {
        page.line(format_args!("changed by {}", place(patch)));
    }
    match &row.disabled_by {
        Some(by) => page.line(format_args!("off: turned off by {}", place(by))),
        None => page.line(format_args!("on, in scope {}", facts.scope)),
    }
    page.line(row_taken(facts, explain.reloads()));
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
    page.item(format_args!("    {}. {}", parts.join(", "), flat(&doc.doc)).to_string().trim_end());
}

fn names<N: Into<String>>(names: impl Iterator<Item = N>) -> String {
    let names: Vec<String> = names.map(Into::into).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn contribution(of: &Contribution) -> String {
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
