//! Features that are neither tool nor provider, one folder each.

mod offer;
mod prompt;
mod prompt_files;
mod retry;

use reins_kernel::PluginDef;

/// The plugins of this crate.
pub const PLUGINS: &[PluginDef] =
    &[offer::PLUGIN, prompt::PLUGIN, prompt_files::PLUGIN, retry::PLUGIN];
