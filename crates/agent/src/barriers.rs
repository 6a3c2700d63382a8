//! The row `barriers`: where an agent waits for the disk.

use std::sync::Arc;

use reins_kernel::{Mount, MountError, Places, Plugin, PluginDef, Reload, Scope, ServiceKey};
use reins_session::Barrier;
use schemars::JsonSchema;
use serde::Deserialize;

/// The barriers that hold in a scope: the nearest service; without one all of them.
pub(crate) fn of(scope: &Scope) -> Barriers {
    scope.service::<Barriers>().map(|barriers| *barriers).unwrap_or_default()
}

/// At which points an agent waits until the log so far is on disk.
///
/// While a barrier is on and the disk refuses, the agent does not go past it. When one is off,
/// events are still written within the store's `write_within_ms`, but a crash may lose what was
/// not, a power cut all that the system had not yet put on the disk, and a full disk is noticed
/// later. Input that was accepted is on disk in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Barriers {
    /// Before a request leaves. Off: after a crash the log may lack what the model was already
    /// sent, and that request is paid for without a trace.
    pub before_request: bool,
    /// Before the bodies of a batch of tool calls start; calls that only read never wait. Off:
    /// after a crash the log may lack a call that ran, and the model may do the same thing twice.
    pub before_tools: bool,
    /// When a turn has ended. Off: a crash may lose the end of a turn that people saw complete, and
    /// it counts as interrupted.
    pub at_turn_end: bool,
}

impl Default for Barriers {
    fn default() -> Self {
        Self { before_request: true, before_tools: true, at_turn_end: true }
    }
}

impl Barriers {
    pub(crate) fn waits_at(self, point: Barrier) -> bool {
        match point {
            Barrier::BeforeRequest => self.before_request,
            Barrier::BeforeTools => self.before_tools,
            Barrier::TurnEnd => self.at_turn_end,
        }
    }
}

struct BarriersPlugin;

/// For the catalog.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<BarriersPlugin>();

impl Plugin for BarriersPlugin {
    const NAME: &'static str = "barriers";
    const SUMMARY: &'static str = "Where an agent waits until its log is on disk.";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Both;
    type Config = Barriers;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<Barriers>("barriers")]
    }

    fn mount(config: Barriers, mount: &mut Mount<'_>) -> Result<(), MountError> {
        mount.provide(Arc::new(config))
    }
}
