//! The row `reload`: whether changed files are taken while the process runs.

use std::sync::Arc;
use std::time::Duration;

use reins_kernel::{Mount, MountError, Plugin, PluginDef, ServiceKey};
use schemars::JsonSchema;
use serde::Deserialize;

/// The service that says how files are watched; without it they are read at the start only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadPolicy {
    /// Pause between two looks at the files.
    pub every: Duration,
    /// A file that was changed less than this ago is left alone for now, also one with a new
    /// identity: whether that was renamed when it was whole, nothing about it tells for sure.
    pub settle: Duration,
}

struct Row;

/// The plugin of this module.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<Row>();

/// How the files of settings, profiles, presets and patches are watched.
#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Milliseconds between two looks at the files. They are also looked at before each turn.
    #[schemars(range(min = 10))]
    every_ms: u64,
    /// Milliseconds for which a file must have been left alone before it is read, so that nobody
    /// sees one that is half written. A turn that begins sooner after a change does not take it,
    /// a later one does. This also goes for a file in the place of another: many editors make the
    /// new file first and write it then.
    #[schemars(range(max = 10_000))]
    settle_ms: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { every_ms: 1000, settle_ms: 50 }
    }
}

impl Plugin for Row {
    const NAME: &'static str = "reload";
    const SUMMARY: &'static str = "Takes changed settings, profiles and presets while Reins runs.";
    type Config = Config;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<ReloadPolicy>("reload policy")]
    }

    fn mount(config: Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
        if config.every_ms < 10 {
            return Err(MountError::new("must be at least 10").at("every_ms"));
        }
        if config.settle_ms > 10_000 {
            return Err(MountError::new("must be at most 10000").at("settle_ms"));
        }
        mount.provide(Arc::new(ReloadPolicy {
            every: Duration::from_millis(config.every_ms),
            settle: Duration::from_millis(config.settle_ms),
        }))
    }
}
