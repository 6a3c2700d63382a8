//! A segment's content: rows of plain lines, or of compressed ones.

use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::database::{Database, Trouble, is_damage};
use super::whole;
use crate::StoreError;
use crate::medium::Segment;
use crate::zst;

/// How much content is read at once, where the rows are small.
const READ_BYTES: usize = 256 << 10;

/// Reads by offsets of the plain lines.
#[derive(Debug)]
pub(super) struct SqliteSegment {
    database: Arc<Database>,
    id: i64,
    length: u64,
    place: PathBuf,
    start: u64,
    bytes: Vec<u8>,
}

impl SqliteSegment {
    pub(super) fn new(database: Arc<Database>, id: i64, length: u64, place: PathBuf) -> Self {
        Self { database, id, length, place, start: 0, bytes: Vec::new() }
    }

    /// The content from an offset on, as something to read from.
    pub(super) fn from(self, offset: u64) -> impl Read {
        From { segment: self, offset }
    }

    fn loaded(&self, offset: u64) -> Option<&[u8]> {
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        self.bytes.get(at..).filter(|rest| !rest.is_empty())
    }

    fn load(&mut self, offset: u64) -> io::Result<()> {
        let id = self.id;
        let loaded = self.database.read(|connection| load(connection, id, offset));
        match loaded.map_err(io::Error::other)? {
            Some(Load::Content(start, bytes)) => {
                (self.start, self.bytes) = (start, bytes);
                Ok(())
            }
            Some(Load::Damaged(problem)) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, problem))
            }
            Some(Load::Removed) | None => {
                Err(io::Error::new(io::ErrorKind::NotFound, "it was removed meanwhile"))
            }
        }
    }
}

impl Segment for SqliteSegment {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if offset >= self.length || buffer.is_empty() {
            return Ok(0);
        }
        if self.loaded(offset).is_none() {
            self.load(offset)?;
        }
        let most = usize::try_from(self.length - offset).unwrap_or(usize::MAX);
        let rest = self.loaded(offset).unwrap_or_default();
        let count = rest.len().min(most).min(buffer.len());
        let (Some(from), Some(to)) = (rest.get(..count), buffer.get_mut(..count)) else {
            return Ok(0);
        };
        to.copy_from_slice(from);
        Ok(count)
    }

    fn after_damage(&self, offset: u64) -> u64 {
        let sql = "SELECT min(offset) FROM chunks WHERE segment = ?1 AND offset > ?2";
        self.offset(sql, offset).unwrap_or(self.length).min(self.length)
    }

    fn landing(&self, offset: u64) -> u64 {
        let sql = "SELECT max(offset) FROM chunks WHERE segment = ?1 AND offset <= ?2";
        self.offset(sql, offset).unwrap_or(0)
    }

    fn place(&self) -> PathBuf {
        self.place.clone()
    }
}

impl SqliteSegment {
    /// Where a row begins; `None` when there is none, or that cannot be told.
    fn offset(&self, sql: &str, offset: u64) -> Option<u64> {
        let found = self.database.read(|connection| {
            let values = (self.id, whole(offset));
            let found: Option<i64> =
                connection.prepare_cached(sql)?.query_row(values, |row| row.get(0))?;
            Ok(found)
        });
        u64::try_from(found.ok()???).ok()
    }
}

struct From {
    segment: SqliteSegment,
    offset: u64,
}

impl Read for From {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.segment.read_at(self.offset, buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}

enum Load {
    /// Content from an offset on.
    Content(u64, Vec<u8>),
    Damaged(String),
    /// There is no such segment any more.
    Removed,
}

/// The row that holds an offset, and as many after it as are read at once.
fn load(connection: &Connection, segment: i64, offset: u64) -> Result<Load, Trouble> {
    const SQL: &str = "
        SELECT offset, plain_bytes, is_zst, bytes FROM chunks
        WHERE segment = ?1 AND offset >= coalesce(
            (SELECT max(offset) FROM chunks WHERE segment = ?1 AND offset <= ?2), ?2)
        ORDER BY offset";
    let mut statement = connection.prepare_cached(SQL)?;
    let mut rows = statement.query((segment, whole(offset)))?;
    let mut content: Option<(u64, Vec<u8>)> = None;
    loop {
        let piece = match rows.next() {
            Ok(Some(row)) => piece(row),
            Ok(None) => break,
            Err(e) => Err(e),
        };
        let is_whole = piece.as_ref().is_ok_and(|piece| piece.is_whole);
        match (&mut content, piece) {
            (None, Ok(piece)) if piece.holds(offset) => content = Some((piece.start, piece.bytes)),
            (None, Ok(piece)) if is_whole || offset < piece.start => break,
            (None, Ok(_)) => return Ok(Load::Damaged("a row of lines is damaged".to_owned())),
            (None, Err(e)) if is_damage(&e) => return Ok(Load::Damaged(damaged(&e))),
            (None, Err(e)) => return Err(e.into()),
            (Some((begin, all)), Ok(piece)) if begin.saturating_add(length(all)) == piece.start => {
                all.extend_from_slice(&piece.bytes);
            }
            // A gap, or damage: told when it is the offset that is asked for.
            (Some(_), _) => break,
        }
        if !is_whole || content.as_ref().is_some_and(|(_, all)| all.len() >= READ_BYTES) {
            break;
        }
    }
    drop(rows);
    if let Some((start, bytes)) = content {
        return Ok(Load::Content(start, bytes));
    }
    let sql = "SELECT 1 FROM segments WHERE id = ?1";
    let exists = connection.prepare_cached(sql)?.query_row([segment], |_| Ok(())).optional()?;
    Ok(match exists {
        Some(()) => Load::Damaged("the rows with these bytes are missing".to_owned()),
        None => Load::Removed,
    })
}

fn damaged(error: &rusqlite::Error) -> String {
    format!("the database is damaged there ({error})")
}

fn length(bytes: &[u8]) -> u64 {
    bytes.len() as u64
}

/// A row's content, or what is left of it.
struct Piece {
    start: u64,
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Piece {
    fn holds(&self, offset: u64) -> bool {
        (self.start..self.start.saturating_add(length(&self.bytes))).contains(&offset)
    }
}

fn piece(row: &Row<'_>) -> rusqlite::Result<Piece> {
    let (start, wanted): (i64, i64) = (row.get(0)?, row.get(1)?);
    let wanted = usize::try_from(wanted).unwrap_or(0);
    let stored = row.get_ref(3)?.as_blob()?;
    let mut bytes = if row.get(2)? { zst::decode(stored, wanted) } else { stored.to_vec() };
    bytes.truncate(wanted);
    Ok(Piece { start: start.cast_unsigned(), is_whole: bytes.len() == wanted, bytes })
}

/// The error of reading a segment outside of the shared reading code.
pub(super) fn unreadable(place: &std::path::Path, error: io::Error) -> StoreError {
    let told = error.get_ref().and_then(|inner| inner.downcast_ref::<StoreError>());
    told.cloned().unwrap_or_else(|| StoreError::io(place, error))
}
