//! Which files a session has seen, with which content. A file must have been read before it is
//! changed, and its content must still be what was read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use reins_world::{ContentHash, Expect};

/// Shared by the tools of one agent. Cheap to clone.
#[derive(Clone, Default)]
pub struct Observations {
    seen: Arc<Mutex<HashMap<PathBuf, Seen>>>,
}

#[derive(Clone, Copy)]
enum Seen {
    Content(ContentHash),
    Absent,
}

impl Observations {
    /// The file has this content.
    pub fn saw(&self, real: &Path, hash: ContentHash) {
        self.lock().insert(real.to_owned(), Seen::Content(hash));
    }

    /// Nothing is there.
    pub fn saw_absent(&self, real: &Path) {
        self.lock().insert(real.to_owned(), Seen::Absent);
    }

    /// What must hold for a whole-file write: unseen or absent files must not exist.
    pub fn expect_for_write(&self, real: &Path) -> Expect {
        match self.lock().get(real) {
            Some(Seen::Content(hash)) => Expect::Hash(*hash),
            Some(Seen::Absent) | None => Expect::Absent,
        }
    }

    /// The content that an edit builds on; `None` when the file was never read.
    pub fn seen_content(&self, real: &Path) -> Option<ContentHash> {
        match self.lock().get(real) {
            Some(Seen::Content(hash)) => Some(*hash),
            Some(Seen::Absent) | None => None,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
