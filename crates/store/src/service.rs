//! The service that everything above uses, and what it hands out.

use std::fmt;
use std::path::PathBuf;

use futures_util::future::BoxFuture;
use reins_schema::{Event, Header, SessionId, SessionRecovered};
use reins_session::{Fold, KnownTypes};

use crate::{Log, StoreError};

/// Durable sessions. Called by the host, the agent and the command line; any number of calls may
/// run at once. Methods use the blocking pool of the tokio runtime that polls them.
pub trait Store: Send + Sync {
    /// Makes a session's folder and takes its lease. The folder appears complete or not at all.
    /// `known` are the event types that may be written beside the core's own.
    ///
    /// # Errors
    /// The id is taken or no id, the home cannot be used, the disk refuses.
    fn create(
        &self,
        header: Header,
        known: KnownTypes,
    ) -> BoxFuture<'_, Result<OpenSession, StoreError>>;

    /// Takes the lease, cuts a torn tail (its bytes are kept beside the log), folds all events.
    /// `seen` gets every event in order.
    ///
    /// # Errors
    /// Absent, in use, damaged before the end, written by a newer version, refused by the fold.
    fn open<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
        seen: &'a mut (dyn FnMut(&Event) + Send),
    ) -> BoxFuture<'a, Result<OpenSession, StoreError>>;

    /// Folds what can be read. Never writes, and works while another process writes.
    ///
    /// # Errors
    /// Absent, no header, written by a newer version. Damage in the log is not an error.
    fn inspect<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
        seen: &'a mut (dyn FnMut(&Event) + Send),
    ) -> BoxFuture<'a, Result<Inspected, StoreError>>;

    /// At most `limit` events on disk from number `from` on, and no more than about 8 MiB of them;
    /// empty at the end. Events that the writer still holds are not among them.
    ///
    /// # Errors
    /// Absent, or damaged at `from`.
    fn read<'a>(
        &'a self,
        id: &'a SessionId,
        from: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Event>, StoreError>>;

    /// All sessions, the last used first. A damaged one never hides another. Removes what creates
    /// left that were killed.
    ///
    /// # Errors
    /// The home cannot be read. A home that does not exist has no sessions.
    fn list(&self) -> BoxFuture<'_, Result<Listing, StoreError>>;

    /// Keeps bytes beside the session's log, durably, and returns their name: the SHA-256 in hex.
    ///
    /// # Errors
    /// No such session, too large, the disk refuses.
    fn put_blob<'a>(
        &'a self,
        id: &'a SessionId,
        bytes: Vec<u8>,
    ) -> BoxFuture<'a, Result<String, StoreError>>;

    /// The bytes of a blob, checked against its name.
    ///
    /// # Errors
    /// No such blob, or its content is damaged.
    fn get_blob<'a>(
        &'a self,
        id: &'a SessionId,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Vec<u8>, StoreError>>;
}

/// A session that this process writes.
#[derive(Debug)]
pub struct OpenSession {
    /// Its immutable facts.
    pub header: Header,
    /// The folded log.
    pub fold: Fold,
    /// The write end.
    pub log: Log,
    /// What was cut on open; the core logs it.
    pub recovered: Option<SessionRecovered>,
}

/// A session as it can be read now.
#[derive(Debug)]
pub struct Inspected {
    /// Its immutable facts.
    pub header: Header,
    /// The folded log, up to the damage if there is any.
    pub fold: Fold,
    /// Where reading had to stop. A tail that a live writer is just writing is no damage.
    pub damage: Option<Damage>,
    /// Who writes it now.
    pub lease: Option<LeaseInfo>,
}

/// A place in a log that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The log file.
    pub path: PathBuf,
    /// Bytes before the damaged line.
    pub offset: u64,
    /// 1-based line in the file, when reading began at its start.
    pub line: Option<u64>,
    /// What is wrong there.
    pub problem: String,
    /// Nothing valid follows: opening the session cuts it off and goes on.
    pub is_tail: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, ", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, "line {line}, ")?;
        }
        write!(f, "byte {}: {}", self.offset, self.problem)
    }
}

/// Who holds a session, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeaseInfo {
    /// The process.
    pub pid: u32,
    /// Its machine.
    pub host: String,
    /// When it took the lease, Unix milliseconds.
    pub start: i64,
    /// Where to attach to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
}

/// What [`Store::list`] found.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The last used first.
    pub sessions: Vec<SessionSummary>,
    /// What looks like a session and is none, with the reason.
    pub damaged: Vec<(PathBuf, String)>,
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its immutable facts.
    pub header: Header,
    /// Last change of the log, Unix milliseconds.
    pub modified: i64,
    /// Size of the log in bytes.
    pub bytes: u64,
    /// The first words of a person, when they are in the first 256 KiB; at most 400 bytes.
    pub first_prompt: Option<String>,
}

/// Refuses what cannot be the name of a session's folder.
///
/// # Errors
/// [`StoreError::InvalidId`].
pub fn check_id(id: &SessionId) -> Result<(), StoreError> {
    let text = id.as_str();
    let plain = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if plain && (1..=128).contains(&text.len()) {
        return Ok(());
    }
    Err(StoreError::InvalidId { id: text.chars().take(200).collect() })
}
