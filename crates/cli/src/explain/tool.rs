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

pub(super) fn one(explain: &Explain, name: &str) -> Result<String, CliError> {
    let rows = explain.rows();
    let Some(tool) = explain.tool(name) else {
        let tools = explain.tools();
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        return Err(disabled(&rows, name).unwrap_or_else(|| unknown("tool", name, &names)));
    };
    let mut page = Page::default();
    origin(&mut page, explain, &tool);
    calls(&mut page, explain);
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
    page.line("parameters:");
    let parameters = serde_json::from_str::<serde_json::Value>(schema.parameters.get())
        .and_then(|value| serde_json::to_string_pretty(&value))
        .map_err(|e| CliError::internal(e.to_string()))?;
    page.line(parameters);
    Ok(page.done())
}

fn origin(page: &mut Page, explain: &Explain, tool: &ToolFacts) {
    let ToolFacts { name, place: held, shadows, hidden_by } = tool;
    page.line(format_args!("tool `{name}` comes from {}", held.origin));
    let row = explain.row_of(&held.origin);
    for patch in row.iter().flat_map(|row| &row.row.patched_by) {
        page.line(format_args!("changed by {} ({})", patch.layer, patch.place()));
    }
    page.line(format_args!("layer {}, scope {}", held.origin.layer, held.scope));
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

/// What a call passes on its way.
fn calls(page: &mut Page, explain: &Explain) {
    page.gap();
    page.line("what a call passes, in this order:");
    for chain in explain.call_chains() {
        if chain.name == Execute::NAME {
            guards(page, explain);
        }
        page.line(format_args!("chain `{}`, layers outermost first:", chain.name));
        page.layers(&chain.layers);
        if let Some(known) = chain.known {
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
    let by = match &by.file {
        Some(_) => format!("{} ({})", by.layer, by.place()),
        None => by.place(),
    };
    let message = format!("there is no tool `{name}`: tool row `{}` is disabled by {by}", row.id);
    Some(CliError::usage(message).with_hint("take `disabled` out there to have the tool again"))
}
