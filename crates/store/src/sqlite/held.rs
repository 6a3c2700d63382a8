//! Changing a session whose lease is held.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use reins_schema::SessionId;
use rusqlite::{OptionalExtension as _, Transaction};

use super::chunks::{self, Chunk};
use super::database::{Database, Identity, Trouble, is_damage};
use super::leases::Taken;
use super::segment::{SqliteSegment, unreadable};
use super::{SegmentRow, exists, now_ns, refer, segment_row, whole};
use crate::StoreError;
use crate::medium::{Active, Held, Sealer};

/// Pages that a removal gives back at once, and how often.
const SHRINK_PAGES: u32 = 2_000;
const SHRINK_ROUNDS: u32 = 50;

/// How many things may be kept under one name, told apart by numbers.
const NAMES_MAX: u32 = 1_000;

/// A session and its lease.
#[derive(Debug)]
pub(super) struct SqliteHeld {
    session: Session,
    taken: Taken,
}

/// The session in the database in which it was found.
#[derive(Clone, Debug)]
struct Session {
    database: Arc<Database>,
    identity: Identity,
    id: SessionId,
}

impl SqliteHeld {
    pub(super) fn new(
        database: Arc<Database>,
        identity: Identity,
        id: SessionId,
        taken: Taken,
    ) -> Self {
        Self { session: Session { database, identity, id }, taken }
    }
}

impl Session {
    /// Changes the session, which must still be there.
    fn change<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, Trouble>,
    ) -> Result<T, StoreError> {
        self.database.write(self.identity, |transaction| {
            if !exists(transaction, &self.id)? {
                return Err(self.lost("was removed").into());
            }
            work(transaction)
        })
    }

    fn find(&self, number: u32) -> Result<SegmentRow, StoreError> {
        let found = self
            .database
            .read(|connection| Ok(segment_row(connection, &self.id, number)?))?
            .flatten();
        found.ok_or_else(|| self.gone(number))
    }

    /// As [`Session::find`], in the transaction that changes it.
    fn find_in(&self, transaction: &Transaction<'_>, number: u32) -> Result<SegmentRow, Trouble> {
        Ok(segment_row(transaction, &self.id, number)?.ok_or_else(|| self.gone(number))?)
    }

    fn lost(&self, change: &str) -> StoreError {
        self.database.lost(format!("has changed: session `{}` {change}", self.id))
    }

    fn gone(&self, number: u32) -> StoreError {
        self.lost(&format!("has no segment {number} any more"))
    }

    fn reader(&self, number: u32, row: SegmentRow) -> SqliteSegment {
        let place = self.database.path().join(format!("{}/{number:08}", self.id));
        SqliteSegment::new(Arc::clone(&self.database), row.segment, row.length, place)
    }

    /// Content as rows, read before anything is changed.
    fn compressed(&self, content: &mut dyn Read) -> Result<Vec<Chunk>, StoreError> {
        chunks::compressed(content).map_err(|e| unreadable(self.database.path(), e))
    }

    fn active(&self, number: u32, row: SegmentRow) -> Box<dyn Active> {
        let SegmentRow { segment, length, .. } = row;
        Box::new(SqliteActive { session: self.clone(), number, segment, length })
    }
}

impl Held for SqliteHeld {
    fn id(&self) -> &SessionId {
        &self.session.id
    }

    fn put_header(&mut self, header: &[u8], kept: &str) -> Result<String, StoreError> {
        let Session { id, .. } = &self.session;
        self.session.change(|transaction| {
            let sql = "SELECT header FROM sessions WHERE id = ?1";
            let old: Option<Vec<u8>> =
                transaction.prepare_cached(sql)?.query_row([id.as_str()], |row| row.get(0))?;
            let mut name = kept.to_owned();
            if let Some(old) = old {
                let old = chunks::new_segment(transaction, true, &chunks::lines(&old), now_ns())?;
                name = keep(transaction, id, kept, old)?;
            }
            let sql = "UPDATE sessions SET header = ?2 WHERE id = ?1";
            transaction.prepare_cached(sql)?.execute((id.as_str(), header))?;
            touch(transaction, id)?;
            Ok(name)
        })
    }

    fn active(&mut self, number: u32, length: u64) -> Result<Box<dyn Active>, StoreError> {
        let row = self.session.find(number)?;
        match row {
            SegmentRow { is_sealed: true, .. } => {
                Err(self.session.lost(&format!("has a sealed segment {number}")))
            }
            SegmentRow { length: found, .. } if found != length => {
                let change = format!("has {found} bytes instead of {length} in segment {number}");
                Err(self.session.lost(&change))
            }
            _ => Ok(self.session.active(number, row)),
        }
    }

    fn begin_segment(&mut self, number: u32) -> Result<Box<dyn Active>, StoreError> {
        let session = &self.session;
        let segment = session.change(|transaction| {
            if segment_row(transaction, &session.id, number)?.is_some() {
                return Err(session.lost(&format!("has a segment {number} already")).into());
            }
            let segment = chunks::new_segment(transaction, false, &[], now_ns())?;
            refer(transaction, &session.id, number, segment)?;
            Ok(segment)
        })?;
        Ok(session.active(number, SegmentRow { segment, length: 0, is_sealed: false }))
    }

