//! Finding files by name.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ignore::WalkBuilder;

use super::pattern::{self, Split};
use super::place::{Found, resolve};
use super::stop::{Deadline, Stop};
use crate::fs::{FileKind, FsError, GlobHits, GlobQuery, Incomplete};

/// Ordered best first: newest, then by path.
type Ranked = (Reverse<SystemTime>, PathBuf);

pub(super) fn glob(query: &GlobQuery, stop: &Stop) -> Result<GlobHits, FsError> {
    let Split { base, rest } = pattern::split(&query.pattern)?;
    let root = existing(&query.root)?;
    match root.place.kind {
        Some(FileKind::Directory) => {}
        Some(FileKind::File | FileKind::Special) => {
            return Err(FsError::NotDirectory { path: query.root.clone() });
        }
        None => return Err(FsError::NotFound { path: query.root.clone() }),
    }
    let shown_base =
        if base.as_os_str().is_empty() { query.root.clone() } else { query.root.join(base) };
    // A pattern may begin with a folder that does not exist: then nothing matches.
    let Ok(Found { place, .. }) = existing(&shown_base) else { return Ok(GlobHits::default()) };
    if place.kind != Some(FileKind::Directory) || pattern::in_version_control(&place.real) {
        return Ok(GlobHits::default());
    }
    let deadline = Deadline::new(stop, query.time_limit);
    let mut found = GlobHits::default();
    let mut best: BinaryHeap<Ranked> = BinaryHeap::new();
    let mut builder = WalkBuilder::new(&place.real);
    builder.standard_filters(false).filter_entry(|entry| {
        entry.depth() == 0 || !pattern::is_version_control(entry.file_name())
    });
    for entry in builder.build() {
        if deadline.passed() {
            found.incomplete = Some(Incomplete::TimeLimit);
            break;
        }
        let Ok(entry) = entry else {
            found.unreadable += 1;
            continue;
        };
        if entry.file_type().is_some_and(|file_type| file_type.is_dir()) {
            continue;
        }
        let Ok(relative) = entry.path().strip_prefix(&place.real) else { continue };
        if !rest.matches(relative) {
            continue;
        }
        let Some(changed) = changed(entry.path()) else { continue };
        found.total += 1;
        best.push((Reverse(changed), shown_base.join(relative)));
        if best.len() > query.max_files {
            best.pop();
        }
    }
    found.files = best.into_sorted_vec().into_iter().map(|(_, path)| path).collect();
    Ok(found)
}

fn existing(path: &Path) -> Result<Found, FsError> {
    let Some(text) = path.to_str() else {
        let problem = "the path of the folder is not UTF-8".to_owned();
        return Err(FsError::Io { path: path.to_path_buf(), problem });
    };
    resolve(Path::new("/"), text)
}

/// Through links; `None` for what is no file, or no longer there.
fn changed(path: &Path) -> Option<SystemTime> {
    let metadata = std::fs::metadata(path).ok()?;
    if metadata.is_file() { metadata.modified().ok() } else { None }
}
