//! Finding the database file, and making it: built beside its place under another name, so that
//! there is never half a database, and nobody's file is written over.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::database::{Identity, configure};
use super::migrations::{self, APPLICATION_ID};
use crate::StoreError;
use crate::jsonl::{files, lease};

/// How often the place may change under us before that is told.
const ROUNDS: usize = 8;

/// The database file as it is now; `None` when there is none, or only an empty file.
pub(super) fn find(path: &Path) -> Result<Option<Identity>, StoreError> {
    for _ in 0..ROUNDS {
        match look(path)? {
            Some((identity, length)) if length > 0 => return Ok(Some(identity)),
            Some(_) | None => {}
        }
        let Some(left) = changes_beside(path) else { return Ok(None) };
        // Whoever made the database meanwhile has begun to use it.
        if look(path)?.is_none_or(|(_, length)| length == 0) {
            let problem = format!(
                "it is gone or empty, and its last changes still are in {}",
                left.display()
            );
            let advice = "put the database back beside them, or move that file away, too";
            return Err(StoreError::unreadable(path, problem, advice));
        }
    }
    Err(unsteady(path))
}

/// As [`find`]; makes the database when there is none.
pub(super) fn make(
    path: &Path,
    told: impl Fn(rusqlite::Error) -> StoreError,
) -> Result<Identity, StoreError> {
    for _ in 0..ROUNDS {
        if let Some(identity) = find(path)? {
            return Ok(identity);
        }
        let home = path.parent().unwrap_or(Path::new("/"));
        files::make_dirs(home)?;
        remove_leftovers(path, home);
        let temporary = temporary(path);
        let done = build(&temporary.0, &told).and_then(|()| publish(&temporary.0, path));
        drop(temporary);
        done?;
        files::sync_dir(home)?;
    }
    Err(unsteady(path))
}

fn look(path: &Path) -> Result<Option<(Identity, u64)>, StoreError> {
    match fs::metadata(path) {
        Ok(meta) => {
            files::require_file(path, &meta)?;
            Ok(Some((Identity::of(&meta), meta.len())))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            files::check_home(path.parent().unwrap_or(path))?;
            Err(StoreError::io(path, e))
        }
        Err(e) => Err(StoreError::io(path, e)),
    }
}

/// A file of changes that SQLite would apply to whatever database stands beside it.
fn changes_beside(path: &Path) -> Option<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ["-wal", "-journal"]
        .map(|end| path.with_file_name(format!("{name}{end}")))
        .into_iter()
        .find(|path| fs::metadata(path).is_ok_and(|meta| meta.len() > 0))
}

fn unsteady(path: &Path) -> StoreError {
    let problem = "other programs keep putting something else there";
    StoreError::unreadable(path, problem, "end them and try again")
}

/// A name that ends with this value.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Of a failed attempt; what cannot be removed now is removed by a later attempt.
        drop(fs::remove_file(&self.0));
    }
}

fn temporary(path: &Path) -> Temporary {
    let unique = UNIQUE.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("{}{}-{unique}{END}", begin(path), std::process::id());
    Temporary(path.with_file_name(name))
}

static UNIQUE: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

const END: &str = ".tmp";

fn begin(path: &Path) -> String {
    format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy())
}

fn build(path: &Path, told: &impl Fn(rusqlite::Error) -> StoreError) -> Result<(), StoreError> {
    let options = &mut files::private();
    let file = files::open(options.read(true).write(true).create_new(true), path)?;
    let fill = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        configure(&connection, Duration::ZERO)?;
        // Nobody sees it before it is complete and synced as a whole.
        connection.pragma_update(None, "synchronous", "OFF")?;
        connection.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        migrations::upgrade(&mut connection, migrations::STEPS)?;
        connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
        connection.close().map_err(|(_, e)| e)
    };
    fill().map_err(told)?;
    file.sync_all().map_err(|e| StoreError::io(path, e))
}

/// Gives the finished database its name, unless another one has it by now.
fn publish(temporary: &Path, path: &Path) -> Result<(), StoreError> {
    match fs::hard_link(temporary, path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => replace_empty(temporary, path),
        Err(e) => Err(StoreError::io(path, e)),
    }
}

/// An empty file may be replaced by one process only: the others would replace its database. The
/// lock is on the folder, since closing a handle of the database would release SQLite's locks.
fn replace_empty(temporary: &Path, path: &Path) -> Result<(), StoreError> {
    let home = path.parent().unwrap_or(Path::new("/"));
    let folder = File::open(home).map_err(|e| StoreError::io(home, e))?;
    match folder.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let problem = "another process is making the database";
            return Err(StoreError::unreadable(path, problem, "try again"));
        }
        Err(TryLockError::Error(e)) => return Err(StoreError::io(home, e)),
    }
    if look(path)?.is_some_and(|(_, length)| length == 0) {
        fs::rename(temporary, path).map_err(|e| StoreError::io(path, e))?;
    }
    Ok(())
}

/// Databases that killed processes did not finish, and what SQLite had beside them.
fn remove_leftovers(path: &Path, home: &Path) {
    let begin = begin(path);
    // Leftovers harm nobody, so what cannot be listed or removed stays.
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((pid, rest)) = name.strip_prefix(&begin).and_then(|rest| rest.split_once('-'))
        else {
            continue;
        };
        let is_dead = pid.parse().is_ok_and(|pid| !lease::is_alive(pid));
        if is_dead && rest.contains(END) {
            drop(fs::remove_file(entry.path()));
        }
    }
}
