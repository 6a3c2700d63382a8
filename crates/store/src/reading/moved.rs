//! The directory that a session belongs to, from its log's bytes: it may have been named long
//! before the end, and only few logs name one.

use std::io::ErrorKind;

use reins_schema::{Event, Payload, SessionMoved};

use super::Source;
use crate::StoreError;
use crate::medium::Segment;

/// How the event is recognised.
const MOVED: &[u8] = b"\"type\":\"session/moved\"";
/// Where that stands in its line, at most: after two numbers.
const MOVED_AT_MAX: u64 = 100;
/// The longest line with two paths.
const MOVED_BYTES_MAX: usize = 64 << 10;
const STEP_BYTES: usize = 256 << 10;

/// The last `session/moved` of a log. Passes over what is damaged.
pub(crate) fn last_move(source: &Source) -> Result<Option<SessionMoved>, StoreError> {
    for info in source.medium.segments(&source.id)?.iter().rev() {
        let Some(mut segment) = source.segment(info.number)? else { continue };
        let bound = source.bound(info.number);
        for place in places(&mut *segment)?.into_iter().rev() {
            match moved_at(&mut *segment, place)? {
                Some((seq, moved)) if bound.is_none_or(|bound| seq <= bound) => {
                    return Ok(Some(moved));
                }
                _ => {}
            }
        }
    }
    Ok(None)
}

/// Where the name of the event stands.
fn places(segment: &mut dyn Segment) -> Result<Vec<u64>, StoreError> {
    let finder = memchr::memmem::Finder::new(MOVED);
    let (mut places, mut buffer, mut kept) = (Vec::new(), vec![0; STEP_BYTES], 0);
    let mut at = 0;
    while let Some(read) = read(segment, &mut at, &mut buffer[kept..])? {
        if read == 0 {
            // What follows a damaged stretch is not its end.
            kept = 0;
            continue;
        }
        let (filled, begin) = (kept + read, at - (kept + read) as u64);
        places.extend(finder.find_iter(&buffer[..filled]).map(|found| begin + found as u64));
        // The name may lie across two reads.
        kept = filled.min(MOVED.len() - 1);
        buffer.copy_within(filled - kept..filled, 0);
    }
    Ok(places)
}

/// Reads on; `None` at the end, 0 when a damaged stretch was passed over.
fn read(
    segment: &mut dyn Segment,
    at: &mut u64,
    buffer: &mut [u8],
) -> Result<Option<usize>, StoreError> {
    loop {
        match segment.read_at(*at, buffer) {
            Ok(0) => return Ok(None),
            Ok(read) => {
                *at += read as u64;
                return Ok(Some(read));
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::InvalidData => {
                *at = segment.after_damage(*at).max(*at + 1);
                return Ok(if *at < segment.length() { Some(0) } else { None });
            }
            Err(e) => return Err(StoreError::io(&segment.place(), e)),
        }
    }
}

/// The event in whose line the name stands there, if that is what it is.
fn moved_at(
    segment: &mut dyn Segment,
    place: u64,
) -> Result<Option<(u64, SessionMoved)>, StoreError> {
    let mut at = place.saturating_sub(MOVED_AT_MAX);
    let before = usize::try_from(place - at).unwrap_or(0);
    let (mut text, mut filled) = (vec![0; before + MOVED_BYTES_MAX], 0);
    while filled < text.len()
        && let Some(read @ 1..) = read(segment, &mut at, &mut text[filled..])?
    {
        filled += read;
    }
    text.truncate(filled);
    let Some(begin) = text.get(..before) else { return Ok(None) };
    let begin = memchr::memrchr(b'\n', begin).map_or(0, |feed| feed + 1);
    let line = text[begin..].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let Ok((event, _)) = Event::decode(line) else { return Ok(None) };
    match Payload::read(&event.body) {
        Ok(Payload::SessionMoved(moved)) => Ok(Some((event.seq, moved))),
        _ => Ok(None),
    }
}
