//! Sessions as folders of files.

use std::fs::{self, DirEntry, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_schema::SessionId;
use rustix::fs::{AtFlags, statat};

use super::disk::Disk;
use super::durable::{Durable, Form};
use super::folder::{Folder, HEADER_BYTES_MAX, LEASE, is_blob_name, maker_of_hidden};
use super::held::JsonlHeld;
use super::lease::{self, Lease};
use super::{files, segment};
use crate::medium::{Held, Ids, Inherit, Look, Medium, NewSession, Segment, SegmentInfo, Stamp};
use crate::{LeaseInfo, StoreError, check_id};

/// A snapshot that is larger is none.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 30;

/// How many folders of killed creates and removals one look removes.
const SWEEP_MAX: usize = 64;

/// A folder per session below `<home>/sessions`.
#[derive(Clone, Debug)]
pub(crate) struct JsonlMedium {
    home: Arc<Path>,
    sessions: Arc<Path>,
    durable: Durable,
}

impl JsonlMedium {
    /// Touches nothing; the home is made by the first create.
    pub(crate) fn new(home: &Path, disk: Arc<dyn Disk>) -> Self {
        let sessions = home.join("sessions").into();
        Self { home: home.into(), sessions, durable: Durable::new(disk) }
    }

    fn existing(&self, id: &SessionId) -> Result<Folder, StoreError> {
        Folder::existing(&self.sessions, id)
    }

    fn held(&self, folder: Folder, lease: Lease, is_settled: bool) -> Box<dyn Held> {
        Box::new(JsonlHeld { folder, lease, durable: self.durable.clone(), is_settled })
    }

    /// Makes the folder of sessions, and what is above it. Who made it before may have been killed
    /// before it was durable.
    fn make_home(&self) -> Result<(), StoreError> {
        self.durable.make_dirs(&self.sessions)?;
        if let Some(above) = self.home.parent() {
            // One that may not be opened was not made by us.
            drop(self.durable.sync_dir(above));
        }
        self.durable.sync_dir(&self.home)
    }

    /// Makes everything that a new session's folder holds.
    fn fill(&self, folder: &Folder, new: NewSession<'_>) -> Result<Lease, StoreError> {
        // First, so that nobody takes what is being made for left over.
        let lease = Lease::take(&folder.lease_path(), &folder.id)?;
        self.durable.write_new(&folder.header_path(), &mut { new.header }, Form::Plain)?;
        let mut number = match &new.inherit {
            Some(inherit) => self.inherit(folder, inherit)?,
            None => 0,
        };
        for (own, mut lines) in new.sealed {
            let path = folder.sealed_path(own);
            self.durable.write_new(&path, &mut *lines, Form::Sealed)?;
            number = number.max(own.saturating_add(1));
        }
        // An empty log that is lost is an empty log.
        let form = if new.lines.is_empty() { Form::Derived } else { Form::Plain };
        self.durable.write_new(&folder.segment_path(number), &mut { new.lines }, form)?;
        if let Some(snapshot) = new.snapshot {
            let path = folder.snapshot_path();
            self.durable.write_new(&path, &mut { snapshot }, Form::Derived)?;
        }
        self.durable.sync_dir(&folder.path)?;
        Ok(lease)
    }

    /// Links segments and blobs of another session, and returns the number of the next segment.
    fn inherit(&self, folder: &Folder, inherit: &Inherit<'_>) -> Result<u32, StoreError> {
        let parent = self.existing(inherit.parent)?;
        let mut next = 0;
        for number in &inherit.segments {
            let (from, to) = (parent.sealed_path(*number), folder.sealed_path(*number));
            self.durable.link_or_copy(&from, &to)?;
            next = number.saturating_add(1).max(next);
        }
        if inherit.blobs.is_empty() {
            return Ok(next);
        }
        let blobs = folder.blobs_path();
        self.durable.make_dir(&blobs).map_err(|e| StoreError::io(&blobs, e))?;
        require_folder(&parent.blobs_path())?;
        for name in inherit.blobs.iter().filter(|name| is_blob_name(name)) {
            match self.durable.link_or_copy(&parent.blob_path(name), &folder.blob_path(name)) {
                // The parent has lost it, and the child is told so when it asks for it.
                Err(e) if e.is_absent() => drop(self.existing(inherit.parent)?),
                linked => linked?,
            }
        }
        self.durable.sync_dir(&blobs)?;
        Ok(next)
    }

    fn is_left(&self, entry: &DirEntry) -> bool {
        let Some(pid) = maker_of_hidden(&entry.file_name().to_string_lossy()) else {
            return false;
        };
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        is_folder && !lease::is_alive(pid) && lease::is_left(&entry.path().join(LEASE))
    }
}

impl Medium for JsonlMedium {
    fn create(&self, new: NewSession<'_>) -> Result<Box<dyn Held>, StoreError> {
        let folder = Folder::of(&self.sessions, new.id)?;
        files::check_home(&self.home)?;
        self.make_home()?;
        // Everything is made under a hidden name and renamed; a crash leaves no half session.
        let temp = folder.hidden();
        self.durable.make_dir(&temp.path).map_err(|e| taken(&temp, e))?;
        let made = self.fill(&temp, new).and_then(|lease| {
            self.durable.rename(&temp.path, &folder.path).map_err(|e| taken(&folder, e))?;
            if let Err(error) = self.durable.sync_dir(&self.sessions) {
                // It may be lost with the power, so it was not made.
                drop(self.durable.rename(&folder.path, &temp.path));
                return Err(error);
            }
            Ok(lease)
        });
        match made {
            Ok(lease) => Ok(self.held(folder, lease, true)),
            Err(error) => {
                // The first error is the one to tell; the hidden folder is ours and never listed.
                drop(self.durable.remove_tree(&temp.path, LEASE));
                Err(error)
            }
        }
    }

    fn take(&self, id: &SessionId) -> Result<Box<dyn Held>, StoreError> {
        let folder = self.existing(id)?;
        files::check_home(&self.home)?;
        match Lease::take(&folder.lease_path(), id) {
            Ok(lease) => Ok(self.held(folder, lease, false)),
            Err(error) => {
                // It may have been removed meanwhile, which is to be said first.
                self.existing(id)?;
                Err(error)
            }
        }
    }

    fn holder(&self, id: &SessionId) -> Option<LeaseInfo> {
        let folder = Folder::of(&self.sessions, id).ok()?;
        lease::holder(&folder.lease_path())
    }

    fn header(&self, id: &SessionId) -> Result<Option<Vec<u8>>, StoreError> {
        let path = self.existing(id)?.header_path();
        // What is no file is no header, and mending moves it away.
        if fs::metadata(&path).is_ok_and(|meta| files::what_stands(&meta).is_some()) {
            return Ok(None);
        }
        files::read_whole(&path, HEADER_BYTES_MAX)
    }

    fn segments(&self, id: &SessionId) -> Result<Vec<SegmentInfo>, StoreError> {
        self.existing(id)?.segment_infos()
    }

    fn segment(&self, id: &SessionId, number: u32) -> Result<Box<dyn Segment>, StoreError> {
        segment::open(&self.existing(id)?, number)
    }

    fn snapshot(&self, id: &SessionId) -> Option<Vec<u8>> {
        let folder = Folder::of(&self.sessions, id).ok()?;
        files::read_whole(&folder.snapshot_path(), SNAPSHOT_BYTES_MAX).ok()?
    }

    fn put_blob(&self, id: &SessionId, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let folder = self.existing(id)?;
        require_blob_name(&folder, name)?;
        let blobs = folder.blobs_path();
        match self.durable.make_dir(&blobs) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                return Err(StoreError::io(&blobs, e));
            }
            // Who made it before may have been killed before it was durable.
            _ => self.durable.sync_dir(&folder.path)?,
        }
        let path = folder.blob_path(name);
        require_folder(&blobs)?;
        // What the disk has spoiled is replaced.
        let there = files::read_whole(&path, bytes.len() as u64);
        if there.is_ok_and(|there| there.as_deref() == Some(bytes)) {
            return self.durable.sync_dir(&blobs);
        }
        self.durable.publish(&path, &mut { bytes }, Form::Plain)
    }

    fn blob(
        &self,
        id: &SessionId,
        name: &str,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let folder = self.existing(id)?;
        if !is_blob_name(name) {
            return Ok(None);
        }
        require_folder(&folder.blobs_path())?;
        files::read_whole(&folder.blob_path(name), limit as u64)
    }

    fn blobs(&self, id: &SessionId) -> Result<Vec<(String, u64)>, StoreError> {
        let path = self.existing(id)?.blobs_path();
        require_folder(&path)?;
        let io = |e| StoreError::io(&path, e);
        let entries = match fs::read_dir(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io)?,
        };
        let mut blobs = Vec::new();
        for entry in entries {
            let entry = entry.map_err(io)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if is_blob_name(&name) {
                let meta = fs::metadata(entry.path());
                let meta = meta.map_err(|e| StoreError::io(&entry.path(), e))?;
                blobs.push((name, meta.len()));
            }
        }
        blobs.sort_unstable();
        Ok(blobs)
    }

    fn ids(&self) -> Result<Ids, StoreError> {
        let (mut ids, mut swept) = (Ids::default(), 0);
        let entries = match fs::read_dir(&self.sessions) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(ids),
            Err(e) => {
                files::check_home(&self.sessions)?;
                return Err(StoreError::io(&self.sessions, e));
            }
        };
        for entry in entries {
            let entry = entry.map_err(|e| StoreError::io(&self.sessions, e))?;
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                if swept < SWEEP_MAX && self.is_left(&entry) {
                    swept += 1;
                    // Goes on without: the next look tries again.
                    drop(self.durable.remove_tree(&entry.path(), LEASE));
                }
                continue;
            }
            let id = SessionId::new(entry.file_name().to_string_lossy());
            match what_stands(&entry, &id) {
                Ok(()) => ids.sessions.push(id),
                Err(reason) => ids.strangers.push((entry.path(), reason)),
            }
        }
        ids.strangers.sort_unstable();
        Ok(ids)
    }

    fn stamp(&self, id: &SessionId, active: u32) -> Option<Stamp> {
        stamp(&File::open(&self.sessions).ok()?, &Folder::of(Path::new(""), id).ok()?, active)
    }

    fn looks(&self, at: &[(&SessionId, u32)]) -> Vec<Option<Look>> {
        // Seen from there it is a shorter way to each of them.
        let Ok(sessions) = File::open(&self.sessions) else { return vec![None; at.len()] };
        let look = |id, active| {
            let folder = Folder::of(Path::new(""), id).ok()?;
            let stamp = stamp(&sessions, &folder, active)?;
            let is_archived = is_there(&sessions, &folder.archived_path());
            Some(Look { stamp, is_archived })
        };
        at.iter().map(|(id, active)| look(id, *active)).collect()
    }

    fn is_archived(&self, id: &SessionId) -> bool {
        Folder::of(&self.sessions, id)
            .is_ok_and(|folder| folder.archived_path().symlink_metadata().is_ok())
    }

    fn path(&self, id: &SessionId) -> PathBuf {
        self.sessions.join(id.as_str())
    }
}

