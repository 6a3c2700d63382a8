//! The lease: a lock on a file that says who writes the session. The lock is the system's, so it
//! ends with its process; the content only informs.

use std::fs::{File, TryLockError};
use std::io::{Seek, Write};
use std::path::Path;
use std::time::UNIX_EPOCH;

use reins_schema::SessionId;

use super::files;
use crate::{LeaseInfo, StoreError};

const LEASE_BYTES_MAX: u64 = 64 << 10;

/// Held while this process writes the session. Dropping it releases it.
#[derive(Debug)]
pub(crate) struct Lease {
    file: File,
}

impl Lease {
    /// Takes the lease, or says who has it.
    pub(crate) fn take(path: &Path, id: &SessionId) -> Result<Self, StoreError> {
        let options = &mut files::private();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = files::open(options, path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Busy { id: id.clone(), holder: content(path) });
            }
            Err(TryLockError::Error(e)) => return Err(StoreError::io(path, e)),
        }
        let mut lease = Self { file };
        lease.write(&ours()).map_err(|e| StoreError::io(path, e))?;
        Ok(lease)
    }

    /// Whether the lease's file still has this name.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        match (self.file.metadata(), std::fs::metadata(path)) {
            (Ok(held), Ok(named)) => held.ino() == named.ino() && held.dev() == named.dev(),
            _ => false,
        }
    }

    /// Says what the holder does.
    pub(crate) fn announce(&mut self, doing: &str) {
        // Only information, so an error changes nothing.
        drop(self.write(&LeaseInfo { doing: doing.to_owned(), ..ours() }));
    }

    fn write(&mut self, info: &LeaseInfo) -> std::io::Result<()> {
        let text = serde_json::to_vec(info)?;
        self.file.set_len(0)?;
        self.file.rewind()?;
        self.file.write_all(&text)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Only information, so an error changes nothing.
        drop(self.file.set_len(0));
        // Closing alone is not enough: a process that is just being started from another thread
        // has a copy of the handle until it runs its program, and the copy would keep the lock.
        drop(self.file.unlock());
    }
}

/// This process as a holder.
pub(crate) fn ours() -> LeaseInfo {
    LeaseInfo {
        pid: std::process::id(),
        host: host_name(),
        start: now(),
        socket: None,
        boot: String::new(),
        doing: String::new(),
    }
}

/// Who holds the lease, when its holder is alive. Never locks, so it never disturbs an opener.
pub(crate) fn holder(path: &Path) -> Option<LeaseInfo> {
    let info = content(path)?;
    if info.host != host_name() {
        return Some(info);
    }
    is_alive(info.pid).then_some(info)
}

/// Whether this machine has such a process.
pub(crate) fn is_alive(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else {
        return false;
    };
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// Whether nobody holds the lease, as far as that can be told; a lease that is not there is free.
pub(crate) fn is_free(path: &Path) -> bool {
    match files::open_to_read(path) {
        Ok(file) => holder(path).is_none() && file.try_lock().is_ok(),
        Err(error) => error.is_absent(),
    }
}

fn content(path: &Path) -> Option<LeaseInfo> {
    let bytes = files::read_whole(path, LEASE_BYTES_MAX).ok()??;
    serde_json::from_slice(&bytes).ok()
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[expect(clippy::disallowed_methods, reason = "informs people; the store is below `world`")]
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