    fn cut(&mut self, number: u32, length: u64, kept: &str) -> Result<String, StoreError> {
        let session = &self.session;
        let row = session.find(number)?;
        let rest = session.compressed(&mut session.reader(number, row).from(length));
        let Ok(rest) = rest else {
            // What cannot be read cannot be copied: the good part is, and the whole is kept.
            let good = session.reader(number, SegmentRow { length, ..row });
            return self.replace(number, &mut good.from(0), kept);
        };
        session.change(|transaction| {
            let now = session.find_in(transaction, number)?;
            if now.is_sealed || now.length != row.length || now.segment != row.segment {
                return Err(session.lost(&format!("has another segment {number}")).into());
            }
            let rest = chunks::new_segment(transaction, true, &rest, now_ns())?;
            let name = keep(transaction, &session.id, kept, rest)?;
            chunks::cut(transaction, row.segment, length, now_ns())?;
            Ok(name)
        })
    }

    fn replace(
        &mut self,
        number: u32,
        content: &mut dyn Read,
        kept: &str,
    ) -> Result<String, StoreError> {
        let session = &self.session;
        let content = session.compressed(content)?;
        session.change(|transaction| {
            let row = session.find_in(transaction, number)?;
            // The rows that were there stay as they are, also for those who share them.
            let name = keep(transaction, &session.id, kept, row.segment)?;
            let new = chunks::new_segment(transaction, row.is_sealed, &content, now_ns())?;
            let sql = "UPDATE session_segments SET segment = ?3 WHERE session = ?1 AND number = ?2";
            transaction.prepare_cached(sql)?.execute((session.id.as_str(), number, new))?;
            drop_unused(transaction, row.segment)?;
            Ok(name)
        })
    }

    fn keep(&mut self, name: &str, content: &mut dyn Read) -> Result<String, StoreError> {
        let session = &self.session;
        let content = session.compressed(content)?;
        session.change(|transaction| {
            let segment = chunks::new_segment(transaction, true, &content, now_ns())?;
            keep(transaction, &session.id, name, segment)
        })
    }

    fn sealer(&self) -> Box<dyn Sealer> {
        Box::new(SqliteSealer { session: self.session.clone() })
    }

    fn put_snapshot(&mut self, snapshot: &[u8]) -> Result<(), StoreError> {
        let id = self.session.id.as_str();
        self.session.change(|transaction| {
            let sql = "INSERT OR REPLACE INTO snapshots (session, bytes) VALUES (?1, ?2)";
            transaction.prepare_cached(sql)?.execute((id, snapshot))?;
            Ok(())
        })
    }

    fn drop_snapshot(&mut self) -> Result<(), StoreError> {
        let id = self.session.id.as_str();
        self.session.change(|transaction| {
            let sql = "DELETE FROM snapshots WHERE session = ?1";
            transaction.prepare_cached(sql)?.execute([id])?;
            Ok(())
        })
    }

    fn announce(&mut self, doing: &str) {
        self.taken.announce(doing);
    }

    fn set_archived(&mut self, archived: bool) -> Result<(), StoreError> {
        let id = &self.session.id;
        self.session.change(|transaction| {
            let sql = "UPDATE sessions SET archived = ?2 WHERE id = ?1";
            transaction.prepare_cached(sql)?.execute((id.as_str(), archived))?;
            touch(transaction, id)
        })
    }

    fn remove(self: Box<Self>) -> Result<(), StoreError> {
        let Self { session, taken } = *self;
        session.change(|transaction| remove(transaction, &session.id))?;
        taken.remove();
        // The session is gone; space that is not given back now is used again, or given back later.
        if let Err(error) = session.database.shrink(SHRINK_PAGES, SHRINK_ROUNDS) {
            log::warn!("space of a removed session stays in the database: {error}");
        }
        Ok(())
    }
}

/// The rows of a session, and those that nobody else refers to.
fn remove(transaction: &Transaction<'_>, id: &SessionId) -> Result<(), Trouble> {
    let list = |sql: &str| -> rusqlite::Result<Vec<i64>> {
        let mut statement = transaction.prepare_cached(sql)?;
        statement.query_map([id.as_str()], |row| row.get(0))?.collect()
    };
    let segments = list(
        "SELECT segment FROM session_segments WHERE session = ?1 \
         UNION SELECT segment FROM kept WHERE session = ?1",
    )?;
    let blobs =
        list("SELECT blobs.rowid FROM session_blobs JOIN blobs USING (name) WHERE session = ?1")?;
    let sql = "DELETE FROM sessions WHERE id = ?1";
    transaction.prepare_cached(sql)?.execute([id.as_str()])?;
    for segment in segments {
        drop_unused(transaction, segment)?;
    }
    let unused = "DELETE FROM blobs WHERE rowid = ?1 \
        AND NOT EXISTS (SELECT 1 FROM session_blobs WHERE session_blobs.name = blobs.name)";
    for blob in blobs {
        transaction.prepare_cached(unused)?.execute([blob])?;
    }
    Ok(())
}

