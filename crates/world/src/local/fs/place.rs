//! Paths resolved as the kernel would, and regular files opened at the resolved place.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileType};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::dir;
use super::errors::{from_errno, from_io};
use crate::fs::{FileKind, FsError, Place};

/// As many as Linux follows.
const MAX_LINKS: u32 = 40;

/// How often a path that changes under our hands is resolved again.
pub(super) const ATTEMPTS: u32 = 3;

/// A [`Place`] and the words for what is there.
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) words: &'static str,
}

struct Walk {
    real: PathBuf,
    /// `None`: nothing is at `real`.
    here: Option<(FileType, u64)>,
    /// Names to go, the next one last.
    rest: Vec<OsString>,
    links: u32,
}

/// Resolves `path` from `cwd`. Nothing is opened.
pub(super) fn resolve(cwd: &Path, path: &str) -> Result<Found, FsError> {
    let asked = PathBuf::from(path);
    if path.is_empty() {
        return Err(FsError::NotFound { path: asked });
    }
    if !cwd.is_absolute() {
        let problem = "the working directory must be an absolute path".to_owned();
        return Err(FsError::Io { path: cwd.to_path_buf(), problem });
    }
    let root = fs::symlink_metadata("/").map_err(|error| from_io(Path::new("/"), &error))?;
    let mut walk = Walk {
        real: PathBuf::from("/"),
        here: Some((root.file_type(), root.len())),
        rest: Vec::new(),
        links: 0,
    };
    walk.push(OsStr::new(path));
    if !asked.is_absolute() {
        walk.push(cwd.as_os_str());
    }
    while let Some(name) = walk.rest.pop() {
        walk.enter(&name, &asked)?;
    }
    let kind = walk.here.map(|(file_type, _)| kind_of(file_type));
    let size = walk.here.map_or(0, |(_, size)| size);
    let words = walk.here.map_or("missing", |(file_type, _)| words_for(file_type));
    Ok(Found { place: Place { real: walk.real, kind, size }, words })
}

impl Walk {
    fn push(&mut self, path: &OsStr) {
        let names = path.as_bytes().split(|byte| *byte == b'/').rev();
        self.rest.extend(names.map(|name| OsStr::from_bytes(name).to_owned()));
    }

    fn enter(&mut self, name: &OsStr, asked: &Path) -> Result<(), FsError> {
        let stays = name.is_empty() || name == ".";
        match self.here {
            None if stays => return Ok(()),
            // The kernel does not step back out of what is not there.
            None if name == ".." => return Err(FsError::NotFound { path: asked.to_path_buf() }),
            None => {
                self.real.push(name);
                return Ok(());
            }
            Some((file_type, _)) if !file_type.is_dir() => {
                return Err(FsError::NotDirectory { path: self.real.clone() });
            }
            Some(_) if stays => return Ok(()),
            Some(_) => {}
        }
        if name == ".." {
            self.real.pop();
            return Ok(());
        }
        let next = self.real.join(name);
        let metadata = match fs::symlink_metadata(&next) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.real = next;
                self.here = None;
                return Ok(());
            }
            found => found.map_err(|error| from_io(&next, &error))?,
        };
        if metadata.is_symlink() {
            return self.follow(&next, asked);
        }
        self.real = next;
        self.here = Some((metadata.file_type(), metadata.len()));
        Ok(())
    }

    fn follow(&mut self, link: &Path, asked: &Path) -> Result<(), FsError> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(from_errno(asked, Errno::LOOP));
        }
        let target = fs::read_link(link).map_err(|error| from_io(link, &error))?;
        if target.is_absolute() {
            self.real = PathBuf::from("/");
        }
        self.push(target.as_os_str());
        Ok(())
    }
}

pub(super) fn kind_of(file_type: FileType) -> FileKind {
    if file_type.is_dir() {
        FileKind::Directory
    } else if file_type.is_file() {
        FileKind::File
    } else {
        FileKind::Special
    }
}

pub(super) fn words_for(file_type: FileType) -> &'static str {
    if file_type.is_file() {
        "regular file"
    } else if file_type.is_dir() {
        "directory"
    } else if file_type.is_fifo() {
        "FIFO"
    } else if file_type.is_socket() {
        "socket"
    } else if file_type.is_char_device() {
        "character device"
    } else if file_type.is_block_device() {
        "block device"
    } else {
        "special file"
    }
}

/// Opens a regular file for reading at its resolved place. Anything else is refused unopened.
pub(super) fn open_regular(cwd: &Path, path: &str) -> Result<(Place, File), FsError> {
    let asked = Path::new(path);
    for _ in 0..ATTEMPTS {
        let Found { place, words } = resolve(cwd, path)?;
        match place.kind {
            None => return Err(FsError::NotFound { path: asked.to_path_buf() }),
            Some(FileKind::File) => {}
            Some(FileKind::Directory | FileKind::Special) => {
                let kind = words.to_owned();
                return Err(FsError::NotRegular { path: asked.to_path_buf(), kind });
            }
        }
        match open_at(&place.real) {
            Ok(file) => {
                let metadata = file.metadata().map_err(|error| from_io(asked, &error))?;
                // Another kind of file may have come since; then its own kind is reported.
                if metadata.is_file() {
                    return Ok((place, file));
                }
            }
            Err(errno) if dir::has_moved(errno) => {}
            Err(errno) => return Err(from_errno(asked, errno)),
        }
    }
    Err(keeps_changing(asked))
}

pub(super) fn keeps_changing(asked: &Path) -> FsError {
    let problem = "the path was changed by someone else again and again; try once more".to_owned();
    FsError::Io { path: asked.to_path_buf(), problem }
}

fn open_at(real: &Path) -> rustix::io::Result<File> {
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(Errno::ISDIR);
    };
    open_file(&dir::open(parent)?, name, OFlags::RDONLY)
}

/// Never follows a link and never blocks on a FIFO that came in between.
pub(super) fn open_file(
    parent: &dir::Dir,
    name: &OsStr,
    access: OFlags,
) -> rustix::io::Result<File> {
    let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    openat(parent, name, flags, Mode::empty()).map(File::from)
}
