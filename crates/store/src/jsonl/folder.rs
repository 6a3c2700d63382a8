//! A session's folder: its names, its header, its log files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reins_schema::SessionId;

use super::{HIDDEN, files};
use crate::error::MOVE_AWAY;
use crate::medium::SegmentInfo;
use crate::{StoreError, check_id};

pub(crate) const HEADER_BYTES_MAX: u64 = 1 << 20;

/// The file that is locked.
pub(crate) const LEASE: &str = "lease";

/// How the folder of a session begins while it is being removed; as [`HIDDEN`].
const REMOVED: &str = ".old-";

/// How many ids are compared with one that is not there.
const NAMES_MAX: usize = 100_000;

/// Names of segments have eight digits.
pub(crate) const NUMBER_MAX: u32 = 99_999_999;

/// How often a folder is listed while numbers are missing.
const LISTINGS_MAX: u32 = 4;

/// Where everything of one session is.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    pub(crate) id: SessionId,
    pub(crate) path: PathBuf,
}

impl Folder {
    /// The folder of a valid id; need not exist.
    pub(crate) fn of(sessions: &Path, id: &SessionId) -> Result<Self, StoreError> {
        check_id(id)?;
        Ok(Self { id: id.clone(), path: sessions.join(id.as_str()) })
    }

    /// The folder of a session that exists.
    pub(crate) fn existing(sessions: &Path, id: &SessionId) -> Result<Self, StoreError> {
        let folder = Self::of(sessions, id)?;
        match fs::metadata(&folder.path) {
            Ok(meta) if meta.is_dir() => Ok(folder),
            Ok(_) => {
                let problem = "a file stands where a session's folder belongs";
                Err(StoreError::unreadable(&folder.path, problem, MOVE_AWAY))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let nearest = nearest(sessions, id);
                let sessions = sessions.to_path_buf();
                Err(StoreError::NotFound { id: id.clone(), sessions, nearest })
            }
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                files::check_home(sessions)?;
                Err(StoreError::io(&folder.path, e))
            }
            Err(e) => Err(StoreError::io(&folder.path, e)),
        }
    }

    /// Where it is while it is being made or removed; never listed.
    pub(crate) fn hidden(&self) -> Self {
        let name = format!("{HIDDEN}{}-{}", self.id, std::process::id());
        Self { id: self.id.clone(), path: self.path.with_file_name(name) }
    }

    /// Where it is while it is being removed; never listed.
    pub(crate) fn removed(&self) -> Self {
        let name = format!("{REMOVED}{}-{}", self.id, std::process::id());
        Self { id: self.id.clone(), path: self.path.with_file_name(name) }
    }

    pub(crate) fn header_path(&self) -> PathBuf {
        self.path.join("header.json")
    }

    pub(crate) fn lease_path(&self) -> PathBuf {
        self.path.join(LEASE)
    }

    pub(crate) fn snapshot_path(&self) -> PathBuf {
        self.path.join("snapshot.json")
    }

    /// There while the session is archived.
    pub(crate) fn archived_path(&self) -> PathBuf {
        self.path.join("archived")
    }

    pub(crate) fn blob_path(&self, name: &str) -> PathBuf {
        self.blobs_path().join(name)
    }

    pub(crate) fn sealed_path(&self, number: u32) -> PathBuf {
        self.path.join(format!("{number:08}.log.zst"))
    }

    /// The segments by number. A number that is missing is believed when two looks agree: while
    /// a segment is sealed, one listing of a large folder may show neither of its names.
    pub(crate) fn segment_infos(&self) -> Result<Vec<SegmentInfo>, StoreError> {
        let mut infos = self.listed()?;
        for _ in 1..LISTINGS_MAX {
            if infos.windows(2).all(|two| two[0].number + 1 == two[1].number) {
                break;
            }
            let before = std::mem::replace(&mut infos, self.listed()?);
            if before.iter().map(|it| it.number).eq(infos.iter().map(|it| it.number)) {
                break;
            }
        }
        Ok(infos)
    }

    /// Of one that is there in both forms the sealed one counts: it was
    /// whole before it got its name.
    fn listed(&self) -> Result<Vec<SegmentInfo>, StoreError> {
        let io = |e| StoreError::io(&self.path, e);
        let mut infos = BTreeMap::new();
        for entry in fs::read_dir(&self.path).map_err(io)? {
            let entry = entry.map_err(io)?;
            let name = entry.file_name();
            let Some((number, is_sealed)) = segment_of(&name.to_string_lossy()) else { continue };
            let stored = match fs::metadata(entry.path()) {
                Ok(meta) => meta.len(),
                // It was just sealed, and is listed under its other name, now or by the next look.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    fs::metadata(self.sealed_path(number)).map_or(0, |meta| meta.len())
                }
                Err(e) => return Err(StoreError::io(&entry.path(), e)),
            };
            let info = infos.entry(number).or_insert(SegmentInfo { number, is_sealed, stored });
            if is_sealed {
                *info = SegmentInfo { number, is_sealed, stored };
            }
        }
        Ok(infos.into_values().collect())
    }

    pub(crate) fn blobs_path(&self) -> PathBuf {
        self.path.join("blobs")
    }

    pub(crate) fn segment_path(&self, number: u32) -> PathBuf {
        self.path.join(format!("{number:08}.log"))
    }
}

/// The number of a log file, and whether it is sealed.
fn segment_of(name: &str) -> Option<(u32, bool)> {
    let (digits, kind) = name.split_once('.')?;
    if digits.len() != 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let is_sealed = match kind {
        "log" => false,
        "log.zst" => true,
        _ => return None,
    };
    Some((digits.parse().ok()?, is_sealed))
}

/// Whether this may be a blob's file name: a SHA-256 in hex.
pub(crate) fn is_blob_name(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|b| b.is_ascii_hexdigit())
}

/// The process that makes or removes a session in a folder of this name.
pub(crate) fn maker_of_hidden(name: &str) -> Option<u32> {
    let rest = name.strip_prefix(HIDDEN).or_else(|| name.strip_prefix(REMOVED))?;
    let (_, pid) = rest.rsplit_once('-')?;
    pid.parse().ok()
}

/// The only session whose id begins with the given text, else the one most like it.
fn nearest(sessions: &Path, id: &SessionId) -> Option<SessionId> {
    let entries = fs::read_dir(sessions).ok()?.flatten().take(NAMES_MAX);
    let names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.'))
        .collect();
    let mut begun = names.iter().filter(|name| name.starts_with(id.as_str()));
    let found = match (begun.next(), begun.next()) {
        (Some(only), None) => Some(only.as_str()),
        (Some(_), Some(_)) => None,
        (None, _) => reins_kernel::nearest(id.as_str(), names.iter().map(String::as_str)),
    };
    found.map(SessionId::new)
}
