//! Leases of sessions that have no folder: locked files in `<home>/leases`, or names in memory.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use reins_schema::SessionId;

use crate::jsonl::files;
use crate::jsonl::lease::{self, Lease};
use crate::{LeaseInfo, StoreError};

/// How often a lease may be removed while it is being taken.
const ROUNDS: usize = 8;

/// Where leases are.
#[derive(Clone, Debug)]
pub(super) enum Leases {
    /// In this folder.
    Files(PathBuf),
    /// In this process, for sessions that nobody else can see.
    Memory(Arc<Mutex<HashSet<SessionId>>>),
}

/// A lease that is held until it is dropped.
#[derive(Debug)]
pub(super) enum Taken {
    File { lease: Lease, path: PathBuf },
    Memory { held: Arc<Mutex<HashSet<SessionId>>>, id: SessionId },
}

impl Leases {
    /// Takes the lease, or says who has it.
    pub(super) fn take(&self, id: &SessionId) -> Result<Taken, StoreError> {
        match self {
            Self::Files(folder) => {
                files::make_dirs(folder)?;
                let path = folder.join(id.as_str());
                for _ in 0..ROUNDS {
                    let lease = Lease::take(&path, id)?;
                    // Its file may have been removed, with its session, before it was locked.
                    if lease.is_at(&path) {
                        return Ok(Taken::File { lease, path });
                    }
                }
                let problem = "the lease is removed again and again";
                Err(StoreError::unreadable(&path, problem, "end who does that, and try again"))
            }
            Self::Memory(held) => {
                let mut ids = held.lock().unwrap_or_else(PoisonError::into_inner);
                if !ids.insert(id.clone()) {
                    let holder = Some(Box::new(lease::ours()));
                    return Err(StoreError::Busy { id: id.clone(), holder });
                }
                Ok(Taken::Memory { held: Arc::clone(held), id: id.clone() })
            }
        }
    }

    /// Who holds a lease.
    pub(super) fn holder(&self, id: &SessionId) -> Option<LeaseInfo> {
        match self {
            Self::Files(folder) => lease::holder(&folder.join(id.as_str())),
            Self::Memory(held) => {
                let held = held.lock().unwrap_or_else(PoisonError::into_inner);
                held.contains(id).then(lease::ours)
            }
        }
    }
}

impl Taken {
    /// Says what the holder does.
    pub(super) fn announce(&mut self, doing: &str) {
        match self {
            Self::File { lease, .. } => lease.announce(doing),
            Self::Memory { .. } => {}
        }
    }

    /// Forgets the lease of a session that is gone. While it is held: another one's is never
    /// removed.
    pub(super) fn remove(self) {
        if let Self::File { path, .. } = &self {
            // An empty file too many harms nobody.
            drop(fs::remove_file(path));
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Self::Memory { held, id } = self {
            held.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        }
    }
}
