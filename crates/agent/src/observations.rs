//! Which files a session has seen, with which content. A file must have been read before it is
//! changed, and its content must still be what was read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use reins_world::{ContentHash, Expect};

/// Files remembered at most. Beyond it all are forgotten and must be read again before a change.
const MAX_FILES: usize = 100_000;

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
        self.note(real, Seen::Content(hash));
    }

    /// Nothing is there.
    pub fn saw_absent(&self, real: &Path) {
        self.note(real, Seen::Absent);
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

    fn note(&self, real: &Path, what: Seen) {
        let mut seen = self.lock();
        if seen.len() >= MAX_FILES && !seen.contains_key(real) {
            seen.clear();
        }
        seen.insert(real.to_owned(), what);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<PathBuf, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
