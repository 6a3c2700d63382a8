//! The row `default-preset`: which agent preset a new session uses when none is asked for.

use std::sync::Arc;

use reins_kernel::{Mount, MountError, Plugin, PluginDef, Reload, ServiceKey};
use schemars::JsonSchema;
use serde::Deserialize;

/// The service that knows it.
pub struct DefaultPreset(pub String);

struct Row;

/// The plugin of this module.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<Row>();

/// Which agent preset a new session uses.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The agent preset of new sessions: a shipped one, or the name of a file in `<home>/presets/`.
    preset: String,
}

impl Plugin for Row {
    const NAME: &'static str = "default-preset";
    const SUMMARY: &'static str = "Which agent preset a new session uses when none is asked for.";
    const RELOAD: Reload = Reload::Live;
    type Config = Config;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<DefaultPreset>("default preset")]
    }

    fn mount(config: Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
        mount.provide::<DefaultPreset>(Arc::new(DefaultPreset(config.preset)))
    }
}
