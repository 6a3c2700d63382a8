//! The database file: finding, making, checking and upgrading it, and a few connections to it that
//! are handed round.
//!
//! The write-ahead log is synced with each commit (`synchronous=FULL`), so what a call reports as
//! done is durable, and a refused commit leaves nothing behind in this process. One commit a batch
//! of events costs one `fdatasync`, as a flush of a plain file does.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use super::making;
use super::migrations::{self, APPLICATION_ID};
use crate::StoreError;
use crate::error::MOVE_AWAY;

/// How many calls may be in the database at once; more of them wait for one to end.
const CONNECTIONS_MAX: usize = 8;

/// How many connections stay open while nothing happens.
const IDLE_MAX: usize = 3;

/// Statements that a connection remembers.
const STATEMENTS: usize = 48;

/// What the write-ahead log is cut down to after its content has gone into the database.
const WAL_BYTES: u64 = 16 << 20;

/// Where the rows are.
#[derive(Debug)]
pub(super) struct Database {
    place: Place,
    busy: Duration,
    pool: Mutex<Pool>,
    returned: Condvar,
    /// One transaction of this process at a time: a queue, where SQLite would sleep and try again.
    writing: Mutex<()>,
}

#[derive(Debug)]
enum Place {
    File(PathBuf),
    /// One connection, which is the database.
    Memory(PathBuf),
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<(Identity, Connection)>,
    lent: usize,
}

/// Tells a database file from another one that took its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

const IN_MEMORY: Identity = Identity { device: 0, inode: 0 };

/// Why work in the database ended early.
#[derive(Debug)]
pub(super) enum Trouble {
    Sql(rusqlite::Error),
    Told(StoreError),
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Told(error)
    }
}

impl Database {
    /// A file, which need not exist.
    pub(super) fn file(path: PathBuf, busy: Duration) -> Self {
        Self::at(Place::File(path), busy, Pool::default())
    }

    /// One that ends with this value.
    pub(super) fn memory() -> Result<Self, StoreError> {
        let path = PathBuf::from("memory");
        let open = || {
            let mut connection = Connection::open_in_memory()?;
            configure(&connection, Duration::ZERO)?;
            migrations::upgrade(&mut connection, migrations::STEPS)?;
            Ok(connection)
        };
        let connection = open().map_err(|e| store_error(&path, Duration::ZERO, &e))?;
        let pool = Pool { idle: vec![(IN_MEMORY, connection)], lent: 0 };
        Ok(Self::at(Place::Memory(path), Duration::ZERO, pool))
    }

    fn at(place: Place, busy: Duration, pool: Pool) -> Self {
        let pool = Mutex::new(pool);
        Self { place, busy, pool, returned: Condvar::new(), writing: Mutex::new(()) }
    }

    /// The file, or a word for memory.
    pub(super) fn path(&self) -> &Path {
        match &self.place {
            Place::File(path) | Place::Memory(path) => path,
        }
    }

    /// Makes the database with its folder where there is none.
    pub(super) fn make(&self) -> Result<Identity, StoreError> {
        match &self.place {
            Place::Memory(_) => Ok(IN_MEMORY),
            Place::File(path) => making::make(path, |e| store_error(path, self.busy, &e)),
        }
    }

    /// The database as it is now; `None` when there is none yet.
    pub(super) fn identity(&self) -> Result<Option<Identity>, StoreError> {
        match &self.place {
            Place::Memory(_) => Ok(Some(IN_MEMORY)),
            Place::File(path) => making::find(path),
        }
    }

