//! The file that keeps the rows. Every trouble with it is logged and otherwise passed over.
//!
//! It is opened for each use: another process may have removed it, and made it anew, meanwhile.
//! Nothing is synced: after a power cut the checksums of the rows tell whether they are right.

use std::collections::HashMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use reins_schema::{FORMAT, SessionId};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior, params};

use super::row::{Columns, Entry, Row};

/// "ReiL" in ASCII.
const APPLICATION: i64 = 0x5265_694c;
/// The number of the table's shape. The session format is part of the version: what one version
/// cannot read another one can.
const SHAPE: i64 = 1;
const VERSION: i64 = SHAPE * 1000 + FORMAT as i64;
/// How long somebody else's use of the file is waited for before it is done without.
const BUSY_WAIT: Duration = Duration::from_millis(250);
/// Fewer reads for a whole table than with the default of 4 KiB.
const PAGE_BYTES: u32 = 16 << 10;

const CREATE: &str = "CREATE TABLE sessions (
    id TEXT PRIMARY KEY NOT NULL,
    active INTEGER NOT NULL,
    log_bytes INTEGER NOT NULL,
    changed_ns INTEGER NOT NULL,
    header_sum INTEGER,
    header TEXT,
    cwd TEXT,
    modified INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    events INTEGER NOT NULL,
    in_turn INTEGER NOT NULL,
    archived INTEGER NOT NULL,
    first_prompt TEXT,
    problem TEXT,
    sum INTEGER NOT NULL
) STRICT, WITHOUT ROWID";
const SELECT: &str = "SELECT id, active, log_bytes, changed_ns, header_sum, header, cwd, modified,
    bytes, events, in_turn, archived, first_prompt, problem, sum FROM sessions";
const UPSERT: &str = "INSERT OR REPLACE INTO sessions VALUES
    (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
const DELETE: &str = "DELETE FROM sessions WHERE id = ?1";

/// Why the file is of no use now.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    /// It is not there.
    #[error("it is not there")]
    Absent,
    /// Not what this version wrote: it is made anew.
    #[error("{0}")]
    Broken(String),
    /// In use, or the disk refuses: another time.
    #[error("{0}")]
    Unavailable(String),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        let text = error.to_string();
        match error.sqlite_error_code() {
            // A row, or the table, is not what this version writes.
            None | Some(ErrorCode::Unknown) => Self::Broken(text),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Broken(text),
            Some(ErrorCode::TypeMismatch | ErrorCode::ConstraintViolation) => Self::Broken(text),
            Some(_) => Self::Unavailable(text),
        }
    }
}

/// Where rows are kept.
#[derive(Debug)]
pub(super) enum Kept {
    File(PathBuf),
    /// `None` until the first row.
    Memory(Mutex<Option<Connection>>),
}

impl Kept {
    pub(super) fn new(file: Option<PathBuf>) -> Self {
        file.map_or_else(|| Self::Memory(Mutex::new(None)), Self::File)
    }

    /// All rows, or none when these cannot be had.
    pub(super) fn load(&self) -> HashMap<SessionId, Row> {
        let loaded = match self {
            Self::Memory(connection) => {
                let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                connection.as_ref().map_or_else(|| Ok(HashMap::new()), rows)
            }
            Self::File(path) => guarded(path, || rows(&open(path)?)),
        };
        loaded.unwrap_or_default()
    }

    /// Stores what was found, and forgets what is gone: all of it or nothing.
    pub(super) fn store(&self, entries: &[Entry], gone: &[SessionId]) {
        if entries.is_empty() && gone.is_empty() {
            return;
        }
        let stored = match self {
            Self::Memory(connection) => {
                let mut connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
                in_memory(&mut connection).and_then(|it| write(it, entries, gone))
            }
            Self::File(path) => guarded(path, || {
                let mut connection = match open(path) {
                    // There is nothing to forget in a file that is not there.
                    Err(Trouble::Absent) if entries.is_empty() => return Ok(()),
                    Err(Trouble::Absent) => make(path)?,
                    other => other?,
                };
                write(&mut connection, entries, gone)
            }),
        };
        if let Err(trouble) = stored {
            log::debug!("the list of sessions is not kept: {trouble}");
        }
    }
}

/// Uses the file; one that is broken is removed.
fn guarded<T>(path: &Path, work: impl FnOnce() -> Result<T, Trouble>) -> Result<T, Trouble> {
    let before = identity(path);
    let result = work();
    match &result {
        Err(Trouble::Broken(problem)) => {
            log::warn!("{}: {problem}; it is made anew", path.display());
            // Somebody else may have done it meanwhile.
            if before == identity(path)
                && let Err(error) = remove(path)
            {
                log::warn!("{} cannot be removed: {error}", path.display());
            }
        }
        Err(Trouble::Unavailable(problem)) => {
            log::debug!("{}: {problem}; done without", path.display());
        }
        Err(Trouble::Absent) | Ok(_) => {}
    }
    result
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|meta| (meta.dev(), meta.ino()))
}

