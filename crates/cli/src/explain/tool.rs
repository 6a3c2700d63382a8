//! `reins explain tool`

use reins_agent::Execute;
use reins_host::{Explain, RowFacts, ToolFacts, ToolPlace};
use reins_kernel::Chain;

use super::page::{Page, by, field, flat, table};
use super::unknown;
use crate::exit::CliError;

pub(super) fn list(explain: &Explain) -> String {
    let lines = explain.tools().into_iter().map(|tool| {
        let mut what = stands(&tool.place);
        if let Some(hidden_by) = &tool.hidden_by {
            what.push_str(&format!("; hidden by {}", by(hidden_by)));
        }
        for shadow in &tool.shadows {
            what.push_str(&format!("; in place of {}", stands(shadow)));
        }
        vec![tool.name.to_string(), what]
    });
    table(&lines.collect::<Vec<_>>())
}

pub(super) fn one(explain: &Explain, name: &str, full: bool) -> Result<String, CliError> {
    let rows = explain.rows();
    let Some(tool) = explain.tool(name) else {
        let tools = explain.tools();
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        return Err(disabled(&rows, name).unwrap_or_else(|| unknown("tool", name, &names)));
    };
    let mut page = Page::default();
    origin(&mut page, explain, &tool);
    calls(&mut page, explain, full);
    page.gap();
    page.line("limits that hold:");
    let limits = explain.limits().into_iter().flat_map(|(row, fields)| {
        let of_row = by(&row.row.origin);
        let text = |limit| format!("{of_row}: {}. {}", field(limit), flat(&limit.doc.doc));
        fields.iter().map(text).collect::<Vec<_>>()
    });
    page.items(limits.collect::<Vec<_>>());
    let of_preset = explain.row_of(&tool.place.origin).and_then(|row| row.preset);
    let of_preset = of_preset.map(|name| format!(" --preset {name}")).unwrap_or_default();
    let row = &tool.place.origin.row;
    page.line(format_args!("its own settings: `reins explain row {row}{of_preset}`"));
    page.gap();
    page.line("what the model reads:");
    let schema = &tool.place.schema;
    page.line(&schema.description);
    page.gap();
    let parameters = serde_json::from_str::<serde_json::Value>(schema.parameters.get())
        .map_err(|e| CliError::internal(e.to_string()))?;
    if full {
        page.line(format_args!("parameters:\n{parameters:#}"));
    } else {
        let named = parameters["properties"].as_object().into_iter().flatten();
        let named: Vec<&str> = named.map(|(name, _)| name.as_str()).collect();
        let named = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
        page.line(format_args!("parameters: {named}; `--full` shows their schema"));
    }
    Ok(page.done())
}

fn origin(page: &mut Page, explain: &Explain, tool: &ToolFacts) {
    let ToolFacts { name, place: held, shadows, hidden_by } = tool;
    page.line(format_args!("tool `{name}` comes from {}", by(&held.origin)));
    let row = explain.row_of(&held.origin);
    for patch in row.iter().flat_map(|row| &row.row.patched_by) {
        page.line(format_args!("changed by {}", patch.layer_and_place()));
    }
    page.line(format_args!("in scope {}", held.scope));
    let preset = explain.preset();
    match hidden_by {
        None => page.line(format_args!("agents of preset `{preset}` have it")),
        Some(hider) => {
            page.line(format_args!("hidden from agents of preset `{preset}` by {}", by(hider)));
        }
    }
    for shadow in shadows {
        page.line(format_args!("takes the place of that of {}", stands(shadow)));
    }
}

/// What a call passes on its way; what does nothing only in `full`.
fn calls(page: &mut Page, explain: &Explain, full: bool) {
    page.gap();
    let mut chains = explain.call_chains();
    let is_guarded = full || !explain.guards().is_empty();
    chains.retain(|chain| {
        full || !chain.layers.is_empty() || is_guarded && chain.name == Execute::NAME
    });
    if chains.is_empty() {
        page.line("no layers around the call, no guards");
        return;
    }
    page.line("what a call passes, in this order:");
    for chain in chains {
        if chain.name == Execute::NAME && is_guarded {
            guards(page, explain);
        }
        if chain.layers.is_empty() && !full {
            continue;
        }
        page.line(format_args!("chain `{}`, layers outermost first:", chain.name));
        page.layers(&chain.layers);
        if let Some(known) = chain.known.filter(|_| full) {
            page.item(format_args!("at its end: {}", known.end));
        }
    }
}

/// The entries that every call is put to.
pub(super) fn guards(page: &mut Page, explain: &Explain) {
    page.line("guards, any \"no\" wins:");
    let guards = explain.guards().into_iter();
    let text = |guard: reins_host::GuardFacts| {
        format!("`{}`: {}, scope {}", guard.name, by(&guard.origin), guard.scope)
    };
    page.items(guards.map(text).collect::<Vec<_>>());
}

fn stands(place: &ToolPlace) -> String {
    format!("{}, scope {}", by(&place.origin), place.scope)
}

/// The error that names the disabled row which would bring the tool.
fn disabled(rows: &[RowFacts], name: &str) -> Option<CliError> {
    let plugin = format!("tool-{name}");
    let would = |facts: &&RowFacts| {
        facts.row.disabled && (facts.row.id == name || facts.row.plugin == plugin)
    };
    let row = &rows.iter().find(would)?.row;
    let by = row.disabled_by.as_ref()?;
    let message = format!(
        "there is no tool `{name}`: tool row `{}` is disabled by {}",
        row.id,
        by.layer_and_place()
    );
    Some(CliError::usage(message).with_hint("take `disabled` out there to have the tool again"))
}