    /// Reads; `None` when there is no database yet.
    pub(super) fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, Trouble>,
    ) -> Result<Option<T>, StoreError> {
        let Some(identity) = self.identity()? else { return Ok(None) };
        let lent = self.lend(identity)?;
        work(&lent).map(Some).map_err(|trouble| self.tell(trouble))
    }

    /// Writes all or nothing, durably, and into no database but this one.
    pub(super) fn write<T>(
        &self,
        expected: Identity,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        let change = match self.identity()? {
            Some(identity) if identity == expected => None,
            Some(_) => Some("was replaced"),
            None => Some("was removed"),
        };
        if let Some(change) = change {
            return Err(self.lost(change));
        }
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lent = self.lend(expected)?;
        let done = (|| {
            let transaction =
                lent.connection().transaction_with_behavior(TransactionBehavior::Immediate)?;
            // A newer program may have upgraded it since this connection was made.
            let found = migrations::user_version(&transaction)?;
            if found > migrations::newest() {
                return Err(newer(self.path(), found).into());
            }
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })();
        done.map_err(|trouble| self.tell(trouble))
    }

    /// Gives pages that nothing uses back to the file system, some of them at a time.
    pub(super) fn shrink(&self, pages: u32, rounds: u32) -> Result<(), StoreError> {
        for _ in 0..rounds {
            let work = |connection: &Connection| {
                let before: i64 =
                    connection.query_row("PRAGMA freelist_count", [], |r| r.get(0))?;
                // Each row is a page that was given back.
                let sql = format!("PRAGMA incremental_vacuum({pages})");
                let mut statement = connection.prepare(&sql)?;
                let mut rows = statement.query([])?;
                while rows.next()?.is_some() {}
                Ok(before > i64::from(pages))
            };
            let turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
            let more = self.read(work)?;
            drop(turn);
            if more != Some(true) {
                break;
            }
        }
        Ok(())
    }

    pub(super) fn lost(&self, change: impl Into<String>) -> StoreError {
        StoreError::Lost { path: self.path().to_path_buf(), change: change.into() }
    }

    pub(super) fn tell(&self, trouble: Trouble) -> StoreError {
        match trouble {
            Trouble::Sql(error) => store_error(self.path(), self.busy, &error),
            Trouble::Told(error) => error,
        }
    }

    fn lend(&self, wanted: Identity) -> Result<Lent<'_>, StoreError> {
        let limit = match self.place {
            Place::File(_) => CONNECTIONS_MAX,
            Place::Memory(_) => 1,
        };
        let mut pool = self.pool();
        while pool.lent >= limit {
            pool = self.returned.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
        pool.lent += 1;
        // Connections to a file that is not there any more are of no use to anybody.
        pool.idle.retain(|(identity, _)| *identity == wanted);
        let idle = pool.idle.pop();
        drop(pool);
        let mut lent = Lent { database: self, identity: wanted, connection: None };
        lent.connection = Some(match idle {
            Some((_, connection)) => connection,
            None => self.connect()?,
        });
        Ok(lent)
    }

    fn connect(&self) -> Result<Connection, StoreError> {
        let path = self.path();
        check_head(path, self.busy)?;
        let told = |e: rusqlite::Error| store_error(path, self.busy, &e);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags).map_err(told)?;
        configure(&connection, self.busy).map_err(told)?;
        let found = migrations::user_version(&connection).map_err(told)?;
        check_ours(path, owner(&connection).map_err(told)?, found)?;
        let set_up = (|| {
            if found < migrations::newest() {
                migrations::upgrade(&mut connection, migrations::STEPS)?;
            }
            let mode: String = connection.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
            if mode != "wal" {
                connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
            }
            connection.pragma_update(None, "synchronous", "FULL")
        })();
        set_up.map_err(told)?;
        Ok(connection)
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that goes back when this is dropped.
struct Lent<'a> {
    database: &'a Database,
    identity: Identity,
    connection: Option<Connection>,
}

impl Lent<'_> {
    fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().unwrap_or_else(|| unreachable!("held until it is dropped"))
    }
}

