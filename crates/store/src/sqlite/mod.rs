//! Sessions as rows of one database file, or of none: in memory.

mod chunks;
mod database;
mod held;
mod leases;
mod making;
mod migrations;
mod plugin;
mod segment;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use reins_schema::SessionId;
use rusqlite::{Connection, OptionalExtension as _, Transaction};

pub(crate) use self::plugin::{STORE_MEMORY, STORE_SQLITE};

use self::chunks::Chunk;
use self::database::{Database, Trouble};
use self::held::SqliteHeld;
use self::leases::Leases;
use self::segment::SqliteSegment;
use crate::medium::{Held, Ids, Inherit, Look, Medium, NewSession, Segment, SegmentInfo, Stamp};
use crate::{LeaseInfo, StoreError, check_id};

/// How many ids are compared with one that is not there.
const NAMES_MAX: usize = 100_000;

/// A database of sessions.
#[derive(Debug)]
pub(crate) struct SqliteMedium {
    database: Arc<Database>,
    leases: Leases,
}

impl SqliteMedium {
    /// One in a file of a home; neither need exist. A write waits so long for other processes.
    pub(crate) fn in_file(home: &Path, file: &str, busy: Duration) -> Self {
        let database = Arc::new(Database::file(home.join(file), busy));
        Self { database, leases: Leases::Files(home.join("leases")) }
    }

    /// One that nothing is left of.
    ///
    /// # Errors
    /// No memory.
    pub(crate) fn in_memory() -> Result<Self, StoreError> {
        let leases = Leases::Memory(Arc::default());
        Ok(Self { database: Arc::new(Database::memory()?), leases })
    }

    /// Reads something of a session that must exist.
    fn of<T>(
        &self,
        id: &SessionId,
        work: impl FnOnce(&Connection) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        check_id(id)?;
        let found = self.database.read(|connection| {
            if exists(connection, id)? { work(connection).map(Some) } else { Ok(None) }
        })?;
        match found.flatten() {
            Some(found) => Ok(found),
            None => Err(self.not_found(id)),
        }
    }

    fn not_found(&self, id: &SessionId) -> StoreError {
        let sql = "SELECT id FROM sessions LIMIT ?1";
        let ids = self.database.read(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let ids = statement.query_map([whole(NAMES_MAX as u64)], |row| row.get(0))?;
            Ok(ids.collect::<Result<Vec<String>, _>>()?)
        });
        // Only a hint: what cannot be listed is told to who lists.
        let ids = ids.ok().flatten().unwrap_or_default();
        let mut begun = ids.iter().filter(|name| name.starts_with(id.as_str()));
        let nearest = match (begun.next(), begun.next()) {
            (Some(only), None) => Some(only.as_str()),
            (Some(_), Some(_)) => None,
            (None, _) => reins_kernel::nearest(id.as_str(), ids.iter().map(String::as_str)),
        };
        let sessions = self.database.path().to_path_buf();
        StoreError::NotFound { id: id.clone(), sessions, nearest: nearest.map(SessionId::new) }
    }

    fn place(&self, id: &SessionId, number: u32) -> PathBuf {
        self.database.path().join(format!("{id}/{number:08}"))
    }
}

