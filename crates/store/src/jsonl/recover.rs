//! Cuts a torn tail off a log. Its bytes are kept beside the log before anything is cut.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use reins_schema::SessionRecovered;

use super::files;
use super::folder::Folder;
use super::scan::Tail;
use crate::StoreError;

/// Cuts, and says what was cut and where it is kept.
pub(crate) fn cut(folder: &Folder, tail: &Tail) -> Result<SessionRecovered, StoreError> {
    let path = &tail.path;
    let io = |e| StoreError::io(path, e);
    let mut log = files::open(files::private().read(true).write(true), path)?;
    let kept = keep(folder, &mut log, tail)?;
    log.set_len(tail.offset).and_then(|()| log.sync_all()).map_err(io)?;
    let name = |path: &PathBuf| {
        path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
    };
    Ok(SessionRecovered {
        damage: format!("the end of {} from byte {}: {}", name(path), tail.offset, tail.problem),
        cut_bytes: tail.bytes,
        kept_in: name(&kept),
        ..SessionRecovered::default()
    })
}

/// Named by the log's last change instead of a clock, so that a crash before the cut leads to the
/// same name again.
fn keep(folder: &Folder, log: &mut File, tail: &Tail) -> Result<PathBuf, StoreError> {
    let io = |e| StoreError::io(&tail.path, e);
    let meta = log.metadata().map_err(io)?;
    let time = meta.mtime() * 1000 + meta.mtime_nsec() / 1_000_000;
    let path = folder.path.join(format!("torn-{time}-{}.bytes", tail.offset));
    log.seek(SeekFrom::Start(tail.offset)).map_err(io)?;
    files::publish(&path, log.take(tail.bytes))?;
    Ok(path)
}
