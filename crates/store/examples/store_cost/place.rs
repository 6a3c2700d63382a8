//! A home of its own with one back end on it, and what can be seen of it from outside.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_schema::{FORMAT, Header, SessionId};
use reins_store::{JsonlStore, SqliteStore, Store, StoreConfig};

use crate::Failure;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Jsonl,
    Sqlite,
}

impl Backend {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Sqlite => "sqlite",
        }
    }

    pub(crate) fn named(name: &str) -> Result<Self, Failure> {
        let mut all = [Self::Jsonl, Self::Sqlite].into_iter();
        all.find(|one| one.name() == name).ok_or_else(|| name.to_owned().into())
    }

    pub(crate) fn store(self, home: &Path) -> Arc<dyn Store> {
        let config = StoreConfig::new(home);
        match self {
            Self::Jsonl => Arc::new(JsonlStore::new(config)),
            Self::Sqlite => Arc::new(SqliteStore::new(config)),
        }
    }
}

pub(crate) struct Place {
    pub(crate) backend: Backend,
    pub(crate) store: Arc<dyn Store>,
    home: PathBuf,
    /// Removes the home at the end, for the process that made it.
    _folder: Option<tempfile::TempDir>,
}

impl Place {
    /// Below `target`, so that it is on the disk that the work is on.
    pub(crate) fn new(backend: Backend) -> Result<Self, Failure> {
        let program = std::env::current_exe()?;
        let target = program.parent().ok_or("no folder of the program")?;
        let folder = tempfile::TempDir::with_prefix_in("store-cost-", target)?;
        let place = Self::at(backend, folder.path().to_owned());
        Ok(Self { _folder: Some(folder), ..place })
    }

    pub(crate) fn at(backend: Backend, home: PathBuf) -> Self {
        Self { backend, store: backend.store(&home), home, _folder: None }
    }

    pub(crate) fn home(&self) -> &Path {
        &self.home
    }

    /// Bytes that all files take; a file with several names counts once.
    pub(crate) fn bytes(&self) -> Result<u64, Failure> {
        let (mut seen, mut folders, mut bytes) = (HashSet::new(), vec![self.home().to_owned()], 0);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let entry = entry?;
                let found = entry.metadata()?;
                if found.is_dir() {
                    folders.push(entry.path());
                } else if seen.insert(found.ino()) {
                    bytes += found.len();
                }
            }
        }
        Ok(bytes)
    }

    /// Forgets the snapshot of a session.
    pub(crate) fn drop_snapshot(&self, id: &SessionId) -> Result<(), Failure> {
        match self.backend {
            Backend::Jsonl => {
                let path = self.home().join("sessions").join(id.as_str()).join("snapshot.json");
                match std::fs::remove_file(path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
                    _ => Ok(()),
                }
            }
            Backend::Sqlite => {
                let database = rusqlite::Connection::open(self.home().join("sessions.sqlite"))?;
                database.busy_timeout(std::time::Duration::from_secs(5))?;
                database.execute("DELETE FROM snapshots WHERE session = ?1", [id.as_str()])?;
                Ok(())
            }
        }
    }

    pub(crate) fn drop_index(&self) -> Result<(), Failure> {
        for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
            match std::fs::remove_file(self.home().join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error.into());
                }
                _ => {}
            }
        }
        Ok(())
    }
}

pub(crate) fn header(id: &SessionId) -> Header {
    Header {
        format: FORMAT,
        id: id.clone(),
        created_at: 1_790_000_000_000,
        cwd: "/work/project".into(),
        parent: None,
        origin: None,
        delegation_depth: 0,
        agent_preset: Some("standard".to_owned()),
    }
}

/// A session id as agents make them, ordered by `number`.
pub(crate) fn id(number: u64) -> SessionId {
    let high = 0x01a2_2e61_0000_u64 + number;
    SessionId::new(format!("{:08x}-{:04x}-7000-8000-{number:012x}", high >> 16, high & 0xffff))
}

/// The binary that was built with the same profile.
pub(crate) fn reins() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()?;
    let folder = program.parent().and_then(Path::parent).ok_or("no folder of the program")?;
    let reins = folder.join("reins");
    let absent = || format!("{}: absent; cargo build --release -p reins-cli", reins.display());
    if reins.is_file() { Ok(reins) } else { Err(absent().into()) }
}