impl std::ops::Deref for Lent<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().unwrap_or_else(|| unreachable!("held until it is dropped"))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut pool = self.database.pool();
        pool.lent -= 1;
        // One whose transaction could not be ended is closed, which ends it.
        if let Some(connection) = self.connection.take().filter(Connection::is_autocommit)
            && pool.idle.len() < IDLE_MAX
        {
            pool.idle.push((self.identity, connection));
        }
        drop(pool);
        self.database.returned.notify_one();
    }
}

impl Identity {
    pub(super) fn of(meta: &fs::Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        Self { device: meta.dev(), inode: meta.ino() }
    }
}

/// What every connection is told.
pub(super) fn configure(connection: &Connection, busy: Duration) -> rusqlite::Result<()> {
    connection.busy_timeout(busy)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // Damage is told where it is met, not where it leads to.
    connection.pragma_update(None, "cell_size_check", true)?;
    let limit = format!("PRAGMA journal_size_limit = {WAL_BYTES}");
    connection.query_row(&limit, [], |_| Ok(()))
}

/// Refuses what is not ours before anything is written beside it or into it. SQLite itself looks,
/// and promises to write nothing: a file handle of our own would, when it is closed, release the
/// locks that other connections of this process have on the file.
fn check_head(path: &Path, busy: Duration) -> Result<(), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let look = || -> rusqlite::Result<_> {
        let connection = Connection::open_with_flags(immutable(path), flags)?;
        Ok((owner(&connection)?, migrations::user_version(&connection)?))
    };
    match look() {
        Ok((owner, version)) => check_ours(path, owner, version),
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Err(StoreError::unreadable(path, "this is no database", MOVE_AWAY))
        }
        // A process that died while it moved changes into the file leaves it looking like that:
        // what is missing is in the write-ahead log, which is not looked at here.
        Err(e) if is_damage(&e) => Ok(()),
        Err(e) => Err(store_error(path, busy, &e)),
    }
}

fn owner(connection: &Connection) -> rusqlite::Result<i32> {
    connection.query_row("PRAGMA application_id", [], |row| row.get(0))
}

fn check_ours(path: &Path, owner: i32, version: i32) -> Result<(), StoreError> {
    if owner != APPLICATION_ID {
        let problem = "this database is another program's";
        let advice = "keep sessions in another file: `file` of the row `store-sqlite`";
        return Err(StoreError::unreadable(path, problem, advice));
    }
    if version > migrations::newest() { Err(newer(path, version)) } else { Ok(()) }
}

/// The name of a file that SQLite only looks at.
fn immutable(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    let mut name = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                name.push(char::from(*byte));
            }
            // Writing into a string cannot fail.
            _ => drop(write!(name, "%{byte:02X}")),
        }
    }
    name.push_str("?immutable=1");
    name
}

fn newer(path: &Path, found: i32) -> StoreError {
    StoreError::NewerDatabase { found, known: migrations::newest(), path: path.to_path_buf() }
}

/// Whether SQLite found bytes that it did not write.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as E;
    match error {
        E::FromSqlConversionFailure(..)
        | E::IntegralValueOutOfRange(..)
        | E::Utf8Error(..)
        | E::InvalidColumnType(..) => true,
        _ => matches!(
            error.sqlite_error_code(),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
        ),
    }
}

fn store_error(path: &Path, busy: Duration, error: &rusqlite::Error) -> StoreError {
    if is_damage(error) {
        let problem = format!("the database is damaged ({error})");
        let advice = "other sessions may still be readable: save them with `reins session \
                      export`, then restore the file from a backup";
        return StoreError::unreadable(path, problem, advice);
    }
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => std::io::ErrorKind::StorageFull,
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            std::io::ErrorKind::PermissionDenied
        }
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed,
        ) => {
            let problem = format!(
                "another process has been writing into it for more than {} ms",
                busy.as_millis()
            );
            let advice = "wait for it, or raise `busy_ms` of the row `store-sqlite`";
            return StoreError::unreadable(path, problem, advice);
        }
        _ => std::io::ErrorKind::Other,
    };
    StoreError::io(path, std::io::Error::new(kind, error.to_string()))
}
