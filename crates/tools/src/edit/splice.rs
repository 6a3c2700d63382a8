//! The new bytes of a file. What old and new text share keeps the file's own bytes.

use std::ops::Range;

use super::find::{Found, Place, Rule};

/// A finished edit.
pub(super) struct Spliced {
    pub(super) bytes: Vec<u8>,
    /// Line ends of the new text were written as CRLF.
    pub(super) wrote_crlf: bool,
}

/// Puts `new` in every found place.
pub(super) fn splice(file: &[u8], old: &str, new: &str, found: &Found) -> Spliced {
    let mut spliced = Spliced { bytes: Vec::with_capacity(file.len()), wrote_crlf: false };
    let mut kept = 0;
    for place in &found.places {
        let change = narrow(old, new, found, place);
        spliced.bytes.extend_from_slice(&file[kept..change.region.start]);
        let explicit = found.rule == Rule::Exact && (old.contains('\r') || new.contains('\r'));
        if explicit {
            spliced.bytes.extend_from_slice(change.text.as_bytes());
        } else {
            let plain = change.text.replace("\r\n", "\n");
            let crlf = plain.contains('\n') && ends_with_crlf(file, place.raw.start);
            spliced.wrote_crlf |= crlf;
            let text = if crlf { plain.replace('\n', "\r\n") } else { plain };
            spliced.bytes.extend_from_slice(text.as_bytes());
        }
        kept = change.region.end;
    }
    spliced.bytes.extend_from_slice(&file[kept..]);
    spliced
}

struct Change<'a> {
    region: Range<usize>,
    text: &'a str,
}

/// Leaves out of the place what old and new text have in common at both ends.
fn narrow<'a>(old: &str, new: &'a str, found: &Found, place: &Place) -> Change<'a> {
    let (head, start) = common_head(old, new, found, place);
    let (tail, end) = common_tail(old, new, head, found, place);
    Change { region: start..end, text: &new[head..new.len() - tail] }
}

/// Length of the longest usable common head, and where in the file it ends.
fn common_head(old: &str, new: &str, found: &Found, place: &Place) -> (usize, usize) {
    let same = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    for length in (1..=same).rev() {
        if !(old.is_char_boundary(length) && new.is_char_boundary(length))
            || splits(old, length)
            || splits(new, length)
        {
            continue;
        }
        let Some(folded) = found.old.folded_at(length) else { continue };
        if folded == 0 {
            break;
        }
        if let Some(end) = found.file.raw_end(place.folded.start + folded) {
            return (length, end);
        }
    }
    (0, place.raw.start)
}

/// Length of the longest usable common tail after `head`, and where in the file it starts.
fn common_tail(old: &str, new: &str, head: usize, found: &Found, place: &Place) -> (usize, usize) {
    let most = old.len().min(new.len()) - head;
    let pairs = old.bytes().rev().zip(new.bytes().rev()).take(most);
    let same = pairs.take_while(|(a, b)| a == b).count();
    for length in (1..=same).rev() {
        let (old_at, new_at) = (old.len() - length, new.len() - length);
        let boundary = old.is_char_boundary(old_at) && new.is_char_boundary(new_at);
        // An exact match may lose or gain the CR of a line end on purpose.
        if !boundary || splits(new, new_at) || (found.rule != Rule::Exact && splits(old, old_at)) {
            continue;
        }
        let Some(folded) = found.old.folded_at(old_at) else { continue };
        if place.folded.start + folded >= place.folded.end {
            break;
        }
        if let Some(start) = found.file.raw_start(place.folded.start + folded) {
            return (length, start);
        }
    }
    (0, place.raw.end)
}

fn splits(text: &str, at: usize) -> bool {
    text[..at].ends_with('\r') && text[at..].starts_with('\n')
}

/// Whether the line end that governs `at` is CRLF: the next one, or at the file's end the last.
fn ends_with_crlf(file: &[u8], at: usize) -> bool {
    let next = memchr::memchr(b'\n', &file[at..]).map(|offset| at + offset);
    let end = next.or_else(|| memchr::memrchr(b'\n', &file[..at]));
    end.is_some_and(|end| end > 0 && file[end - 1] == b'\r')
}