/// A folder below `sessions`, whose path begins there.
fn stamp(sessions: &File, folder: &Folder, active: u32) -> Option<Stamp> {
    let follow = |path| statat(sessions, path, AtFlags::empty()).ok();
    let next = active.checked_add(1)?;
    let (found, is_followed) = match follow(folder.segment_path(active)) {
        // Segments are sealed in order, so the next one is not.
        Some(found) => (found, is_there(sessions, &folder.segment_path(next))),
        // Of an archived session the last one is sealed as well.
        None => {
            let next = [folder.segment_path(next), folder.sealed_path(next)];
            let is_followed = next.iter().any(|path| is_there(sessions, path));
            (follow(folder.sealed_path(active))?, is_followed)
        }
    };
    let bytes = u64::try_from(found.st_size).ok()?;
    let changed_ns = i128::from(found.st_mtime) * 1_000_000_000 + i128::from(found.st_mtime_nsec);
    let changed_ns = i64::try_from(changed_ns).ok()?;
    (!is_followed).then_some(Stamp { bytes, changed_ns })
}

/// Whether something stands there, a link to nothing, too.
fn is_there(sessions: &File, path: &Path) -> bool {
    statat(sessions, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

/// Why an entry of the folder of sessions is none.
fn what_stands(entry: &DirEntry, id: &SessionId) -> Result<(), String> {
    check_id(id).map_err(|e| e.to_string())?;
    let kind = entry.file_type().map_err(|e| StoreError::io(&entry.path(), e).to_string())?;
    // A link to a folder is one.
    let is_folder = kind.is_dir() || (kind.is_symlink() && entry.path().is_dir());
    let problem = "a file stands where a session's folder belongs";
    is_folder.then_some(()).ok_or_else(|| problem.to_owned())
}

/// Where the blobs are is no link out of the session's folder, nor a file; it may be absent.
fn require_folder(path: &Path) -> Result<(), StoreError> {
    match path.symlink_metadata() {
        Ok(meta) if !meta.is_dir() => {
            let problem = "a link or file stands where a folder belongs";
            Err(StoreError::unreadable(path, problem, crate::error::MOVE_AWAY))
        }
        _ => Ok(()),
    }
}

fn require_blob_name(folder: &Folder, name: &str) -> Result<(), StoreError> {
    if is_blob_name(name) {
        return Ok(());
    }
    let name = name.chars().take(80).collect();
    Err(StoreError::BlobNotFound { id: folder.id.clone(), name })
}

fn taken(folder: &Folder, error: io::Error) -> StoreError {
    use ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    match error.kind() {
        AlreadyExists | DirectoryNotEmpty | NotADirectory => {
            StoreError::AlreadyExists { id: folder.id.clone(), path: folder.path.clone() }
        }
        _ => StoreError::io(&folder.path, error),
    }
}

#[cfg(test)]
mod tests;
