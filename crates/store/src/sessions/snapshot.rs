//! The stored snapshot: a fold, and where the last event that it contains stands. It is derived:
//! one that is damaged, of another header or of another log is as good as none.

use reins_schema::{Header, Position};
use reins_session::{Fold, KnownTypes};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::log::Stands;
use crate::reading::{Place, Start};

/// Changes whenever what is in it does.
const VERSION: u32 = 1;

/// Ends the text, before the checksum of everything up to it.
const SUM: &[u8] = b",\"crc\":\"";

#[derive(Serialize)]
struct Written<'a> {
    v: u32,
    header: &'a Header,
    at: Position,
    segment: u32,
    offset: u64,
    fold: &'a RawValue,
}

#[derive(Deserialize)]
struct Stored {
    v: u32,
    header: Header,
    at: Position,
    segment: u32,
    offset: u64,
    fold: Box<RawValue>,
}

/// The text of a snapshot.
///
/// # Errors
/// The fold is no JSON.
pub(crate) fn encode(
    header: &Header,
    stands: Stands,
    fold: &str,
) -> Result<Vec<u8>, serde_json::Error> {
    let Stands { at, segment, offset } = stands;
    let fold: &RawValue = serde_json::from_str(fold)?;
    let mut text = serde_json::to_vec(&Written { v: VERSION, header, at, segment, offset, fold })?;
    // The last brace comes behind the checksum.
    text.pop();
    let sum = crc32c::crc32c(&text);
    text.extend_from_slice(SUM);
    text.extend_from_slice(format!("{sum:08x}\"}}\n").as_bytes());
    Ok(text)
}

fn decode(text: &[u8]) -> Option<Stored> {
    let end = text.len().checked_sub(SUM.len() + b"00000000\"}\n".len())?;
    let (content, tail) = text.split_at(end);
    let sum = format!("{:08x}\"}}\n", crc32c::crc32c(content));
    if tail.strip_prefix(SUM)? != sum.as_bytes() {
        return None;
    }
    let stored: Stored = serde_json::from_slice(text).ok()?;
    (stored.v == VERSION).then_some(stored)
}

/// The header that a snapshot was made under.
pub(crate) fn header(text: &[u8]) -> Option<Header> {
    decode(text).map(|stored| stored.header)
}

/// A snapshot that can be gone on from.
pub(super) struct Usable {
    pub(super) fold: Fold,
    pub(super) at: Position,
    pub(super) place: Place,
}

/// The fold of a snapshot that belongs to the session `own`, for one with the header `header`:
/// the same session, or a fork of it.
pub(super) fn restore(
    text: &[u8],
    own: &Header,
    header: &Header,
    known: KnownTypes,
) -> Option<Usable> {
    let stored = decode(text).filter(|stored| stored.header == *own)?;
    let fold = Fold::restore(header.clone(), known, stored.fold.get()).ok()?;
    let Stored { at, segment, offset, .. } = stored;
    if fold.next_seq() != at.seq.checked_add(1)? {
        return None;
    }
    Some(Usable { fold, at, place: Place { segment, offset, bytes: 0, line: None } })
}

impl From<Usable> for Start {
    fn from(usable: Usable) -> Self {
        Self::After { fold: usable.fold, place: usable.place, position: usable.at }
    }
}
