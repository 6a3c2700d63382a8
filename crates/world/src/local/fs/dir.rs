//! Directories reached one name at a time without following a link, so that a link put into a
//! judged path leads nowhere. The same promise as `openat2` with `RESOLVE_NO_SYMLINKS`, on every
//! system, and folders can be made on the way.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, mkdirat, openat, unlinkat};
use rustix::io::Errno;

pub(super) type Dir = OwnedFd;

/// Search permission is enough where the system knows handles without access.
#[cfg(target_os = "linux")]
const HANDLE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const HANDLE: OFlags = OFlags::RDONLY;

/// Folders made on the way; taken away again unless kept.
#[derive(Default)]
pub(super) struct Made {
    entries: Vec<(Dir, OsString)>,
    kept: bool,
}

impl Made {
    pub(super) fn keep(mut self) {
        self.kept = true;
        self.entries.iter().for_each(|(parent, _)| sync(parent));
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        for (parent, name) in self.entries.iter().rev() {
            // A folder that someone uses by now stays.
            if unlinkat(parent, name, AtFlags::REMOVEDIR).is_err() {
                return;
            }
        }
    }
}

/// `real` must be absolute and without `.`, `..` and links.
pub(super) fn open(real: &Path) -> rustix::io::Result<Dir> {
    walk(real, None)
}

/// Like [`open`], and makes what is missing.
pub(super) fn open_or_make(real: &Path, made: &mut Made) -> rustix::io::Result<Dir> {
    walk(real, Some(made))
}

fn walk(real: &Path, mut made: Option<&mut Made>) -> rustix::io::Result<Dir> {
    let flags = HANDLE | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut here = openat(CWD, "/", flags, Mode::empty())?;
    for component in real.components() {
        let name: &OsStr = match component {
            Component::RootDir => continue,
            Component::Normal(name) => name,
            Component::CurDir | Component::ParentDir | Component::Prefix(_) => {
                return Err(Errno::INVAL);
            }
        };
        here = match (openat(&here, name, flags, Mode::empty()), made.as_deref_mut()) {
            (Err(Errno::NOENT), Some(made)) => {
                let fresh = match mkdirat(&here, name, Mode::from_bits_truncate(0o777)) {
                    Ok(()) => true,
                    Err(Errno::EXIST) => false,
                    Err(errno) => return Err(errno),
                };
                let next = openat(&here, name, flags, Mode::empty())?;
                if fresh {
                    made.entries.push((here, name.to_owned()));
                }
                next
            }
            (next, _) => next?,
        };
    }
    Ok(here)
}

/// The path is not what it was when it was resolved.
pub(super) fn has_moved(errno: Errno) -> bool {
    matches!(errno, Errno::LOOP | Errno::NOTDIR | Errno::NOENT | Errno::ISDIR)
}

/// Makes names durable. A folder that may not be read, or a file system without this, loses only
/// durability, and what was published stands.
pub(super) fn sync(dir: &Dir) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(readable) = openat(dir, ".", flags, Mode::empty()) {
        fsync(&readable).ok();
    }
}
