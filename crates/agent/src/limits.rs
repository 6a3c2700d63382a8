//! The row `limits`: how much one turn may take.

use std::sync::Arc;

use reins_kernel::{Mount, MountError, Places, Plugin, PluginDef, Reload, Scope, ServiceKey};
use schemars::JsonSchema;
use serde::Deserialize;

/// The service with the limits of a turn. The nearest one holds; an agent reads it when it starts
/// and when it moves to another generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnLimits {
    /// Steps; `None` = no limit.
    pub steps: Option<u64>,
    /// Tool calls; `None` = no limit.
    pub tool_calls: Option<u64>,
    /// Wall time in milliseconds; `None` = no limit.
    pub time_ms: Option<u64>,
}

impl TurnLimits {
    /// Those that hold in a scope; without a row there are none.
    pub fn of(scope: &Scope) -> Self {
        scope.service::<Self>().map(|limits| *limits).unwrap_or_default()
    }

    /// These where they say something, `other` elsewhere.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            steps: self.steps.or(other.steps),
            tool_calls: self.tool_calls.or(other.tool_calls),
            time_ms: self.time_ms.or(other.time_ms),
        }
    }
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
