//! The rows of stores that keep sessions in a database, or in none.

use std::sync::Arc;

use reins_kernel::{Mount, MountError, Plugin, PluginDef, ServiceKey};

use crate::config::{MemoryConfig, SqliteConfig};
use crate::plugin::{check, check_limits};
use crate::{MemoryStore, SqliteStore, Store, StoreConfig};

/// `store-sqlite`: sessions as rows of one database.
pub(crate) const STORE_SQLITE: PluginDef = PluginDef::of::<StoreSqlite>();

/// `store-memory`: sessions that nothing is left of.
pub(crate) const STORE_MEMORY: PluginDef = PluginDef::of::<StoreMemory>();

/// The longest configurable wait for other processes.
const BUSY_MS_MAX: u64 = 600_000;

struct StoreSqlite;

impl Plugin for StoreSqlite {
    const NAME: &'static str = "store-sqlite";
    const SUMMARY: &'static str = "Keeps all sessions in one SQLite database.";
    type Config = SqliteConfig;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Store>("store")]
    }

    fn mount(config: SqliteConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let shared = StoreConfig::from(&config);
        check(&shared)?;
        let is_name = !config.file.contains(['/', '\0']) && !config.file.starts_with('.');
        if config.file.is_empty() || config.file == "index.sqlite" || !is_name {
            let problem = format!("`{}` cannot be the name of a database in the home", config.file);
            return Err(MountError::new(problem).at("file"));
        }
        if config.busy_ms > BUSY_MS_MAX {
            let problem = format!("more than {BUSY_MS_MAX} ms is no waiting but hanging");
            return Err(MountError::new(problem).at("busy_ms"));
        }
        let store: Arc<dyn Store> = Arc::new(SqliteStore::with(&config));
        mount.provide(store)
    }
}

struct StoreMemory;

impl Plugin for StoreMemory {
    const NAME: &'static str = "store-memory";
    const SUMMARY: &'static str = "Keeps sessions in memory only: nothing of them is left.";
    type Config = MemoryConfig;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Store>("store")]
    }

    fn mount(config: MemoryConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let shared = StoreConfig::from(&config);
        check_limits(&shared)?;
        let store = MemoryStore::new(shared).map_err(|e| MountError::new(e.to_string()))?;
        let store: Arc<dyn Store> = Arc::new(store);
        mount.provide(store)
    }
}
