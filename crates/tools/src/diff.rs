//! What a change did to a file, for people.

use std::time::Duration;

use similar::TextDiff;

use crate::cap::head_and_tail;

/// Larger contents are not compared.
const MAX_COMPARED_BYTES: usize = 1 << 20;
/// After that the comparison becomes coarser.
const TIME_LIMIT: Duration = Duration::from_millis(300);

/// A unified diff with three lines of context of at most `limit` bytes; `None` for contents that
/// are binary or too large.
pub(crate) fn unified(before: &[u8], after: &[u8], limit: usize) -> Option<String> {
    let comparable =
        |bytes: &[u8]| bytes.len() <= MAX_COMPARED_BYTES && memchr::memchr(0, bytes).is_none();
    if !(comparable(before) && comparable(after)) {
        return None;
    }
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let diff = TextDiff::configure().timeout(TIME_LIMIT).diff_lines(&*before, &*after);
    Some(head_and_tail(&diff.unified_diff().context_radius(3).to_string(), limit))
}
