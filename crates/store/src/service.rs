//! The service that everything above uses, and what it hands out.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reins_schema::{Event, Header, SessionId, SessionRecovered};
use reins_session::{Fold, KnownTypes};

pub use crate::sessions::Prepared;
use crate::{Log, StoreError};

/// Durable sessions. Called by the host, the agent and the command line; any number of calls may
/// run at once. Methods use the blocking pool of the tokio runtime that polls them.
pub trait Store: Send + Sync {
    /// Makes a session and takes its lease. It appears complete or not at all. `known` are the
    /// event types that may be written beside the core's own.
    ///
    /// # Errors
    /// The id is taken or no id, the home cannot be used, the disk refuses.
    fn create(
        &self,
        header: Header,
        known: KnownTypes,
    ) -> BoxFuture<'_, Result<OpenSession, StoreError>>;

    /// Takes the lease and folds the log: the snapshot, when there is one, and what follows it.
    /// Writes nothing; the session can be looked at, then published or released.
    ///
    /// # Errors
    /// Absent, in use, written by a newer version, unreadable.
    fn prepare<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
    ) -> BoxFuture<'a, Result<Prepared, StoreError>>;

    /// [`Store::prepare`], then [`Prepared::publish`].
    ///
    /// # Errors
    /// Those of both.
    fn open<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
    ) -> BoxFuture<'a, Result<OpenSession, StoreError>> {
        Box::pin(async move { self.prepare(id, known).await?.publish().await })
    }

    /// Folds what can be read. Never writes, and works while another process writes.
    ///
    /// # Errors
    /// Absent, written by a newer version, unreadable. Damage in the log is not an error.
    fn inspect<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
    ) -> BoxFuture<'a, Result<Inspected, StoreError>>;

    /// At most `limit` events on disk from number `from` on, and no more than about 8 MiB of them;
    /// empty at the end. Lost numbers are passed over. Events that the writer still holds are not
    /// among them.
    ///
    /// # Errors
    /// Absent or unreadable.
    fn read<'a>(
        &'a self,
        id: &'a SessionId,
        from: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Event>, StoreError>>;

    /// Sessions, the last used first. A damaged one never hides another. Removes what creates left
    /// that were killed.
    ///
    /// # Errors
    /// The home cannot be read. A home that does not exist has no sessions.
    fn list(&self, wanted: ListFilter) -> BoxFuture<'_, Result<Listing, StoreError>>;

    /// The id that begins like this, when it is the only one. A whole id is always found.
    ///
    /// # Errors
    /// None, with the nearest one; several, with some of them.
    fn find<'a>(&'a self, begins: &'a str) -> BoxFuture<'a, Result<SessionId, StoreError>>;

    /// Makes a child that has the parent's events up to `at`, which is included; `None` is the
    /// last one outside an open turn. The parent may be in use or damaged. Returns the child's
    /// header.
    ///
    /// # Errors
    /// Absent; no such event; inside a turn, with the nearest boundary before.
    fn fork<'a>(
        &'a self,
        parent: &'a SessionId,
        at: Option<u64>,
    ) -> BoxFuture<'a, Result<Header, StoreError>>;

    /// Reads and checks everything of a session. Never writes.
    ///
    /// # Errors
    /// Absent, written by a newer version, unreadable. Damage is not an error.
    fn verify<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
        progress: Progress,
    ) -> BoxFuture<'a, Result<Verified, StoreError>>;

    /// Does durably what opening would, over the whole log; `dry_run` only says it.
    ///
    /// # Errors
    /// Absent, in use, written by a newer version, unreadable; the disk refuses.
    fn repair<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
        dry_run: bool,
        progress: Progress,
    ) -> BoxFuture<'a, Result<Repaired, StoreError>>;

    /// The session belongs to another directory from now on: appends `session/moved`.
    ///
    /// # Errors
    /// As [`Store::open`]; in the middle of a turn.
    fn move_to<'a>(
        &'a self,
        id: &'a SessionId,
        dir: &'a Path,
        known: KnownTypes,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Removes a session that nobody uses. Its forks lose nothing.
    ///
    /// # Errors
    /// Absent, in use; the disk refuses.
    fn remove<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Hides a session from the plain list and compresses all of its log; or takes the first back.
    ///
    /// # Errors
    /// Absent, in use; the disk refuses.
    fn archive<'a>(
        &'a self,
        id: &'a SessionId,
        archived: bool,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Writes a zip file of the decoded log, those of the descendants, the blobs, and pages.
    ///
    /// # Errors
    /// Absent; the file exists or cannot be written.
    fn export<'a>(
        &'a self,
        order: ExportOrder,
        progress: Progress,
    ) -> BoxFuture<'a, Result<Exported, StoreError>>;

    /// Takes over what an export wrote.
    ///
    /// # Errors
    /// No export, or a damaged one; a session of it is there with other content.
    fn import<'a>(
        &'a self,
        order: ImportOrder,
        progress: Progress,
    ) -> BoxFuture<'a, Result<Imported, StoreError>>;

    /// Where a session is, for people.
    ///
    /// # Errors
    /// Absent.
    fn path<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<PathBuf, StoreError>>;

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

    /// Names and sizes of a session's blobs.
    ///
    /// # Errors
    /// No such session; unreadable.
    fn blobs<'a>(
        &'a self,
        id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Vec<(String, u64)>, StoreError>>;
}

