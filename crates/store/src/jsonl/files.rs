//! File operations that are durable when they return.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::StoreError;

/// Makes one folder for the owner only.
pub(crate) fn make_dir(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// Makes entries of a folder durable.
pub(crate) fn sync_dir(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|dir| dir.sync_all()).map_err(|e| StoreError::io(path, e))
}

/// Options for a file that only the owner reads and writes.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

/// Opens a file with these options and requires it to be one: what else may stand there would
/// block, never end, or with a link lead out of the folder, which may come from elsewhere.
pub(crate) fn open(options: &mut OpenOptions, path: &Path) -> Result<File, StoreError> {
    use rustix::fs::OFlags;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    let opened = options.open(path).and_then(|file| Ok((file.metadata()?, file)));
    match opened {
        Ok((meta, file)) => require_file(path, &meta).map(|()| file),
        Err(e) => {
            // Links, sockets, and pipes without a reader, refuse to be opened.
            if let Ok(meta) = fs::symlink_metadata(path) {
                require_file(path, &meta)?;
            }
            Err(StoreError::io(path, e))
        }
    }
}

/// As [`open`] for reading.
pub(crate) fn open_to_read(path: &Path) -> Result<File, StoreError> {
    open(OpenOptions::new().read(true), path)
}

/// Refuses everything but a regular file.
pub(crate) fn require_file(path: &Path, meta: &fs::Metadata) -> Result<(), StoreError> {
    match what_stands(meta) {
        None => Ok(()),
        Some(what) => {
            let problem = format!("unreadable: {what}");
            Err(StoreError::unreadable(path, problem, super::super::error::MOVE_AWAY))
        }
    }
}

/// Says what it is, when it is no regular file.
pub(crate) fn what_stands(meta: &fs::Metadata) -> Option<&'static str> {
    let kind = meta.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a folder stands where a file belongs"),
        () if kind.is_symlink() => Some("a symbolic link stands where a file belongs"),
        () if kind.is_fifo() => Some("a FIFO stands where a file belongs"),
        () if kind.is_socket() => Some("a socket stands where a file belongs"),
        () => Some("a device stands where a file belongs"),
    }
}

/// A whole file of at most `limit` bytes; `None` when there is none.
pub(crate) fn read_whole(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, StoreError> {
    let file = match open_to_read(path) {
        Ok(file) => file,
        Err(e) if e.is_absent() => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut bytes = Vec::new();
    let read = file.take(limit + 1).read_to_end(&mut bytes);
    read.map_err(|e| StoreError::io(path, e))?;
    if bytes.len() as u64 > limit {
        let problem = format!("the file has more than {limit} bytes");
        return Err(StoreError::unreadable(path, problem, super::super::error::MOVE_AWAY));
    }
    Ok(Some(bytes))
}

/// Says why a home cannot be used for writing, before anything is written. The home need not
/// exist; then its nearest existing parent is judged.
///
/// # Errors
/// It belongs to another user, is no folder, or takes no files.
pub fn check_home(home: &Path) -> Result<(), StoreError> {
    let (existing, is_home) = nearest_existing(home)?;
    let meta = fs::metadata(&existing).map_err(|e| StoreError::io(&existing, e))?;
    if !meta.is_dir() {
        return Err(StoreError::HomeNotDirectory { path: existing });
    }
    let user = rustix::process::geteuid();
    if is_home && !user.is_root() && meta.uid() != user.as_raw() {
        return Err(StoreError::NotOurs { path: existing, owner: meta.uid() });
    }
    let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(&existing, access).map_err(|e| StoreError::io(&existing, e.into()))
}

/// The home itself, or the nearest folder above it that exists.
fn nearest_existing(home: &Path) -> Result<(PathBuf, bool), StoreError> {
    for path in home.ancestors() {
        match fs::metadata(path) {
            Ok(_) => return Ok((path.to_path_buf(), path == home)),
            // Below a regular file: the file is found further up.
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {}
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(StoreError::making_home(path, e)),
        }
    }
    Ok((PathBuf::from("."), false))
}

/// Makes a folder and those above it that are missing, each durable in its parent.
pub(crate) fn make_dirs(path: &Path) -> Result<(), StoreError> {
    let missing: Vec<&Path> = path.ancestors().take_while(|p| !p.is_dir()).collect();
    for dir in missing.into_iter().rev().filter(|dir| !dir.as_os_str().is_empty()) {
        match make_dir(dir) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                return Err(StoreError::HomeNotDirectory { path: dir.to_path_buf() });
            }
            Err(e) => return Err(StoreError::making_home(dir, e)),
        }
        let parent = dir.parent().filter(|p| !p.as_os_str().is_empty());
        sync_dir(parent.unwrap_or(Path::new(".")))?;
    }
    Ok(())
}
