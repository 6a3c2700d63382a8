//! Scopes, plugins, rows and layers: how Reins is put together. See README.md for the map.
//!
//! A [`Layer`] is a text; [`compose`] applies layers and checks the resulting rows;
//! [`Composition::build`] mounts them into the [`Scope`]s of a [`Generation`]. What a plugin
//! contributes are services, entries, observers of notices and layers of chains; each is a
//! [`Registration`] that undoes itself on drop.

mod origin;
mod plugin;
mod rows;
mod scope;

pub use futures_util::future::BoxFuture;

pub use origin::Origin;
pub use plugin::{
    Catalog, DuplicatePlugin, Mount, MountError, Places, Plugin, PluginDef, PluginSummary, Reload,
    ServiceKey,
};
pub use rows::{
    Composition, FieldDoc, Generation, HeadValue, Layer, MAX_LAYER_BYTES, References, Root, Row,
    RowChange, RowError, RowErrorKind, RowScope, RowWarning, Written, as_written, compose,
    compose_nested, nearest,
};
pub use scope::{
    Chain, Conflict, Contained, ContainedWhere, Contribution, ContributionKind, Entry, LayerInfo,
    LayerRan, MissingService, Next, Notice, Registration, Scope, panic_text,
};