/// A folder only when it is empty: what is in one is not ours.
fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_dir(path);
    }
    fs::remove_file(path)?;
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    match fs::remove_file(&journal) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Opens a file that is there and of this version.
fn open(path: &Path) -> Result<Connection, Trouble> {
    // SQLite would wait for ever for a FIFO, and says of everything else only that it cannot.
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => return Err(Trouble::Broken("it is not a file".to_owned())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Trouble::Absent),
        Err(error) => return Err(Trouble::Unavailable(error.to_string())),
    }
    // Not by opening: closing any handle of the file ends the locks of this process on it.
    match rustix::fs::access(path, rustix::fs::Access::READ_OK).map_err(io::Error::from) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(Trouble::Broken(error.to_string()));
        }
        Err(error) => return Err(Trouble::Unavailable(error.to_string())),
        Ok(()) => {}
    }
    let connection = connect(path, OpenFlags::empty())?;
    match versions(&connection)? {
        (APPLICATION, VERSION) => Ok(connection),
        // Made and not yet filled: another process is about to, or was killed there.
        (0, 0) if is_empty(&connection)? => Err(Trouble::Absent),
        (APPLICATION, version) => {
            Err(Trouble::Broken(format!("version {version} instead of {VERSION}")))
        }
        (application, _) => Err(Trouble::Broken(format!("made by application {application:#x}"))),
    }
}

fn connect(path: &Path, more: OpenFlags) -> Result<Connection, Trouble> {
    let flags = more | OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    Ok(connection)
}

fn versions(connection: &Connection) -> Result<(i64, i64), Trouble> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok((pragma("application_id")?, pragma("user_version")?))
}

fn is_empty(connection: &Connection) -> Result<bool, Trouble> {
    Ok(connection.query_row("SELECT count(*) = 0 FROM sqlite_schema", [], |row| row.get(0))?)
}

/// Makes the file, for its owner only, unless another process just did.
fn make(path: &Path) -> Result<Connection, Trouble> {
    let unavailable = |error: io::Error| Trouble::Unavailable(error.to_string());
    let mut connection = connect(path, OpenFlags::SQLITE_OPEN_CREATE)?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(unavailable)?;
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    set_up(&mut connection)?;
    Ok(connection)
}

fn in_memory(connection: &mut Option<Connection>) -> Result<&mut Connection, Trouble> {
    if connection.is_none() {
        let mut made = Connection::open_in_memory()?;
        set_up(&mut made)?;
        *connection = Some(made);
    }
    connection.as_mut().ok_or(Trouble::Absent)
}

fn set_up(connection: &mut Connection) -> Result<(), Trouble> {
    let making = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if versions(&making)? == (0, 0) {
        making.execute_batch(CREATE)?;
        making.pragma_update(None, "application_id", APPLICATION)?;
        making.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(making.commit()?)
}

fn rows(connection: &Connection) -> Result<HashMap<SessionId, Row>, Trouble> {
    let mut select = connection.prepare(SELECT)?;
    let mut selected = select.query([])?;
    let mut rows = HashMap::new();
    while let Some(row) = selected.next()? {
        let columns = Columns::read(row)?;
        rows.insert(SessionId::new(columns.id), columns.to_row());
    }
    Ok(rows)
}

fn write(
    connection: &mut Connection,
    entries: &[Entry],
    gone: &[SessionId],
) -> Result<(), Trouble> {
    let writing = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    {
        let mut upsert = writing.prepare(UPSERT)?;
        let mut delete = writing.prepare(DELETE)?;
        for entry in entries {
            let kept = entry.columns(|it| {
                upsert.execute(params![
                    it.id,
                    it.active,
                    it.log_bytes,
                    it.changed_ns,
                    it.header_sum,
                    it.header,
                    it.cwd,
                    it.modified,
                    it.bytes,
                    it.events,
                    it.in_turn,
                    it.archived,
                    it.first_prompt,
                    it.problem,
                    it.sum(),
                ])
            });
            match kept {
                Some(executed) => executed.map(drop)?,
                None => delete.execute([entry.id.as_str()]).map(drop)?,
            }
        }
        for id in gone {
            delete.execute([id.as_str()])?;
        }
    }
    Ok(writing.commit()?)
}
