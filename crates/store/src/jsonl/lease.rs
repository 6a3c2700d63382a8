//! The lease: a lock on a file that says who writes the session. The lock is the system's, so it
//! ends with its process, is not copied with the file, and alone decides; the content only
//! informs. Both back ends use it.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, UNIX_EPOCH};

use reins_schema::SessionId;

use super::files;
use crate::{LeaseInfo, StoreError};

const LEASE_BYTES_MAX: u64 = 64 << 10;

/// How long a taker waits while nobody who lives is known to hold the lease: it may be probed, or
/// its holder be just dying or not yet have written who it is.
const SETTLE: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(2);

/// Held while this process writes the session. Dropping it releases it.
#[derive(Debug)]
pub(crate) struct Lease {
    file: File,
    info: LeaseInfo,
}

impl Lease {
    /// Takes the lease, or says who has it.
    ///
    /// # Errors
    /// In use; the file cannot be made or locked.
    pub(crate) fn take(path: &Path, id: &SessionId) -> Result<Self, StoreError> {
        let io = |e| StoreError::io(path, e);
        let until = Instant::now() + SETTLE;
        let mut file = open_to_lock(path)?;
        loop {
            match file.try_lock() {
                Ok(()) if is_at(path, &file) => break,
                // The session was removed, or somebody removed the file. What stands there now
                // is what others lock too.
                Ok(()) => file = open_to_lock(path)?,
                Err(TryLockError::WouldBlock) => {
                    let holder = content(path).filter(is_alive_here);
                    if (holder.is_some() && !is_only_probed(&file)) || Instant::now() >= until {
                        return Err(busy(id, holder.or_else(|| content_elsewhere(path))));
                    }
                }
                Err(TryLockError::Error(e)) => return Err(io(e)),
            }
            if Instant::now() >= until {
                return Err(busy(id, None));
            }
            pause();
        }
        let mut lease = Self { file, info: ours() };
        // The lock is what counts. A file that may be locked and not written is a lease as well.
        drop(lease.write());
        Ok(lease)
    }

    /// Whether the lease's file still has this name.
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        is_at(path, &self.file)
    }

    /// Says what the holder does, for people. Best effort.
    pub(crate) fn announce(&mut self, doing: &str) {
        doing.clone_into(&mut self.info.doing);
        drop(self.write());
    }

    /// Readers may see it half written; then they know a holder without a name.
    fn write(&mut self) -> io::Result<()> {
        let text = serde_json::to_vec(&self.info)?;
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
        boot: boot_id(),
        doing: program(),
    }
}

/// Who holds the lease, if anybody does. A holder that cannot be known has process 0. Looks
/// through a shared lock on a handle of its own: holders do not notice, others who look do not
/// either, and who wants to take the lease tries again.
pub(crate) fn holder(path: &Path) -> Option<LeaseInfo> {
    let file = files::open_to_read(path).ok()?;
    if !is_locked(&file) {
        return None;
    }
    let until = Instant::now() + SETTLE / 4;
    loop {
        // Also a host that is not ours may hold it, on a shared file system.
        match content(path).filter(|info| !is_here(info) || is_alive_here(info)) {
            Some(info) => return Some(info),
            None if !is_locked(&file) => return None,
            None if Instant::now() >= until => return Some(unknown()),
            None => pause(),
        }
    }
}

/// Whether what it belongs to may be removed: nobody holds it, nor is it another machine's, which
/// may lock in a way that is not seen here. A lease that is not there is nobody's.
pub(crate) fn is_left(path: &Path) -> bool {
    match files::open_to_read(path) {
        Ok(file) => !is_locked(&file) && content_elsewhere(path).is_none(),
        Err(error) => error.is_absent(),
    }
}

/// Whether this machine has such a process.
pub(crate) fn is_alive(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else {
        return false;
    };
    rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH)
}

/// For writing, or when the file's mode forbids that, for reading: a lock needs no more.
fn open_to_lock(path: &Path) -> Result<File, StoreError> {
    let options = &mut files::private();
    let options = options.read(true).write(true).create(true).truncate(false);
    match files::open(options, path) {
        Err(StoreError::Permission { .. }) => files::open_to_read(path),
        opened => opened,
    }
}

/// Whether `path` still leads to this file.
fn is_at(path: &Path, file: &File) -> bool {
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(held), Ok(named)) => (held.dev(), held.ino()) == (named.dev(), named.ino()),
        _ => false,
    }
}

/// Whether somebody has it for himself. A system without locks has nobody.
fn is_locked(file: &File) -> bool {
    match file.try_lock_shared() {
        Ok(()) => {
            drop(file.unlock());
            false
        }
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => false,
    }
}

/// After the lock was refused: whether others only look at it.
fn is_only_probed(file: &File) -> bool {
    !is_locked(file)
}

fn busy(id: &SessionId, holder: Option<LeaseInfo>) -> StoreError {
    StoreError::Busy { id: id.clone(), holder: holder.map(Box::new) }
}

fn content(path: &Path) -> Option<LeaseInfo> {
    let bytes = files::read_whole(path, LEASE_BYTES_MAX).ok()??;
    serde_json::from_slice(&bytes).ok()
}

/// The content when it names another machine, of which nothing more can be known here.
fn content_elsewhere(path: &Path) -> Option<LeaseInfo> {
    content(path).filter(|info| !is_here(info))
}

/// Whether a holder is on this machine.
pub(crate) fn is_here(info: &LeaseInfo) -> bool {
    info.host == host_name()
}

/// Whether the content names a process of this machine, since it was started, that lives.
fn is_alive_here(info: &LeaseInfo) -> bool {
    let is_this_boot = info.boot.is_empty() || info.boot == boot_id();
    is_here(info) && is_this_boot && is_alive(info.pid)
}

fn unknown() -> LeaseInfo {
    LeaseInfo {
        pid: 0,
        host: String::new(),
        start: 0,
        socket: None,
        boot: String::new(),
        doing: String::new(),
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Changes with every start of the machine; empty where the system has none.
fn boot_id() -> String {
    let mut text = String::new();
    let file = File::open("/proc/sys/kernel/random/boot_id");
    let read = file.and_then(|file| file.take(64).read_to_string(&mut text));
    read.map(|_| text.trim().to_owned()).unwrap_or_default()
}

/// The name of this program and the command that it was given; never what a person told it.
fn program() -> String {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let path = words.next().unwrap_or_default();
    let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_command = |word: &String| {
        word.len() <= 24
            && word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    match words.next().filter(is_command) {
        Some(command) => format!("{name} {command}"),
        None => name,
    }
}

#[expect(clippy::disallowed_methods, reason = "another process's lock cannot be awaited")]
fn pause() {
    std::thread::sleep(PAUSE);
}

#[expect(clippy::disallowed_methods, reason = "informs people; the store is below `world`")]
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
