//! Every plugin that this binary holds. One line for each crate.

use reins_kernel::{Catalog, PluginDef};

use crate::exit::CliError;

/// The shipped plugins and `more`.
pub(crate) fn catalog(more: &[PluginDef]) -> Result<Catalog, CliError> {
    let plugins: Vec<PluginDef> = [
        reins_world::PLUGINS,
        &[reins_store::PLUGIN],
        reins_agent::PLUGINS,
        reins_providers::PLUGINS,
        reins_tools::PLUGINS,
        reins_features::PLUGINS,
        reins_host::PLUGINS,
        more,
    ]
    .concat();
    Catalog::new(&plugins).map_err(|e| CliError::internal(e.to_string()))
}
