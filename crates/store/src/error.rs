//! Everything that can go wrong, in words for the person who has to act.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_schema::{LineError, SessionId};

use crate::jsonl::lease;
use crate::{Damage, LeaseInfo};

/// Why the store did not do what was asked. Every message names the place and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No session of that id.
    #[error("no session `{id}` in {}{}", sessions.display(), suggestion(nearest.as_ref()))]
    NotFound {
        /// As asked.
        id: SessionId,
        /// Where it was looked for.
        sessions: PathBuf,
        /// The one session whose id is most like it.
        nearest: Option<SessionId>,
    },
    /// The text cannot be a session id, which is also a folder name.
    #[error("`{id}` is not a session id; ids consist of 1 to 128 letters, digits and hyphens")]
    InvalidId {
        /// As asked.
        id: String,
    },
    /// The header of a new session is not one that this version writes.
    #[error("a session with {problem} cannot be created")]
    InvalidHeader {
        /// Which field, and why.
        problem: String,
    },
    /// A new session's folder exists.
    #[error(
        "session `{id}` exists already in {}; open it, or create one with a new id",
        path.display()
    )]
    AlreadyExists {
        /// As asked.
        id: SessionId,
        /// The folder.
        path: PathBuf,
    },
    /// Another writer has the session.
    #[error(
        "session `{id}` is in use by {}; wait for it or end that process",
        user(holder.as_deref())
    )]
    Busy {
        /// The session.
        id: SessionId,
        /// The writer, as it wrote itself into the lease.
        holder: Option<Box<LeaseInfo>>,
    },
    /// Several sessions begin like this.
    #[error("`{begins}` is the beginning of several sessions: {}; give more of it", names(ids))]
    Ambiguous {
        /// As asked.
        begins: String,
        /// Some of them.
        ids: Vec<SessionId>,
    },
    /// The log has no such event.
    #[error("session `{id}` has no event {seq}; {}", last_event(*last))]
    NoEvent {
        /// The session.
        id: SessionId,
        /// As asked.
        seq: u64,
        /// The last event there is.
        last: Option<u64>,
    },
    /// A file that was to be made is there.
    #[error("{} is there already; choose another name, or allow it to be replaced", path.display())]
    FileExists {
        /// The file.
        path: PathBuf,
    },
    /// A file is no export of sessions, or a damaged one.
    #[error(
        "{} cannot be imported: {problem}{}",
        path.display(), published_before(published)
    )]
    NotImported {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// Its sessions that were taken over before.
        published: Vec<SessionId>,
    },
    /// A session that was to be imported is here, and not the same.
    #[error(
        "session `{id}` is here already with other content; import it with `--as-new` to have \
         both, or remove the one that is here"
    )]
    OtherContent {
        /// The session.
        id: SessionId,
    },
    /// A session can only be forked where nothing is owed.
    #[error(
        "event {seq} of session `{id}` is inside turn {turn}, and a fork begins between turns; {}",
        boundary(*before)
    )]
    InsideTurn {
        /// The session.
        id: SessionId,
        /// As asked.
        seq: u64,
        /// The open turn.
        turn: u64,
        /// The last event before it that is outside a turn.
        before: Option<u64>,
    },
    /// A session that is in the middle of a turn was to be changed.
    #[error(
        "session `{id}` was interrupted in a turn; run it once so that the turn ends, then try \
         again"
    )]
    TurnOpen {
        /// The session.
        id: SessionId,
    },
    /// The log has events that this version does not know and may not pass over.
    #[error(
        "session `{id}` can only be read: {reason}; upgrade Reins, or enable the row that wrote \
         them"
    )]
    OnlyReadable {
        /// The session.
        id: SessionId,
        /// What is not known.
        reason: String,
    },
    /// A folder or file is not what a session consists of.
    #[error("{}: {problem}. Nothing was changed; {advice}", path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
        /// What to do.
        advice: String,
    },
    /// The log is damaged before its end.
    #[error("{0}. Nothing was changed; opening the session mends it and keeps what was there")]
    Damaged(Damage),
    /// Written by a newer version.
    #[error(
        "{} has format {found}, newer than this version's {}; upgrade Reins to open it",
        path.display(), reins_schema::FORMAT
    )]
    NewerFormat {
        /// Its format number.
        found: u64,
        /// The header.
        path: PathBuf,
    },
    /// A database of a newer version.
    #[error(
        "{} is a database of version {found}, newer than this version's {known}; upgrade Reins \
         to open it",
        path.display()
    )]
    NewerDatabase {
        /// Its version.
        found: i32,
        /// The newest one that is known.
        known: i32,
        /// The file.
        path: PathBuf,
    },
    /// The home, or a folder above it, is a file.
    #[error(
        "{} is not a folder, so sessions cannot be kept below it; set REINS_HOME to another \
         place",
        path.display()
    )]
    HomeNotDirectory {
        /// What stands in the way.
        path: PathBuf,
    },
    /// The system makes no folder there: below `/proc`, or with too long a name.
    #[error(
        "the home cannot be made at {}: {source}; set REINS_HOME to a place where you can make \
         folders",
        path.display()
    )]
    HomeImpossible {
        /// The folder that was refused.
        path: PathBuf,
        /// The system's reason.
        source: Arc<io::Error>,
    },
    /// The home belongs to another user.
    #[error(
        "{} belongs to user {owner}, not to you; set REINS_HOME to a folder of your own",
        path.display()
    )]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// Numeric user id of its owner.
        owner: u32,
    },
    /// The system refuses access.
    #[error(
        "no permission for {}; change its owner or mode, or set REINS_HOME to another place",
        path.display()
    )]
    Permission {
        /// The file or folder.
        path: PathBuf,
    },
    /// The file system is mounted read-only.
    #[error(
        "{} is on a read-only file system; set REINS_HOME to a place that can be written",
        path.display()
    )]
    ReadOnly {
        /// The file or folder.
        path: PathBuf,
    },
    /// No space or quota left.
    #[error(
        "disk full: {} cannot grow; free some space and open the session again, what was on \
         disk before is intact",
        path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// Somebody else changed the log while it was open.
    #[error(
        "{} {change}: another program did that. Writing stopped; end that program, put the file \
         back if it is gone, and open the session again",
        path.display()
    )]
    Lost {
        /// The log file.
        path: PathBuf,
        /// What happened to it: `was removed`, `has 10 bytes instead of 20`, …
        change: String,
    },
    /// An append does not continue the log.
    #[error(
        "event {found} was appended where event {expected} was due; this is a defect of \
         Reins, please report it"
    )]
    OutOfOrder {
        /// The next number of the log.
        expected: u64,
        /// The event's number.
        found: u64,
    },
    /// The event has no line.
    #[error(
        "event {seq} ({kind}) cannot be written: {source}; make its content smaller or keep \
         it in a blob"
    )]
    Encode {
        /// The event.
        seq: u64,
        /// Its type.
        kind: String,
        /// Why.
        source: LineError,
    },
    /// A blob exceeds the configured size.
    #[error("a blob of {bytes} bytes is over the limit of {limit}; make it smaller")]
    BlobTooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A blob's content does not have its name as hash.
    #[error(
        "{} does not contain what its name says; remove the file, and what refers to it is \
         shown as missing",
        path.display()
    )]
    BlobDamaged {
        /// The file.
        path: PathBuf,
    },
    /// No blob of that name.
    #[error("session `{id}` has no blob `{name}`; its folder is not complete")]
    BlobNotFound {
        /// The session.
        id: SessionId,
        /// The name that was asked for.
        name: String,
    },
    /// The log was closed.
    #[error("the session's log is closed; open the session again")]
    Closed,
    /// A writer could not be started, or died.
    #[error("the log's writer is gone ({problem}); open the session again")]
    Writer {
        /// Why.
        problem: String,
    },
    /// Any other refusal of the system.
    #[error("{}: {source}; check the disk and the folder, then try again", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: Arc<io::Error>,
    },
    /// A write was refused, and so was taking its first half back.
    #[error(
        "{write}; and the half-written record could not be removed ({undo}), which the next \
         open does"
    )]
    NotUndone {
        /// The first error.
        write: Box<StoreError>,
        /// The second.
        undo: Arc<io::Error>,
    },
}

