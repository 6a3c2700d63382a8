//! The plugin of this dialect: one row, one provider.

use std::sync::Arc;

use reins_agent::{Provider, ProviderName};
use reins_kernel::{Mount, MountError, Places, Plugin, PluginDef, Reload, ServiceKey};
use reins_world::{Clock, Env, Http};

use super::{ChatProvider, ProviderServices};
use crate::config::ProviderConfig;

/// For the catalog.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<ChatPlugin>();

struct ChatPlugin;

impl Plugin for ChatPlugin {
    const NAME: &'static str = "provider-chat";
    const SUMMARY: &'static str = "Models behind chat completions: DeepSeek, compatible servers";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Both;
    type Config = ProviderConfig;

    fn needs() -> Vec<ServiceKey> {
        vec![
            ServiceKey::of::<dyn Http>("http"),
            ServiceKey::of::<dyn Clock>("clock"),
            ServiceKey::of::<Env>("env"),
        ]
    }

    fn mount(config: Self::Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let env = mount.need::<Env>()?;
        let services = ProviderServices {
            http: mount.need::<dyn Http>()?,
            clock: mount.need::<dyn Clock>()?,
            env: {
                let env = Arc::clone(&env);
                Arc::new(move |name| env.get(name)?.to_str().map(str::to_owned))
            },
        };
        let provider = ChatProvider::new(mount.row(), config, services)
            .map_err(|error| MountError::new(&error).at(error.at()))?;
        provider.withhold_secrets(&env);
        let id = provider.id().to_owned();
        let taken = |conflict: MountError| {
            MountError::new(format!("{conflict}, or give one of them another `id`")).at("id")
        };
        for name in std::iter::once(&id).chain(provider.aliases()) {
            let target = Arc::new(ProviderName { provider: id.clone() });
            mount.add(name, target).map_err(taken)?;
        }
        mount.add::<dyn Provider>(&id, Arc::new(provider))
    }
}