impl Medium for SqliteMedium {
    fn create(&self, mut new: NewSession<'_>) -> Result<Box<dyn Held>, StoreError> {
        let id = new.id;
        check_id(id)?;
        let place = self.database.path();
        let sealed = std::mem::take(&mut new.sealed)
            .into_iter()
            .map(|(number, mut content)| Ok((number, chunks::compressed(&mut content)?)))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|e: std::io::Error| StoreError::io(place, e))?;
        let identity = self.database.make()?;
        // First, so that nothing is made beside a database that cannot be used.
        self.database.read(|_| Ok(()))?;
        let taken = match self.leases.take(id) {
            Ok(taken) => taken,
            Err(StoreError::Busy { .. }) if self.of(id, |_| Ok(())).is_ok() => {
                return Err(already_exists(id, place));
            }
            Err(error) => return Err(error),
        };
        let done =
            self.database.write(identity, |transaction| insert(transaction, &new, &sealed, place));
        if let Err(error) = done {
            taken.remove();
            return Err(error);
        }
        Ok(Box::new(SqliteHeld::new(Arc::clone(&self.database), identity, id.clone(), taken)))
    }

    fn take(&self, id: &SessionId) -> Result<Box<dyn Held>, StoreError> {
        let identity = self.database.identity()?;
        // First, so that no lease is made for what is not there.
        self.of(id, |_| Ok(()))?;
        let taken = self.leases.take(id)?;
        if let Err(error) = self.of(id, |_| Ok(())) {
            taken.remove();
            return Err(error);
        }
        let identity = identity.ok_or_else(|| self.not_found(id))?;
        Ok(Box::new(SqliteHeld::new(Arc::clone(&self.database), identity, id.clone(), taken)))
    }

    fn holder(&self, id: &SessionId) -> Option<LeaseInfo> {
        check_id(id).ok()?;
        self.leases.holder(id)
    }

    fn header(&self, id: &SessionId) -> Result<Option<Vec<u8>>, StoreError> {
        self.of(id, |connection| {
            let sql = "SELECT header FROM sessions WHERE id = ?1";
            Ok(connection.prepare_cached(sql)?.query_row([id.as_str()], |row| row.get(0))?)
        })
    }

    fn segments(&self, id: &SessionId) -> Result<Vec<SegmentInfo>, StoreError> {
        self.of(id, |connection| {
            let sql = "SELECT number, is_sealed, stored FROM session_segments \
                       JOIN segments ON id = segment WHERE session = ?1 ORDER BY number";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map([id.as_str()], |row| {
                let (number, is_sealed) = (row.get(0)?, row.get(1)?);
                Ok(SegmentInfo { number, is_sealed, stored: row.get::<_, i64>(2)?.cast_unsigned() })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn segment(&self, id: &SessionId, number: u32) -> Result<Box<dyn Segment>, StoreError> {
        let place = self.place(id, number);
        let found = self.of(id, |connection| Ok(segment_row(connection, id, number)?))?;
        match found {
            Some(SegmentRow { segment, length, .. }) => {
                let database = Arc::clone(&self.database);
                Ok(Box::new(SqliteSegment::new(database, segment, length, place)))
            }
            None => {
                let absent = std::io::Error::from(std::io::ErrorKind::NotFound);
                Err(StoreError::io(&place, absent))
            }
        }
    }

    fn snapshot(&self, id: &SessionId) -> Option<Vec<u8>> {
        let sql = "SELECT bytes FROM snapshots WHERE session = ?1";
        let found = self.of(id, |connection| {
            let mut statement = connection.prepare_cached(sql)?;
            Ok(statement.query_row([id.as_str()], |row| row.get(0)).optional()?)
        });
        // It is derived: one that cannot be read is as good as none.
        found.ok().flatten()
    }

    fn put_blob(&self, id: &SessionId, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let identity = self.database.identity()?.ok_or_else(|| self.not_found(id))?;
        let is_there = self.of(id, |connection| {
            let sql = "SELECT bytes = ?3 FROM session_blobs JOIN blobs USING (name) \
                       WHERE session = ?1 AND name = ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let same = statement.query_row((id.as_str(), name, bytes), |row| row.get(0));
            Ok(same.optional()?.unwrap_or(false))
        })?;
        if is_there {
            return Ok(());
        }
        let exists = self.database.write(identity, |transaction| {
            if !exists(transaction, id)? {
                return Ok(false);
            }
            // What has this name and another content is damaged, for whoever refers to it.
            let sql = "INSERT INTO blobs (name, bytes) VALUES (?1, ?2) \
                       ON CONFLICT (name) DO UPDATE SET bytes = ?2 WHERE bytes <> ?2";
            transaction.prepare_cached(sql)?.execute((name, bytes))?;
            let sql = "INSERT OR IGNORE INTO session_blobs (session, name) VALUES (?1, ?2)";
            transaction.prepare_cached(sql)?.execute((id.as_str(), name))?;
            Ok(true)
        })?;
        if exists { Ok(()) } else { Err(self.not_found(id)) }
    }

    fn blob(
        &self,
        id: &SessionId,
        name: &str,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let place = self.database.path().join(format!("{id}/blobs/{name}"));
        self.of(id, |connection| {
            let sql = "SELECT length(bytes), bytes FROM session_blobs JOIN blobs USING (name) \
                       WHERE session = ?1 AND name = ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query((id.as_str(), name))?;
            let Some(row) = rows.next()? else { return Ok(None) };
            let length = row.get::<_, i64>(0)?.cast_unsigned();
            if length > limit as u64 {
                let problem = format!("the blob has more than {limit} bytes");
                let advice = "raise `blob_bytes_max` of the store's row";
                return Err(StoreError::unreadable(&place, problem, advice).into());
            }
            Ok(Some(row.get(1)?))
        })
    }

    fn blobs(&self, id: &SessionId) -> Result<Vec<(String, u64)>, StoreError> {
        self.of(id, |connection| {
            let sql = "SELECT name, length(bytes) FROM session_blobs JOIN blobs USING (name) \
                       WHERE session = ?1 ORDER BY name";
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map([id.as_str()], |row| {
                Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }

    fn ids(&self) -> Result<Ids, StoreError> {
        let place = self.database.path();
        let found = self.database.read(|connection| {
            let mut found = Vec::new();
            let sql = "SELECT id FROM sessions ORDER BY id";
            let damage = list(connection, sql, None, &mut found)?;
            // From the other end, too: a damaged page hides no more than what is on it.
            if damage.is_some() {
                let sql = "SELECT id FROM sessions ORDER BY id DESC";
                let last = found.last().cloned();
                list(connection, sql, last.as_deref(), &mut found)?;
            }
            Ok((found, damage))
        })?;
        let mut ids = Ids::default();
        let (found, damage) = found.unwrap_or_default();
        for id in found {
            match check_id(&SessionId::new(&id)) {
                Ok(()) => ids.sessions.push(SessionId::new(id)),
                Err(error) => ids.strangers.push((place.to_path_buf(), error.to_string())),
            }
        }
        if let Some(error) = damage {
            let problem = format!("the list of sessions is damaged; some are missing ({error})");
            ids.strangers.push((place.to_path_buf(), problem));
        }
        Ok(ids)
    }

    fn stamp(&self, id: &SessionId, active: u32) -> Option<Stamp> {
        Some(self.looks(&[(id, active)]).pop()??.stamp)
    }

    fn looks(&self, at: &[(&SessionId, u32)]) -> Vec<Option<Look>> {
        let found = self.database.read(|connection| {
            let sql = "SELECT number, length, changed_ns, archived FROM session_segments \
                       JOIN segments ON segments.id = segment \
                       JOIN sessions ON sessions.id = session \
                       WHERE session = ?1 ORDER BY number DESC LIMIT 1";
            let mut statement = connection.prepare_cached(sql)?;
            let mut looks = Vec::with_capacity(at.len());
            for (id, active) in at {
                let look = statement.query_row([id.as_str()], |row| {
                    let bytes = row.get::<_, i64>(1)?.cast_unsigned();
                    let stamp = Stamp { bytes, changed_ns: row.get(2)? };
                    Ok((row.get::<_, u32>(0)?, Look { stamp, is_archived: row.get(3)? }))
                });
                let look = look.optional()?.filter(|(number, _)| number == active);
                looks.push(look.map(|(_, look)| look));
            }
            Ok(looks)
        });
        found.ok().flatten().unwrap_or_else(|| vec![None; at.len()])
    }

    fn is_archived(&self, id: &SessionId) -> bool {
        let sql = "SELECT archived FROM sessions WHERE id = ?1";
        let found = self.of(id, |connection| {
            Ok(connection.prepare_cached(sql)?.query_row([id.as_str()], |row| row.get(0))?)
        });
        found.unwrap_or(false)
    }

    fn path(&self, _id: &SessionId) -> PathBuf {
        self.database.path().to_path_buf()
    }
}

/// Adds ids up to the one that is known, or up to the damage that is returned.
fn list(
    connection: &Connection,
    sql: &str,
    until: Option<&str>,
    found: &mut Vec<String>,
) -> Result<Option<rusqlite::Error>, Trouble> {
    let mut statement = connection.prepare_cached(sql)?;
    for id in statement.query_map([], |row| row.get::<_, String>(0))? {
        match id {
            Ok(id) if Some(id.as_str()) == until => break,
            Ok(id) => found.push(id),
            Err(e) if database::is_damage(&e) => return Ok(Some(e)),
            Err(e) => return Err(e.into()),
        }
    }
    Ok(None)
}

fn exists(connection: &Connection, id: &SessionId) -> rusqlite::Result<bool> {
    let sql = "SELECT 1 FROM sessions WHERE id = ?1";
    connection.prepare_cached(sql)?.exists([id.as_str()])
}

/// The row of one of a session's segments.
#[derive(Clone, Copy, Debug)]
struct SegmentRow {
    segment: i64,
    length: u64,
    is_sealed: bool,
}

fn segment_row(
    connection: &Connection,
    id: &SessionId,
    number: u32,
) -> rusqlite::Result<Option<SegmentRow>> {
    let sql = "SELECT id, length, is_sealed FROM session_segments \
               JOIN segments ON id = segment WHERE session = ?1 AND number = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row((id.as_str(), number), |row| {
        let length = row.get::<_, i64>(1)?.cast_unsigned();
        Ok(SegmentRow { segment: row.get(0)?, length, is_sealed: row.get(2)? })
    });
    found.optional()
}

fn already_exists(id: &SessionId, path: &Path) -> StoreError {
    StoreError::AlreadyExists { id: id.clone(), path: path.to_path_buf() }
}

/// All rows of a new session.
fn insert(
    transaction: &Transaction<'_>,
    new: &NewSession<'_>,
    sealed: &[(u32, Vec<Chunk>)],
    place: &Path,
) -> Result<(), Trouble> {
    let id = new.id;
    if exists(transaction, id)? {
        return Err(already_exists(id, place).into());
    }
    let sql = "INSERT INTO sessions (id, header) VALUES (?1, ?2)";
    transaction.prepare_cached(sql)?.execute((id.as_str(), new.header))?;
    let mut next = 0;
    if let Some(inherit) = &new.inherit {
        take_over(transaction, id, inherit, place)?;
        next = inherit.segments.last().map_or(0, |last| last.saturating_add(1));
    }
    let now = now_ns();
    for (number, content) in sealed {
        let segment = chunks::new_segment(transaction, true, content, now)?;
        refer(transaction, id, *number, segment)?;
        next = next.max(number.saturating_add(1));
    }
    let active = chunks::new_segment(transaction, false, &chunks::lines(new.lines), now)?;
    refer(transaction, id, next, active)?;
    if let Some(snapshot) = new.snapshot {
        let sql = "INSERT INTO snapshots (session, bytes) VALUES (?1, ?2)";
        transaction.prepare_cached(sql)?.execute((id.as_str(), snapshot))?;
    }
    Ok(())
}

/// A fork's references to what its parent has.
fn take_over(
    transaction: &Transaction<'_>,
    id: &SessionId,
    inherit: &Inherit<'_>,
    place: &Path,
) -> Result<(), Trouble> {
    let Inherit { parent, segments, blobs } = inherit;
    for number in segments {
        match segment_row(transaction, parent, *number)? {
            Some(SegmentRow { segment, is_sealed: true, .. }) => {
                refer(transaction, id, *number, segment)?;
            }
            found => {
                let state = if found.is_some() { "is still written to" } else { "is gone" };
                let problem = format!("segment {number} of session `{parent}` {state}");
                return Err(StoreError::unreadable(place, problem, "try again").into());
            }
        }
    }
    let sql = "INSERT INTO session_blobs (session, name) SELECT ?1, name FROM session_blobs \
               WHERE session = ?2 AND name = ?3";
    let mut statement = transaction.prepare_cached(sql)?;
    for name in blobs {
        statement.execute((id.as_str(), parent.as_str(), name))?;
    }
    Ok(())
}

fn refer(
    transaction: &Transaction<'_>,
    id: &SessionId,
    number: u32,
    segment: i64,
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO session_segments (session, number, segment) VALUES (?1, ?2, ?3)";
    transaction.prepare_cached(sql)?.execute((id.as_str(), number, segment)).map(drop)
}

/// A number as SQLite has it; nothing here comes near the limit.
fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[expect(clippy::disallowed_methods, reason = "tells changes apart; the store is below `world`")]
fn now_ns() -> i64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
