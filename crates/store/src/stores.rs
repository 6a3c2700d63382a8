//! The stores that others make: sessions, and where their bytes are.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{self, SqliteConfig};
use crate::jsonl::JsonlMedium;
use crate::sessions::Sessions;
use crate::sqlite::SqliteMedium;
use crate::{Disk, RealDisk, StoreConfig, StoreError};

/// Sessions as folders below `<home>/sessions`.
#[derive(Clone, Debug)]
pub struct JsonlStore {
    sessions: Sessions,
}

impl JsonlStore {
    /// Touches nothing; the home is made by the first create.
    pub fn new(config: StoreConfig) -> Self {
        Self::on(config, Arc::new(RealDisk))
    }

    /// One that changes files through `disk`: for tests, and for unusual file systems.
    pub fn on(config: StoreConfig, disk: Arc<dyn Disk>) -> Self {
        let medium = JsonlMedium::new(&config.home, disk);
        let index = config.home.join("index.sqlite");
        Self { sessions: Sessions::new(Arc::new(medium), Some(index), config) }
    }

    /// The home that it was configured with.
    pub fn home(&self) -> &Path {
        &self.sessions.config().home
    }
}

impl AsRef<Sessions> for JsonlStore {
    fn as_ref(&self) -> &Sessions {
        &self.sessions
    }
}

/// Sessions as rows of one SQLite database in the home.
#[derive(Clone, Debug)]
pub struct SqliteStore {
    sessions: Sessions,
}

impl SqliteStore {
    /// Touches nothing; the database is made by the first create, as `sessions.sqlite`.
    pub fn new(config: StoreConfig) -> Self {
        Self::at(config, &config::file(), config::busy_ms())
    }

    pub(crate) fn with(config: &SqliteConfig) -> Self {
        Self::at(StoreConfig::from(config), &config.file, config.busy_ms)
    }

    fn at(config: StoreConfig, file: &str, busy_ms: u64) -> Self {
        let busy = Duration::from_millis(busy_ms);
        let medium = Arc::new(SqliteMedium::in_file(&config.home, file, busy));
        let index = config.home.join("index.sqlite");
        Self { sessions: Sessions::new(medium, Some(index), config) }
    }
}

impl AsRef<Sessions> for SqliteStore {
    fn as_ref(&self) -> &Sessions {
        &self.sessions
    }
}

/// Sessions that end with this value and its clones; nothing of them touches a disk.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    sessions: Sessions,
}

impl MemoryStore {
    /// An empty one. The home of the configuration is not used.
    ///
    /// # Errors
    /// No memory.
    pub fn new(config: StoreConfig) -> Result<Self, StoreError> {
        let medium = Arc::new(SqliteMedium::in_memory()?);
        Ok(Self { sessions: Sessions::new(medium, None, config) })
    }
}

impl AsRef<Sessions> for MemoryStore {
    fn as_ref(&self) -> &Sessions {
        &self.sessions
    }
}
