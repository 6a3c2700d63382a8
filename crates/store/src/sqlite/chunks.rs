//! Rows of content: what a batch of events appended, or a frame of compressed lines.

use std::io::{self, Read};

use rusqlite::{OptionalExtension as _, Transaction};

use super::database::Trouble;
use super::whole;
use crate::zst::{self, Frame, Frames};

/// One row's content.
#[derive(Debug)]
pub(super) struct Chunk {
    plain_bytes: u64,
    is_zst: bool,
    bytes: Vec<u8>,
}

/// Content as rows of compressed lines. Read before a transaction begins, so that no connection
/// waits for another one.
pub(super) fn compressed(content: &mut dyn Read) -> io::Result<Vec<Chunk>> {
    let mut frames = Frames::new(content)?;
    let mut chunks = Vec::new();
    while let Some(Frame { plain, stored }) = frames.next_frame()? {
        chunks.push(Chunk { plain_bytes: u64::from(plain), is_zst: true, bytes: stored });
    }
    Ok(chunks)
}

/// Plain lines as one row; nothing as none.
pub(super) fn lines(lines: &[u8]) -> Vec<Chunk> {
    let chunk = || Chunk { plain_bytes: lines.len() as u64, is_zst: false, bytes: lines.to_vec() };
    (!lines.is_empty()).then(chunk).into_iter().collect()
}

/// Makes a segment with this content and returns its row's number.
pub(super) fn new_segment(
    transaction: &Transaction<'_>,
    is_sealed: bool,
    chunks: &[Chunk],
    now_ns: i64,
) -> Result<i64, Trouble> {
    let sql = "INSERT INTO segments (length, stored, is_sealed, changed_ns) \
               VALUES (?1, ?2, ?3, ?4)";
    let values = (whole(length(chunks)), whole(stored(chunks)), is_sealed, now_ns);
    transaction.prepare_cached(sql)?.execute(values)?;
    let segment = transaction.last_insert_rowid();
    insert(transaction, segment, 0, chunks)?;
    Ok(segment)
}

/// Adds rows that follow each other from an offset on.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    segment: i64,
    mut offset: u64,
    chunks: &[Chunk],
) -> Result<(), Trouble> {
    for Chunk { plain_bytes, is_zst, bytes } in chunks {
        insert_one(transaction, segment, offset, (*plain_bytes, *is_zst, bytes))?;
        offset += plain_bytes;
    }
    Ok(())
}

/// Adds a row: its plain length, whether it is compressed, and its bytes.
pub(super) fn insert_one(
    transaction: &Transaction<'_>,
    segment: i64,
    offset: u64,
    (plain_bytes, is_zst, bytes): (u64, bool, &[u8]),
) -> Result<(), Trouble> {
    let sql = "INSERT INTO chunks (segment, offset, plain_bytes, is_zst, bytes) \
               VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = (segment, whole(offset), whole(plain_bytes), is_zst, bytes);
    transaction.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// Gives a segment other rows of the same content, compressed ones, for good.
pub(super) fn seal(
    transaction: &Transaction<'_>,
    segment: i64,
    chunks: &[Chunk],
) -> Result<(), Trouble> {
    let sql = "DELETE FROM chunks WHERE segment = ?1";
    transaction.prepare_cached(sql)?.execute([segment])?;
    insert(transaction, segment, 0, chunks)?;
    let sql = "UPDATE segments SET is_sealed = 1, stored = ?2 WHERE id = ?1";
    transaction.prepare_cached(sql)?.execute((segment, whole(stored(chunks))))?;
    Ok(())
}

/// Takes away what a segment has from an offset on.
pub(super) fn cut(
    transaction: &Transaction<'_>,
    segment: i64,
    length: u64,
    now_ns: i64,
) -> Result<(), Trouble> {
    let sql = "SELECT offset, plain_bytes, is_zst, bytes FROM chunks \
               WHERE segment = ?1 AND offset < ?2 AND offset + plain_bytes > ?2";
    let mut statement = transaction.prepare_cached(sql)?;
    let split = statement.query_row((segment, whole(length)), |row| {
        let (start, plain_bytes): (i64, i64) = (row.get(0)?, row.get(1)?);
        Ok((start.cast_unsigned(), plain_bytes.cast_unsigned(), row.get(2)?, row.get(3)?))
    });
    let split: Option<(u64, u64, bool, Vec<u8>)> = split.optional()?;
    let sql = "DELETE FROM chunks WHERE segment = ?1 AND offset + plain_bytes > ?2";
    transaction.prepare_cached(sql)?.execute((segment, whole(length)))?;
    if let Some((start, plain_bytes, is_zst, mut bytes)) = split {
        if is_zst {
            bytes = zst::decode(&bytes, usize::try_from(plain_bytes).unwrap_or(usize::MAX));
        }
        bytes.truncate(usize::try_from(length - start).unwrap_or(usize::MAX));
        insert_one(transaction, segment, start, (bytes.len() as u64, false, &bytes))?;
    }
    let sql = "UPDATE segments SET length = ?2, changed_ns = max(changed_ns + 1, ?3), stored = (\
               SELECT coalesce(sum(length(bytes)), 0) FROM chunks WHERE segment = ?1) \
               WHERE id = ?1";
    transaction.prepare_cached(sql)?.execute((segment, whole(length), now_ns))?;
    Ok(())
}

/// Whether two segments have the same rows.
pub(super) fn are_same(
    transaction: &Transaction<'_>,
    one: i64,
    other: i64,
) -> rusqlite::Result<bool> {
    let sql = "SELECT (SELECT length FROM segments WHERE id = ?1) \
                    = (SELECT length FROM segments WHERE id = ?2) \
               AND NOT EXISTS (SELECT offset, bytes FROM chunks WHERE segment = ?1 \
                        EXCEPT SELECT offset, bytes FROM chunks WHERE segment = ?2)";
    transaction.prepare_cached(sql)?.query_row((one, other), |row| row.get(0))
}

pub(super) fn length(chunks: &[Chunk]) -> u64 {
    chunks.iter().map(|chunk| chunk.plain_bytes).sum()
}

pub(super) fn stored(chunks: &[Chunk]) -> u64 {
    chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum()
}
