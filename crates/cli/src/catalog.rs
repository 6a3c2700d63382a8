//! Every plugin that this binary holds. One line for each crate.

use reins_kernel::{Catalog, PluginDef};

use crate::exit::CliError;

/// The shipped plugins by what they are for.
pub(crate) const GROUPS: [(&str, &[&[PluginDef]]); 5] = [
    ("Models", &[reins_providers::PLUGINS]),
    ("The loop", &[reins_agent::PLUGINS, reins_host::PLUGINS, reins_store::PLUGINS]),
    ("The machine", &[reins_world::PLUGINS]),
    ("Tools", &[reins_tools::PLUGINS]),
    ("Features", &[reins_features::PLUGINS]),
];

/// The shipped plugins and `more`.
pub(crate) fn catalog(more: &[PluginDef]) -> Result<Catalog, CliError> {
    let shipped = GROUPS.iter().flat_map(|(_, crates)| crates.concat());
    let plugins: Vec<PluginDef> = shipped.chain(more.iter().copied()).collect();
    Catalog::new(&plugins).map_err(|e| CliError::internal(e.to_string()))
}