/// Keeps a segment for people under a name, and returns the name that it has: one with a number,
/// when the name is taken by another content.
fn keep(
    transaction: &Transaction<'_>,
    id: &SessionId,
    name: &str,
    segment: i64,
) -> Result<String, Trouble> {
    let taken = "SELECT segment FROM kept WHERE session = ?1 AND name = ?2";
    let mut taken = transaction.prepare_cached(taken)?;
    for number in 1..=NAMES_MAX {
        let name = match number {
            1 => name.to_owned(),
            _ => format!("{name}-{number}"),
        };
        match taken.query_row((id.as_str(), &name), |row| row.get(0)).optional()? {
            None => {
                let sql = "INSERT INTO kept (session, name, segment) VALUES (?1, ?2, ?3)";
                transaction.prepare_cached(sql)?.execute((id.as_str(), &name, segment))?;
                return Ok(name);
            }
            Some(kept) if is_same(transaction, kept, segment)? => {
                drop_unused(transaction, segment)?;
                return Ok(name);
            }
            Some(_) => {}
        }
    }
    let problem = format!("session `{id}` has {NAMES_MAX} things named `{name}` already");
    Err(StoreError::unreadable(Path::new(name), problem, "export it and look at them").into())
}

fn is_same(transaction: &Transaction<'_>, one: i64, other: i64) -> Result<bool, Trouble> {
    match chunks::are_same(transaction, one, other) {
        Ok(same) => Ok(same),
        // What cannot be read is kept beside, never taken for the same.
        Err(e) if is_damage(&e) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

/// Removes a segment that nobody refers to.
fn drop_unused(transaction: &Transaction<'_>, segment: i64) -> Result<(), Trouble> {
    let sql = "DELETE FROM segments WHERE id = ?1 \
        AND NOT EXISTS (SELECT 1 FROM session_segments WHERE segment = ?1) \
        AND NOT EXISTS (SELECT 1 FROM kept WHERE segment = ?1)";
    transaction.prepare_cached(sql)?.execute([segment])?;
    Ok(())
}

/// Shows in the stamp that something beside the log changed.
fn touch(transaction: &Transaction<'_>, id: &SessionId) -> Result<(), Trouble> {
    let sql = "UPDATE segments SET changed_ns = max(changed_ns + 1, ?2) WHERE id = (\
        SELECT segment FROM session_segments WHERE session = ?1 ORDER BY number DESC LIMIT 1)";
    transaction.prepare_cached(sql)?.execute((id.as_str(), now_ns()))?;
    Ok(())
}

#[derive(Debug)]
struct SqliteSealer {
    session: Session,
}

impl Sealer for SqliteSealer {
    fn seal(&mut self, number: u32) -> Result<(), StoreError> {
        let session = &self.session;
        let row = session.find(number)?;
        if row.is_sealed {
            return Ok(());
        }
        let content = session.compressed(&mut session.reader(number, row).from(0))?;
        session.change(|transaction| {
            let now = session.find_in(transaction, number)?;
            if now.is_sealed || now.segment != row.segment || now.length != chunks::length(&content)
            {
                return Err(session.lost(&format!("has another segment {number}")).into());
            }
            chunks::seal(transaction, row.segment, &content)
        })
    }
}

/// Appends to one segment.
#[derive(Debug)]
struct SqliteActive {
    session: Session,
    number: u32,
    segment: i64,
    length: u64,
}

impl Active for SqliteActive {
    fn length(&self) -> u64 {
        self.length
    }

    fn append(&mut self, lines: &[u8]) -> Result<(), StoreError> {
        if lines.is_empty() {
            return Ok(());
        }
        let Self { session, segment, length, .. } = &*self;
        let added = lines.len() as u64;
        session.database.write(session.identity, |transaction| {
            let sql = "UPDATE segments SET length = length + ?3, stored = stored + ?3, \
                       changed_ns = max(changed_ns + 1, ?4) \
                       WHERE id = ?1 AND length = ?2 AND is_sealed = 0";
            let values = (*segment, whole(*length), whole(added), now_ns());
            if transaction.prepare_cached(sql)?.execute(values)? != 1 {
                return Err(self.changed(transaction)?.into());
            }
            chunks::insert_one(transaction, *segment, *length, (added, false, lines))
        })?;
        self.length += added;
        Ok(())
    }

    /// Each append is synced when it is committed, and leaves nothing behind when it is not.
    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

impl SqliteActive {
    /// What somebody else did to the segment.
    fn changed(&self, transaction: &Transaction<'_>) -> Result<StoreError, Trouble> {
        let sql = "SELECT length, is_sealed FROM segments WHERE id = ?1";
        let found: Option<(i64, bool)> = transaction
            .prepare_cached(sql)?
            .query_row([self.segment], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Self { session, number, length, .. } = self;
        Ok(session.lost(&match found {
            None => format!("has no segment {number} any more"),
            Some((_, true)) => format!("has a sealed segment {number}"),
            Some((found, false)) => {
                format!("has {found} bytes instead of {length} in segment {number}")
            }
        }))
    }
}
