//! Live agents of a process, and the one API that every front end uses.

mod blueprint;
mod default_model;
mod default_preset;
mod defaults;
mod explain;
mod generations;
mod live;
mod model;
mod news;
mod open;
mod reload;
mod run;
mod source;
mod view;

use reins_kernel::PluginDef;

pub use blueprint::Blueprint;
pub use default_model::DefaultModel;
pub use default_preset::DefaultPreset;
pub use explain::{
    ChainFacts, Explain, FieldFacts, GuardFacts, PromptFacts, RowFacts, Shadowed, ToolFacts,
    ToolPlace,
};
pub use news::ReloadNews;
pub use open::{Host, HostError, OpenOrder, Opened, SessionChoice};
pub use reload::ReloadPolicy;
pub use run::{Denied, RunEnd, RunOrder, RunOutcome, run};
pub use source::{LayerSource, Stamp};
pub use view::SessionView;

/// The plugins of this crate.
pub const PLUGINS: &[PluginDef] = &[default_model::PLUGIN, default_preset::PLUGIN, reload::PLUGIN];
