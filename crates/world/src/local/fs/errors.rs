//! From the operating system's errors to [`FsError`].

use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::fs::FsError;

/// The operating system's words without the number.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((plain, _)) => plain.to_owned(),
        None => text,
    }
}

pub(super) fn from_io(path: &Path, error: &io::Error) -> FsError {
    let path = path.to_path_buf();
    let problem = words(error);
    match error.kind() {
        io::ErrorKind::NotFound => FsError::NotFound { path },
        io::ErrorKind::NotADirectory => FsError::NotDirectory { path },
        io::ErrorKind::IsADirectory => FsError::NotRegular { path, kind: "directory".to_owned() },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            FsError::Permission { path, problem }
        }
        _ => FsError::Io { path, problem },
    }
}

pub(super) fn from_errno(path: &Path, errno: Errno) -> FsError {
    from_io(path, &errno.into())
}

/// The same error about the path that the caller named.
pub(super) fn about(error: FsError, asked: &Path) -> FsError {
    let mut error = error;
    match &mut error {
        FsError::NotFound { path }
        | FsError::NotRegular { path, .. }
        | FsError::NotDirectory { path }
        | FsError::NotText { path, .. }
        | FsError::TooLarge { path, .. }
        | FsError::Stale { path }
        | FsError::Exists { path }
        | FsError::Moved { path }
        | FsError::NotReplaceable { path, .. }
        | FsError::Permission { path, .. }
        | FsError::Io { path, .. } => *path = asked.to_path_buf(),
        FsError::Pattern { .. } => {}
    }
    error
}
