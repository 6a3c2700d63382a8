//! `reins explain`

use reins_agent::{AnyTool, Execute, Guard, PostExecute, PreExecute};
use reins_host::Host;
use reins_kernel::{LayerInfo, Row, nearest};

use crate::args::ExplainCommand;
use crate::exit::{self, CliError};
use crate::start::Start;
use crate::terminal;

pub(crate) async fn explain(start: &Start, command: ExplainCommand) -> Result<u8, CliError> {
    let ExplainCommand::Tool { name, compose } = command;
    let host = start.host(&compose, None).await?;
    let text = tool(&host, &name).await;
    host.stop().await;
    terminal::print_text(&text?)
        .map_err(|e| CliError::internal(format!("standard output: {e}")))?;
    Ok(exit::COMPLETED)
}

async fn tool(host: &Host, name: &str) -> Result<String, CliError> {
    let scope = &host.scope().await;
    let (rows, _) = host.rows("").await;
    let Some(entry) = scope.entry::<dyn AnyTool>(name) else {
        if let Some(row) = disabled(&rows, name) {
            return Err(row);
        }
        let tools = scope.entries::<dyn AnyTool>();
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        let error = CliError::usage(format!("there is no tool `{name}`"));
        return Err(match nearest(name, names.iter().copied()) {
            Some(near) => error.with_hint(format!("did you mean `{near}`?")),
            None => error.with_hint(format!("tools are: {}", names.join(", "))),
        });
    };
    let schema = entry.value.schema();
    let mut text = format!("tool `{name}` comes from {}\n", entry.origin);
    let row = rows.iter().find(|row| row.id == *entry.origin.row);
    for patch in row.into_iter().flat_map(|row| &row.patched_by) {
        text.push_str(&format!("changed by {} ({})\n", patch.layer, patch.place()));
    }
    text.push_str("\nbefore a call, outermost first:\n");
    layers(&mut text, &scope.layers::<PreExecute>());
    text.push_str("guards, any \"no\" wins:\n");
    let guards = scope.entries::<dyn Guard>();
    for guard in &guards {
        line(&mut text, format_args!("{}: {}", guard.name, guard.origin));
    }
    if guards.is_empty() {
        text.push_str("  none\n");
    }
    text.push_str("around the body, outermost first:\n");
    layers(&mut text, &scope.layers::<Execute>());
    text.push_str("after the body, outermost first:\n");
    layers(&mut text, &scope.layers::<PostExecute>());
    let parameters = serde_json::from_str::<serde_json::Value>(schema.parameters.get())
        .and_then(|value| serde_json::to_string_pretty(&value))
        .map_err(|e| CliError::internal(e.to_string()))?;
    line(&mut text, format_args!("\nwhat the model reads:\n{}\n{parameters}", schema.description));
    Ok(text)
}

/// The error that names the disabled row which would bring the tool.
fn disabled(rows: &[Row], name: &str) -> Option<CliError> {
    let plugin = format!("tool-{name}");
    let row = rows.iter().find(|row| row.disabled && (row.id == name || row.plugin == plugin))?;
    let by = row.disabled_by.as_ref()?;
    let place = by.place();
    let layer = if by.file.is_some() { format!("{} ({place})", by.layer) } else { place };
    let message =
        format!("there is no tool `{name}`: tool row `{}` is disabled by {layer}", row.id);
    Some(CliError::usage(message).with_hint("take `disabled` out there to have the tool again"))
}

fn layers(text: &mut String, layers: &[LayerInfo]) {
    if layers.is_empty() {
        text.push_str("  none\n");
    }
    for layer in layers {
        line(text, format_args!("{} (order {}, scope {})", layer.origin, layer.order, layer.scope));
    }
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.push_str(&format!("  {what}\n"));
}
