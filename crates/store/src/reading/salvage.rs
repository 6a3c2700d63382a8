//! Whole records within a line that is none: the line feed between two records is lost, or a
//! record was appended to half of another one, or to a run of NUL.

use reins_schema::Event;

/// How every record begins.
const START: &[u8] = b"{\"seq\":";
/// How every record ends: this, eight digits, and a quote and a brace.
const SUM: &[u8] = b",\"sum\":\"";
const AFTER_SUM: usize = 10;

/// How many beginnings are tried for one end. A torn record before it adds one.
const STARTS_MAX: usize = 4;

/// The number at the start of a line, unchecked.
pub(super) fn line_seq(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(START)?;
    let end = digits.iter().take(21).position(|byte| *byte == b',')?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

/// A record within a line.
pub(super) struct Piece {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) event: Event,
    pub(super) sum: u32,
}

/// The records in a line, in order.
pub(super) fn pieces(line: &[u8]) -> Vec<Piece> {
    let starts: Vec<usize> = memchr::memmem::find_iter(line, START)
        .filter(|at| line_seq(&line[*at..]).is_some())
        .collect();
    let mut found = Vec::new();
    // Bytes that may be summed: several times the line, whatever it holds.
    let mut budget = line.len().saturating_mul(8);
    let mut free = 0;
    let mut next_start = 0;
    for at in memchr::memmem::find_iter(line, SUM) {
        let end = at + SUM.len() + AFTER_SUM;
        while starts.get(next_start).is_some_and(|start| *start < at) {
            next_start += 1;
        }
        let tried = starts[..next_start].iter().rev().take(STARTS_MAX);
        for start in tried.copied().take_while(|start| *start >= free) {
            if end > line.len() || is_inside(line, start, end) {
                continue;
            }
            let length = end - start;
            if length > budget {
                return found;
            }
            budget -= length;
            if let Ok((event, sum)) = Event::decode(&line[start..end]) {
                found.push(Piece { start, end, event, sum });
                free = end;
                break;
            }
        }
    }
    found
}

/// Whether these bytes are a value within an object or a list: content of another record.
fn is_inside(line: &[u8], start: usize, end: usize) -> bool {
    let before = start.checked_sub(1).and_then(|at| line.get(at));
    matches!(before, Some(b':' | b',' | b'[')) && matches!(line.get(end), Some(b',' | b'}' | b']'))
}
