//! The row `default-model`: which model a new session uses when none is asked for.

use std::sync::Arc;

use reins_kernel::{Mount, MountError, Places, Plugin, PluginDef, Reload, ServiceKey};
use schemars::JsonSchema;
use serde::Deserialize;

/// The service that knows it.
pub struct DefaultModel(pub String);

struct Row;

/// The plugin of this module.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<Row>();

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// The model of new sessions, as `provider/model`. `-m` takes another for one run.
    model: String,
}

impl Plugin for Row {
    const NAME: &'static str = "default-model";
    const SUMMARY: &'static str = "Which model a new session uses when none is asked for.";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Both;
    type Config = Config;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<DefaultModel>("default model")]
    }

    fn mount(config: Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
        mount.provide::<DefaultModel>(Arc::new(DefaultModel(config.model)))
    }
}
