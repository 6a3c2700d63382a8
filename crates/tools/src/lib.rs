//! The model's tools, one folder each. See README.md for the map.

mod bash;
mod cap;
mod diff;
mod edit;
mod failure;
mod glob;
mod grep;
mod paths;
mod read;
mod write;

use reins_kernel::PluginDef;

/// One plugin for each tool.
pub const PLUGINS: &[PluginDef] =
    &[bash::PLUGIN, edit::PLUGIN, glob::PLUGIN, grep::PLUGIN, read::PLUGIN, write::PLUGIN];
