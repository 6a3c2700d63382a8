//! A window of a file whose bytes are not UTF-8.

use reins_world::{FileBytes, Line, LineWindow, Lines};

/// The window, and how many byte sequences of the file are shown as U+FFFD.
pub(super) fn lines(file: FileBytes, window: LineWindow) -> (Lines, usize) {
    let replaced = file.bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count();
    let mut all: Vec<&[u8]> = file.bytes.split(|byte| *byte == b'\n').collect();
    if all.last().is_some_and(|last| last.is_empty()) {
        all.pop();
    }
    let (mut lines, mut bytes, mut capped) = (Vec::new(), 0, false);
    for (number, line) in (1..).zip(&all).skip_while(|(number, _)| *number < window.first) {
        if lines.len() as u64 == window.count {
            break;
        }
        let whole = String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line));
        let skip = usize::try_from(window.skip_bytes).unwrap_or(usize::MAX);
        let skip = if number == window.first { whole.floor_char_boundary(skip) } else { 0 };
        let rest = &whole[skip..];
        let text = &rest[..rest.floor_char_boundary(window.max_line_bytes)];
        if bytes + text.len() + 1 > window.max_bytes && !lines.is_empty() {
            capped = true;
            break;
        }
        bytes += text.len() + 1;
        let cut_from = (text.len() < rest.len()).then_some(whole.len() as u64);
        lines.push(Line { number, text: text.to_owned(), cut_from });
    }
    let total = all.len() as u64;
    (Lines { real: file.real, lines, total, capped, hash: file.hash }, replaced)
}
