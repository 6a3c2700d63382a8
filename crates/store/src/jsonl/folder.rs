//! A session's folder: its names, its header, its log files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use reins_schema::{FORMAT, Header, OLDEST_FORMAT, SessionId};

use super::{HIDDEN, files};
use crate::error::MOVE_AWAY;
use crate::{StoreError, check_id};

const HEADER_BYTES_MAX: u64 = 1 << 20;

/// How many ids are compared with one that is not there.
const NAMES_MAX: usize = 100_000;

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

    pub(crate) fn header_path(&self) -> PathBuf {
        self.path.join("header.json")
    }

    pub(crate) fn lease_path(&self) -> PathBuf {
        self.path.join("lease")
    }

    pub(crate) fn blobs_path(&self) -> PathBuf {
        self.path.join("blobs")
    }

    pub(crate) fn segment_path(&self, number: u32) -> PathBuf {
        self.path.join(format!("{number:08}.log"))
    }

    /// Reads and checks `header.json`.
    pub(crate) fn header(&self) -> Result<Header, StoreError> {
        let path = self.header_path();
        let Some(bytes) = files::read_whole(&path, HEADER_BYTES_MAX)? else {
            let problem = "the session's folder has no header.json";
            let advice = "restore the file from a backup, or move the folder away";
            return Err(StoreError::unreadable(&self.path, problem, advice));
        };
        let broken = |problem: String| StoreError::unreadable(&path, problem, MOVE_AWAY);
        let value: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|e| broken(format!("the header is not JSON ({e})")))?;
        // The number first: a newer version may have changed everything else.
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(found) if found > u64::from(FORMAT) => {
                return Err(StoreError::NewerFormat { found, path });
            }
            Some(found) if found >= u64::from(OLDEST_FORMAT) => {}
            Some(found) => return Err(broken(format!("format {found} never existed"))),
            None => return Err(broken("the header has no format number".to_owned())),
        }
        let header: Header = serde_json::from_value(value)
            .map_err(|e| broken(format!("the header has another shape ({e})")))?;
        if header.id != self.id {
            let problem = format!("the header is that of session `{}`", header.id);
            let advice = "rename the folder to that id";
            return Err(StoreError::unreadable(&path, problem, advice));
        }
        Ok(header)
    }

    /// The log files in order, without a gap in their numbers. Empty right after a crash in create.
    pub(crate) fn segments(&self) -> Result<Vec<PathBuf>, StoreError> {
        let mut numbers = Vec::new();
        let entries = fs::read_dir(&self.path).map_err(|e| StoreError::io(&self.path, e))?;
        for entry in entries {
            let name = entry.map_err(|e| StoreError::io(&self.path, e))?.file_name();
            let name = name.to_string_lossy();
            let Some((digits, kind)) = name.split_once('.') else { continue };
            if digits.len() != 8 || !digits.bytes().all(|b| b.is_ascii_digit()) {
                continue;
            }
            match kind {
                "log" => numbers.push(digits.parse::<u32>().unwrap_or(u32::MAX)),
                "log.zst" => {
                    let problem = format!("{name} is a sealed log, which this version cannot read");
                    return Err(StoreError::unreadable(&self.path, problem, "upgrade Reins"));
                }
                _ => {}
            }
        }
        numbers.sort_unstable();
        for (at, number) in numbers.iter().enumerate() {
            if usize::try_from(*number) != Ok(at) {
                let problem = format!("the log file {at:08}.log is missing");
                let advice = "restore it from a backup";
                return Err(StoreError::unreadable(&self.path, problem, advice));
            }
        }
        Ok(numbers.into_iter().map(|number| self.segment_path(number)).collect())
    }
}

/// What a header must be for this version to write it.
pub(crate) fn check_new(header: &Header) -> Result<(), StoreError> {
    check_id(&header.id)?;
    let invalid = |problem: String| Err(StoreError::InvalidHeader { problem });
    if header.format != FORMAT {
        return invalid(format!("format {} instead of {FORMAT}", header.format));
    }
    if header.created_at < 0 {
        return invalid(format!("the creation time {}", header.created_at));
    }
    Ok(())
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
