//! The plugins that rows may name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Places, PluginDef, Reload};

/// The closed set of plugins of a binary.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    plugins: BTreeMap<&'static str, PluginDef>,
}

/// Two plugins of a catalog have one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plugin `{name}` is listed twice in the catalog; rename one of them")]
pub struct DuplicatePlugin {
    /// The name in dispute.
    pub name: &'static str,
}

/// What people are told of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginSummary {
    /// The name that rows use.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// What a change of its configuration needs.
    pub reload: Reload,
    /// Where its rows may stand.
    pub places: Places,
    /// Names of the services it must find.
    pub needs: Vec<&'static str>,
    /// Names of the services it uses when they are there.
    pub wants: Vec<&'static str>,
    /// Names of the services it provides.
    pub provides: Vec<&'static str>,
}

impl Catalog {
    /// A catalog of these plugins.
    ///
    /// # Errors
    /// Two of them have one name.
    pub fn new(plugins: &[PluginDef]) -> Result<Self, DuplicatePlugin> {
        let mut catalog = Self::default();
        for plugin in plugins {
            if catalog.plugins.insert(plugin.name, *plugin).is_some() {
                return Err(DuplicatePlugin { name: plugin.name });
            }
        }
        Ok(catalog)
    }

    /// Every plugin, sorted by name.
    pub fn plugins(&self) -> Vec<PluginSummary> {
        self.plugins.values().map(summary_of).collect()
    }

    /// The JSON Schema of a plugin's `config`; `None` when there is no such plugin.
    pub fn schema(&self, plugin: &str) -> Option<Value> {
        self.plugins.get(plugin).map(|def| (def.schema)())
    }

    /// The plugins that provide the service which `plugin` lists in `needs` or `wants` under this
    /// name; they may call it otherwise.
    pub fn providers(&self, plugin: &str, service: &str) -> Vec<&'static str> {
        let Some(def) = self.plugins.get(plugin) else { return Vec::new() };
        let mut asked = (def.needs)().into_iter().chain((def.wants)());
        let Some(key) = asked.find(|key| key.name() == service) else { return Vec::new() };
        let provides = |def: &&PluginDef| (def.provides)().contains(&key);
        self.plugins.values().filter(provides).map(|def| def.name).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&PluginDef> {
        self.plugins.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.plugins.keys().copied()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PluginDef> {
        self.plugins.values()
    }
}

fn summary_of(def: &PluginDef) -> PluginSummary {
    let names = |keys: Vec<super::ServiceKey>| keys.iter().map(|key| key.name()).collect();
    PluginSummary {
        name: def.name,
        summary: def.summary,
        reload: def.reload,
        places: def.places,
        needs: names((def.needs)()),
        wants: names((def.wants)()),
        provides: names((def.provides)()),
    }
}
