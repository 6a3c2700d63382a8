//! A row for every plugin, and every registry that they contribute to.

use std::sync::Arc;

use reins_agent::{Guard, PreExecute};
use reins_kernel::ContributionKind::{self, Entry, Layer, Restriction, Service};
use reins_kernel::{Mount, MountError, Plugin, PluginDef};
use schemars::JsonSchema;
use serde::Deserialize;

/// One row.
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) plugin: &'static str,
    /// An inline table of TOML.
    config: &'static str,
    /// Ids of rows without which it cannot be mounted or used.
    pub(crate) needs: &'static [&'static str],
    /// It stands in an agent preset.
    pub(crate) nested: bool,
    /// It provides what another row provides, so it is not mounted with all others.
    pub(crate) alternative: bool,
}

impl Row {
    pub(crate) fn text(&self) -> String {
        let Self { id, plugin, config, .. } = self;
        format!("[[insert]]\nid = \"{id}\"\nplugin = \"{plugin}\"\nconfig = {config}\n")
    }
}

const fn row(
    id: &'static str,
    plugin: &'static str,
    config: &'static str,
    needs: &'static [&'static str],
) -> Row {
    Row { id, plugin, config, needs, nested: false, alternative: false }
}

pub(crate) const ROWS: &[Row] = &[
    row("clock", "world-clock", "{}", &[]),
    row("fs", "world-fs", "{}", &[]),
    row("http", "world-http", "{}", &[]),
    row("process", "world-process", "{}", &[]),
    row("store", "store-jsonl", "{ home = \"${home}\" }", &[]),
    Row { alternative: true, ..row("sqlite", "store-sqlite", "{ home = \"${home}\" }", &[]) },
    Row { alternative: true, ..row("memory", "store-memory", "{}", &[]) },
    row("agent-loop", "agent-loop", "{}", &["store", "clock"]),
    row("barriers", "barriers", "{ at_turn_end = false }", &[]),
    row("limits", "limits", "{ max_steps = 9 }", &[]),
    row("reload", "reload", "{}", &[]),
    row("prompt", "prompt", "{}", &["clock"]),
    row("prompts", "prompt-files", "{ folder = \"${home}/prompts\" }", &["fs"]),
    row("retry", "retry", "{}", &[]),
    row("deepseek", "provider-chat", "{ vendor = \"deepseek\" }", &["http", "clock"]),
    row("read", "tool-read", "{}", &["fs"]),
    row("write", "tool-write", "{}", &["fs"]),
    row("edit", "tool-edit", "{ require_read = false }", &["fs"]),
    row("glob", "tool-glob", "{}", &["fs"]),
    row("grep", "tool-grep", "{}", &["fs"]),
    row("bash", "tool-bash", "{}", &["process"]),
    row("model", "default-model", "{ model = \"deepseek/deepseek-v4-flash\" }", &[]),
    row("preset", "default-preset", "{ preset = \"test\" }", &[]),
    Row { nested: true, ..row("offer", "offer", "{ hide = [\"write\"] }", &["write"]) },
    row("guard", "test-guard", "{}", &[]),
];

/// Everything that rows contribute to. `uses.rs` uses each.
pub(crate) const REGISTRIES: &[(ContributionKind, &str)] = &[
    (Service, "AgentFactory"),
    (Service, "Barriers"),
    (Service, "Clock"),
    (Service, "DefaultModel"),
    (Service, "DefaultPreset"),
    (Service, "Env"),
    (Service, "Fs"),
    (Service, "Http"),
    (Service, "Process"),
    (Service, "ReloadPolicy"),
    (Service, "Store"),
    (Service, "TurnLimits"),
    (Entry, "AnyTool"),
    (Entry, "CommandSource"),
    (Entry, "EventType"),
    (Entry, "Guard"),
    (Entry, "PromptSection"),
    (Entry, "Provider"),
    (Entry, "ProviderName"),
    (Entry, "RuntimeFact"),
    (Layer, "request-error"),
    (Restriction, "AnyTool"),
];

/// Contributes to the registries that no plugin of the product uses yet.
struct TestGuard;

pub(crate) const TEST_PLUGIN: PluginDef = PluginDef::of::<TestGuard>();

#[derive(Deserialize, JsonSchema)]
struct Config {}

struct Never;

impl Guard for Never {
    fn refuses(&self, _call: &PreExecute) -> Option<String> {
        None
    }
}

impl Plugin for TestGuard {
    const NAME: &'static str = "test-guard";
    const SUMMARY: &'static str = "A guard that refuses nothing.";
    type Config = Config;

    fn mount(_config: Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
        mount.add::<dyn Guard>("never", Arc::new(Never))
    }
}
