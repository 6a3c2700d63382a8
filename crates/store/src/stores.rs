//! The stores that others make: sessions, and where their bytes are.

use std::path::Path;
use std::sync::Arc;

use crate::jsonl::JsonlMedium;
use crate::sessions::Sessions;
use crate::{Disk, RealDisk, StoreConfig};

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

    /// One that changes files through `disk`.
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