impl StoreError {
    /// Gives a system error its place and, where there is one, its own message.
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Permission { path },
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly { path },
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            io::ErrorKind::IsADirectory => {
                Self::unreadable(&path, "a folder stands where a file belongs", MOVE_AWAY)
            }
            io::ErrorKind::NotADirectory => {
                Self::unreadable(&path, "a file stands where a folder belongs", MOVE_AWAY)
            }
            _ => Self::Io { path, source: Arc::new(source) },
        }
    }

    /// The system found no such file.
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// The error of making a folder of the home.
    pub(crate) fn making_home(path: &Path, source: io::Error) -> Self {
        match Self::io(path, source) {
            Self::Io { path, source } => Self::HomeImpossible { path, source },
            told => told,
        }
    }

    pub(crate) fn unreadable(path: &Path, problem: impl Into<String>, advice: &str) -> Self {
        let path = path.to_path_buf();
        Self::Unreadable { path, problem: problem.into(), advice: advice.to_owned() }
    }
}

pub(crate) const MOVE_AWAY: &str = "move it away or restore it from a backup";

fn suggestion(nearest: Option<&SessionId>) -> String {
    match nearest {
        Some(id) => format!("; did you mean `{id}`?"),
        None => "; list the sessions to see their ids".to_owned(),
    }
}

fn user(holder: Option<&LeaseInfo>) -> String {
    // Nobody has number 0: the holder could not be read.
    let Some(holder) = holder.filter(|holder| holder.pid != 0) else {
        return "another process".to_owned();
    };
    let who = match holder.pid {
        pid if !lease::is_here(holder) => format!("pid {pid} on {}", holder.host),
        pid if pid == std::process::id() => format!("this process (pid {pid})"),
        pid => format!("pid {pid}"),
    };
    let mut facts = Vec::new();
    if !holder.doing.is_empty() {
        facts.push(holder.doing.clone());
    }
    if let Ok(start) = jiff::Timestamp::from_millisecond(holder.start) {
        let local = jiff::tz::TimeZone::system().to_datetime(start);
        facts.push(format!("since {:02}:{:02}", local.hour(), local.minute()));
    }
    if facts.is_empty() { who } else { format!("{who} ({})", facts.join(", ")) }
}

fn names(ids: &[SessionId]) -> String {
    ids.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
}

fn published_before(ids: &[SessionId]) -> String {
    match ids {
        [] => "; nothing was taken over".to_owned(),
        ids => format!("; taken over before that: {}", names(ids)),
    }
}

fn last_event(last: Option<u64>) -> String {
    match last {
        Some(last) => format!("its last one is {last}"),
        None => "it has none yet".to_owned(),
    }
}

fn boundary(before: Option<u64>) -> String {
    match before {
        Some(before) => format!("the nearest place before it is {before}"),
        None => "there is no such place before it".to_owned(),
    }
}
