//! What a plugin is, and how it is erased.

mod catalog;
mod mount;

use std::any::TypeId;
use std::fmt;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use catalog::{Catalog, DuplicatePlugin, PluginSummary};
pub(crate) use mount::Mounted;
pub use mount::{Mount, MountError};

/// What a change of a row's configuration needs, and with it how long a mounted row lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// The next generation takes it: the row is mounted anew in each generation.
    Live,
    /// The process must start again: the row is mounted once and all generations share it.
    Restart,
}

/// Where rows of a plugin may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Places {
    /// Among the rows of the process: bundles, profiles, settings, patches.
    Global,
    /// Among the rows that are mounted below those, for some agents only.
    Nested,
    /// In both.
    Both,
}

/// A part of the product that rows can configure.
///
/// `mount` runs once per enabled row, after the rows that provide what it needs or wants. It
/// contributes through [`Mount`] and must not block: what needs time starts on first use.
pub trait Plugin: 'static {
    /// The name that rows use; unique in the catalog.
    const NAME: &'static str;
    /// One sentence for people.
    const SUMMARY: &'static str;
    /// What a change of its configuration needs.
    const RELOAD: Reload = Reload::Restart;
    /// Where its rows may stand.
    const PLACES: Places = Places::Global;
    /// The row's `config`. Unknown keys are refused whether or not serde is told to. Aliases are
    /// unknown keys: the JSON Schema is the list of names.
    type Config: DeserializeOwned + JsonSchema;

    /// Services that must be there before `mount`.
    fn needs() -> Vec<ServiceKey> {
        Vec::new()
    }

    /// Services that `mount` reads when a row provides them, and does without otherwise. A row that
    /// stays for the life of the process never sees those of rows that reload.
    fn wants() -> Vec<ServiceKey> {
        Vec::new()
    }

    /// Services that `mount` provides, all of them, every time.
    fn provides() -> Vec<ServiceKey> {
        Vec::new()
    }

    /// Contributes.
    ///
    /// # Errors
    /// The row cannot work with this configuration; everything contributed is withdrawn.
    fn mount(config: Self::Config, mount: &mut Mount<'_>) -> Result<(), MountError>;
}

/// A service type with its name for people.
#[derive(Clone, Copy)]
pub struct ServiceKey {
    type_id: TypeId,
    name: &'static str,
}

impl ServiceKey {
    /// The key of service type `S`, called `name` in messages.
    pub const fn of<S: ?Sized + 'static>(name: &'static str) -> Self {
        Self { type_id: TypeId::of::<S>(), name }
    }

    /// The name for people.
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn type_id(&self) -> TypeId {
        self.type_id
    }
}

impl PartialEq for ServiceKey {
    fn eq(&self, other: &Self) -> bool {
        self.type_id == other.type_id
    }
}

impl Eq for ServiceKey {}

impl fmt::Debug for ServiceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceKey({})", self.name)
    }
}

/// A plugin with its type erased: `pub const PLUGIN: PluginDef = PluginDef::of::<ReadPlugin>();`
#[derive(Clone, Copy)]
pub struct PluginDef {
    pub(crate) name: &'static str,
    pub(crate) summary: &'static str,
    pub(crate) reload: Reload,
    pub(crate) places: Places,
    pub(crate) schema: fn() -> Value,
    pub(crate) needs: fn() -> Vec<ServiceKey>,
    pub(crate) wants: fn() -> Vec<ServiceKey>,
    pub(crate) provides: fn() -> Vec<ServiceKey>,
    pub(crate) check: fn(&Value) -> Result<(), ConfigError>,
    pub(crate) mount: fn(&Value, &mut Mount<'_>) -> Result<(), MountError>,
}

/// A configuration that the plugin's type does not take.
pub(crate) struct ConfigError {
    /// Path of the field, empty for the whole.
    pub(crate) field: String,
    pub(crate) message: String,
}

impl PluginDef {
    /// Erases `P`.
    pub const fn of<P: Plugin>() -> Self {
        Self {
            name: P::NAME,
            summary: P::SUMMARY,
            reload: P::RELOAD,
            places: P::PLACES,
            schema: schema_of::<P>,
            needs: P::needs,
            wants: P::wants,
            provides: P::provides,
            check: check_config::<P>,
            mount: mount_erased::<P>,
        }
    }

    /// The name that rows use.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) const fn reload(&self) -> Reload {
        self.reload
    }
}

impl fmt::Debug for PluginDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PluginDef({})", self.name)
    }
}

fn schema_of<P: Plugin>() -> Value {
    schemars::schema_for!(P::Config).to_value()
}

fn read_config<P: Plugin>(config: &Value) -> Result<P::Config, ConfigError> {
    serde_path_to_error::deserialize(config).map_err(|error| {
        let field = error.path().to_string();
        let field = if field == "." { String::new() } else { field };
        ConfigError { field, message: error.inner().to_string() }
    })
}

fn check_config<P: Plugin>(config: &Value) -> Result<(), ConfigError> {
    read_config::<P>(config).map(drop)
}

fn mount_erased<P: Plugin>(config: &Value, mount: &mut Mount<'_>) -> Result<(), MountError> {
    let config =
        read_config::<P>(config).map_err(|error| MountError::new(error.message).at(error.field))?;
    P::mount(config, mount)
}