/// Hears how much of a long piece of work is done: bytes so far, bytes in all.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// A session that this process writes.
#[derive(Debug)]
pub struct OpenSession {
    /// Its immutable facts.
    pub header: Header,
    /// The folded log.
    pub fold: Fold,
    /// The write end.
    pub log: Log,
    /// What was damaged and what was done about it; the core logs it.
    pub recovered: Vec<SessionRecovered>,
}

/// A session as it can be read now.
#[derive(Debug)]
pub struct Inspected {
    /// Its immutable facts.
    pub header: Header,
    /// The folded log: everything that is verified.
    pub fold: Fold,
    /// What cannot be read. A line that a live writer is just writing is no damage. What is before
    /// the snapshot is not looked at.
    pub damage: Vec<Damage>,
    /// Who writes it now.
    pub lease: Option<LeaseInfo>,
}

/// A place in a session that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, or the database with the name in it.
    pub path: PathBuf,
    /// Bytes before the damaged ones.
    pub offset: u64,
    /// How many bytes are damaged.
    pub bytes: u64,
    /// 1-based line in the file, when reading began at its start.
    pub line: Option<u64>,
    /// What is wrong there.
    pub problem: String,
    /// What it means for the session.
    pub kind: DamageKind,
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

/// What a [`Damage`] means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// Nothing valid follows: opening cuts it off and keeps it.
    Torn,
    /// These events are lost.
    Hole {
        /// The first one.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// What stands between two records is none, and no number is missing.
    Stray,
    /// The same numbers stand there twice; these are another branch.
    Branch {
        /// Its first own event.
        first: u64,
        /// Its last one.
        last: u64,
    },
    /// The same record stands there again; nothing is lost.
    Repeated {
        /// Its number.
        seq: u64,
    },
    /// The record is right and does not fit what precedes it; it is set aside.
    Refused {
        /// Its number.
        seq: u64,
    },
    /// The header is missing or damaged; it was made up from what is known.
    Header,
    /// A blob is gone, or is not what its name says.
    Blob,
}

/// Who holds a session, in its own words.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeaseInfo {
    /// The process; 0 when it holds the session and cannot be known.
    pub pid: u32,
    /// Its machine.
    pub host: String,
    /// When it took the lease, Unix milliseconds.
    pub start: i64,
    /// Where to attach to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub socket: Option<PathBuf>,
    /// Which boot of the machine it runs in; empty when unknown.
    #[serde(default)]
    pub boot: String,
    /// What it does, as a person would call it: `reins run`.
    #[serde(default)]
    pub doing: String,
}

/// Which sessions a list is to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListFilter {
    /// Only those of this directory.
    pub cwd: Option<PathBuf>,
    /// Archived ones too.
    pub archived: bool,
    /// No more than so many.
    pub limit: Option<usize>,
    /// Only those that were changed before this time, Unix milliseconds.
    pub older_than: Option<i64>,
}

/// What [`Store::list`] found.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The last used first.
    pub sessions: Vec<SessionSummary>,
    /// What looks like a session and is none, with the reason.
    pub damaged: Vec<(PathBuf, String)>,
    /// How many there would be without the limit.
    pub total: usize,
}

/// One line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionSummary {
    /// Its immutable facts.
    pub header: Header,
    /// The directory it belongs to now.
    pub cwd: PathBuf,
    /// Last change of the log, Unix milliseconds.
    pub modified: i64,
    /// Size of the log as it is stored, in bytes.
    pub bytes: u64,
    /// How many events it has.
    pub events: u64,
    /// Whether somebody works in it.
    pub state: SessionState,
    /// It is hidden from the plain list.
    pub archived: bool,
    /// The first words of a person, when they are in the first 256 KiB; at most 400 bytes.
    pub first_prompt: Option<String>,
    /// What is damaged, when it can be read in spite of that.
    pub problem: Option<String>,
}

/// Whether somebody works in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Nobody, and nothing is owed.
    Idle,
    /// Nobody, in the middle of a turn: it was interrupted.
    InTurn,
    /// This process.
    Live(LeaseInfo),
}

/// What [`Store::verify`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Events that are right.
    pub events: u64,
    /// Bytes of plain log that were read.
    pub bytes: u64,
    /// How many segments the log has.
    pub segments: u32,
    /// Blobs that were checked.
    pub blobs: u64,
    /// What is wrong.
    pub damage: Vec<Damage>,
    /// Why this version may not write it.
    pub read_only: Option<String>,
}

/// What [`Store::repair`] did, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    /// One for each finding.
    pub done: Vec<SessionRecovered>,
    /// Nothing was changed.
    pub dry_run: bool,
}

/// What [`Store::export`] is to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportOrder {
    /// The session; those that it delegated to come along, and theirs.
    pub id: SessionId,
    /// The file.
    pub to: PathBuf,
    /// A file that is there may be replaced.
    pub replace: bool,
    /// The sessions that were forked from it come along, too, and theirs.
    pub forks: bool,
    /// For each session a page for people, in Markdown.
    pub pages: Vec<(SessionId, String)>,
}

/// What [`Store::export`] wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The sessions in it.
    pub sessions: Vec<SessionId>,
    /// Size of the file.
    pub bytes: u64,
}

/// What [`Store::import`] is to take over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOrder {
    /// What an export wrote.
    pub file: PathBuf,
    /// The sessions get new ids, so that they can be here twice.
    pub as_new: bool,
}

/// What [`Store::import`] took over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// Sessions that are new here.
    pub sessions: Vec<SessionId>,
    /// Sessions that were here already, the same.
    pub already: Vec<SessionId>,
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
