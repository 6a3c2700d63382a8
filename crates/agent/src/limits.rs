//! The row `limits`: how much one turn may take.

use std::sync::Arc;

use reins_kernel::{Mount, MountError, Places, Plugin, PluginDef, Reload, Scope, ServiceKey};
use reins_session::TurnLimits;
use schemars::JsonSchema;
use serde::Deserialize;

/// The limits of a turn that hold in a scope: those of the nearest service [`TurnLimits`]; without
/// one there are none. An agent reads them when it starts and when it moves to another generation.
pub fn turn_limits(scope: &Scope) -> TurnLimits {
    scope.service::<TurnLimits>().map(|limits| *limits).unwrap_or_default()
}

/// How much one turn may take.
///
/// A limit that is reached ends the turn. `--max-steps` and `--max-time` overrule the row for one
/// run.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Steps of a turn; 0 = no limit.
    max_steps: u64,
    /// Tool calls of a turn; 0 = no limit.
    max_tool_calls: u64,
    /// Wall time of a turn in seconds; 0 = no limit.
    max_time_s: u64,
}

struct LimitsPlugin;

/// For the catalog.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<LimitsPlugin>();

impl Plugin for LimitsPlugin {
    const NAME: &'static str = "limits";
    const SUMMARY: &'static str = "How many steps, tool calls and seconds one turn may take.";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Both;
    type Config = Config;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<TurnLimits>("turn limits")]
    }

    fn mount(config: Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let some = |value: u64| (value > 0).then_some(value);
        mount.provide(Arc::new(TurnLimits {
            steps: some(config.max_steps),
            tool_calls: some(config.max_tool_calls),
            time_ms: some(config.max_time_s.saturating_mul(1000)),
        }))
    }
}
