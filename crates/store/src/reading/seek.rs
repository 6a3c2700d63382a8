//! Finds an event by its number without reading the log: bisection over segments, then over the
//! bytes of one. Only lines whose checksum is right are believed.

use super::Source;
use super::lines::{Line, Lines, READ_BYTES};
use super::salvage::line_seq;
use crate::StoreError;
use crate::medium::SegmentInfo;
use reins_schema::Event;

/// Below this many bytes lines are read one after the other.
const LINEAR_BYTES: u64 = 64 << 10;

/// Bytes of one read while searching.
const STEP_BYTES: usize = 8 << 10;

/// How many damaged lines are passed over to find one that says where it is.
const LINES_MAX: usize = 64;

/// The index of a segment, and its lines at an event that is `seq` or shortly before it. `None`
/// when no segment is known to begin there or earlier; then reading begins at the start.
pub(super) fn find(
    source: &Source,
    segments: &[SegmentInfo],
    seq: u64,
) -> Result<Option<(usize, Lines)>, StoreError> {
    let mut found: Option<(usize, Lines)> = None;
    let (mut low, mut high) = (0, segments.len());
    while low < high {
        let middle = low + (high - low) / 2;
        // One that is gone or says nothing is judged by the next one that does.
        let known = begins(source, &segments[middle..high])?;
        match known {
            Some((skipped, lines, first)) if first <= seq => {
                low = middle + skipped + 1;
                found = Some((middle + skipped, lines));
            }
            _ => high = middle,
        }
    }
    let Some((at, mut lines)) = found else { return Ok(None) };
    let offset = bisect(&mut lines, seq)?;
    lines.jump(offset, READ_BYTES);
    Ok(Some((at, lines)))
}

/// The first of these segments that says with which number it begins.
fn begins(
    source: &Source,
    segments: &[SegmentInfo],
) -> Result<Option<(usize, Lines, u64)>, StoreError> {
    for (at, info) in segments.iter().enumerate() {
        let Some(segment) = source.segment(info.number)? else { continue };
        let mut lines = Lines::new(segment, info.number, STEP_BYTES);
        let length = lines.length();
        if let Some((_, first)) = number_before(&mut lines, length)? {
            return Ok(Some((at, lines, first)));
        }
    }
    Ok(None)
}

fn bisect(lines: &mut Lines, seq: u64) -> Result<u64, StoreError> {
    let (mut low, mut high) = (0, lines.length());
    while high - low > LINEAR_BYTES {
        let middle = low + (high - low) / 2;
        let landing = lines.segment().landing(middle);
        if landing > low {
            lines.jump(landing, STEP_BYTES);
        } else {
            // Into the middle of a line: what is left of it says nothing.
            lines.jump(middle, STEP_BYTES);
            lines.next()?;
        }
        match number_before(lines, high)? {
            Some((offset, found)) if found <= seq => low = offset,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The next line that is a record, when it begins before `until`: its offset and number.
fn number_before(lines: &mut Lines, until: u64) -> Result<Option<(u64, u64)>, StoreError> {
    for _ in 0..LINES_MAX {
        if lines.offset() >= until {
            break;
        }
        match lines.next()? {
            Some(Line::Text { text, place, .. }) => {
                if line_seq(text).is_some()
                    && let Ok((event, _)) = Event::decode(text)
                {
                    return Ok(Some((place.offset, event.seq)));
                }
            }
            Some(Line::Unreadable { .. }) => {}
            None => break,
        }
    }
    Ok(None)
}
