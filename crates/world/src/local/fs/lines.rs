//! A text file cut into lines while its bytes stream by; memory is bounded by the window.

use crate::fs::{Line, LineWindow};

const BOM: char = '\u{feff}';

/// Takes a file's bytes in pieces of any size.
pub(super) struct LineScan {
    window: LineWindow,
    /// The first bytes of a character whose rest is in the next piece.
    carry: Vec<u8>,
    /// Bytes before `carry`.
    offset: u64,
    /// The number of the line that is being read.
    number: u64,
    /// Something of that line has been seen.
    begun: bool,
    current: Current,
    lines: Vec<Line>,
    bytes: usize,
    capped: bool,
}

#[derive(Default)]
struct Current {
    text: String,
    /// Bytes of the line so far, with those left out.
    length: u64,
    full: bool,
    ends_in_cr: bool,
}

/// What a whole file gave.
pub(super) struct Scanned {
    pub(super) lines: Vec<Line>,
    pub(super) total: u64,
    pub(super) capped: bool,
}

impl LineScan {
    pub(super) fn new(window: LineWindow) -> Self {
        Self {
            window,
            carry: Vec::new(),
            offset: 0,
            number: 1,
            begun: false,
            current: Current::default(),
            lines: Vec::new(),
            bytes: 0,
            capped: false,
        }
    }

    /// Refuses bytes that are not text, in the words of [`crate::FsError::NotText`].
    pub(super) fn piece(&mut self, piece: &[u8]) -> Result<(), String> {
        let joined;
        let bytes = if self.carry.is_empty() {
            piece
        } else {
            joined = [std::mem::take(&mut self.carry).as_slice(), piece].concat();
            joined.as_slice()
        };
        let (text, rest) = match std::str::from_utf8(bytes) {
            Ok(text) => (text, &bytes[bytes.len()..]),
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                let text = std::str::from_utf8(valid).unwrap_or_default();
                self.refuse_nul(text)?;
                if error.error_len().is_some() {
                    return Err(self.not_utf8(text, rest));
                }
                (text, rest)
            }
        };
        self.refuse_nul(text)?;
        self.text(text);
        self.offset += text.len() as u64;
        self.carry.extend_from_slice(rest);
        Ok(())
    }

    /// The file's end.
    pub(super) fn finish(mut self) -> Result<Scanned, String> {
        if !self.carry.is_empty() {
            let rest = std::mem::take(&mut self.carry);
            return Err(self.not_utf8("", &rest));
        }
        if self.begun {
            self.end_line(false);
        }
        Ok(Scanned { lines: self.lines, total: self.number - 1, capped: self.capped })
    }

    fn refuse_nul(&self, text: &str) -> Result<(), String> {
        let Some(at) = text.find('\0') else { return Ok(()) };
        let (offset, line) = self.position(&text[..at]);
        Err(format!("NUL byte at offset {offset} (line {line}); this is a binary file"))
    }

    fn not_utf8(&self, before: &str, rest: &[u8]) -> String {
        let (offset, line) = self.position(before);
        let byte = rest.first().copied().unwrap_or_default();
        let hint = match (offset, rest) {
            (0, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) => "; it begins like UTF-16",
            _ => "",
        };
        format!("invalid byte 0x{byte:02X} at offset {offset} (line {line}){hint}")
    }

    fn position(&self, before: &str) -> (u64, u64) {
        let newlines = before.bytes().filter(|byte| *byte == b'\n').count() as u64;
        (self.offset + before.len() as u64, self.number + newlines)
    }

    fn text(&mut self, text: &str) {
        let mut rest = text;
        if self.offset == 0 {
            rest = rest.strip_prefix(BOM).unwrap_or(rest);
        }
        while let Some((line, after)) = rest.split_once('\n') {
            self.extend(line);
            self.end_line(true);
            rest = after;
        }
        if !rest.is_empty() {
            self.extend(rest);
        }
    }

    fn extend(&mut self, part: &str) {
        self.begun = true;
        if part.is_empty() || !self.is_wanted() {
            return;
        }
        let skip = self.skip();
        let limit = self.line_limit();
        let current = &mut self.current;
        let left_out = skip.saturating_sub(current.length);
        current.length += part.len() as u64;
        current.ends_in_cr = part.ends_with('\r');
        let start = usize::try_from(left_out).map_or(part.len(), |bytes| ceil(part, bytes));
        if current.full || start == part.len() {
            return;
        }
        // One byte of room for the CR of a line end, which is taken away again.
        let shown = &part[start..];
        let room = limit + 1 - current.text.len();
        let kept = &shown[..shown.floor_char_boundary(room)];
        current.text.push_str(kept);
        current.full = kept.len() < shown.len();
    }

    fn end_line(&mut self, by_newline: bool) {
        if self.is_wanted() {
            self.keep_line(by_newline);
        }
        self.current = Current::default();
        self.number += 1;
        self.begun = false;
    }

    fn keep_line(&mut self, by_newline: bool) {
        let (skip, limit) = (self.skip(), self.line_limit());
        let Current { mut text, mut length, full, ends_in_cr } = std::mem::take(&mut self.current);
        if by_newline && ends_in_cr {
            length -= 1;
            if !full && text.ends_with('\r') {
                text.pop();
            }
        }
        text.truncate(text.floor_char_boundary(limit));
        let cost = text.len() + 1;
        // The first line always comes, so that a page is never empty.
        if !self.lines.is_empty() && self.bytes + cost > self.window.max_bytes {
            self.capped = true;
            return;
        }
        self.bytes += cost;
        let whole = skip + text.len() as u64 >= length;
        self.lines.push(Line { number: self.number, text, cut_from: (!whole).then_some(length) });
    }

    fn is_wanted(&self) -> bool {
        let window = &self.window;
        !self.capped && self.number >= window.first && self.number - window.first < window.count
    }

    /// Bytes of the line being read that come before its text.
    fn skip(&self) -> u64 {
        if self.number == self.window.first { self.window.skip_bytes } else { 0 }
    }

    fn line_limit(&self) -> usize {
        // Less than the longest character would never get anywhere.
        self.window.max_line_bytes.min(self.window.max_bytes).max(char::MAX.len_utf8())
    }
}

fn ceil(text: &str, index: usize) -> usize {
    if index >= text.len() { text.len() } else { text.ceil_char_boundary(index) }
}
