//! A folded view of bytes that knows where each of its pieces came from.

use unicode_normalization::char::decompose_canonical;

/// What a view makes equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Folding {
    /// CRLF becomes LF.
    pub(super) line_ends: bool,
    /// Blanks before a line end or the end of the text disappear.
    pub(super) trailing_blanks: bool,
    /// Typographic forms become ASCII, composed letters are decomposed, invisible ones disappear.
    pub(super) look_alikes: bool,
}

/// A stretch of the view. It ends where the next one starts.
struct Piece {
    folded: usize,
    raw: usize,
    /// Folded and raw bytes are the same; otherwise the piece is indivisible.
    same: bool,
}

/// Folded bytes with the way back. Bytes that are not UTF-8 stay what they are.
pub(super) struct View {
    bytes: Vec<u8>,
    pieces: Vec<Piece>,
    raw_len: usize,
    blank_end: bool,
    /// Blanks of which it is not yet known whether a line end follows.
    held: Vec<char>,
}

impl View {
    pub(super) fn new(raw: &[u8], folding: Folding) -> Self {
        let mut view = Self {
            bytes: Vec::with_capacity(raw.len()),
            pieces: Vec::new(),
            raw_len: 0,
            blank_end: false,
            held: Vec::new(),
        };
        if folding == Folding::default() {
            view.same(raw);
            return view;
        }
        for chunk in raw.utf8_chunks() {
            view.text(chunk.valid(), folding);
            if !chunk.invalid().is_empty() {
                view.release(folding);
                view.same(chunk.invalid());
            }
        }
        view.blank_end = !view.held.is_empty();
        view.drop_held();
        view
    }

    /// The folded bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Blanks at the very end were folded away.
    pub(super) fn blank_end(&self) -> bool {
        self.blank_end
    }

    /// Where in the raw bytes the folded byte `at` begins; `None` inside an indivisible piece.
    pub(super) fn raw_start(&self, at: usize) -> Option<usize> {
        let index = self.pieces.partition_point(|piece| piece.folded <= at).checked_sub(1)?;
        let piece = &self.pieces[index];
        match piece.same {
            true => Some(piece.raw + (at - piece.folded)),
            false => (piece.folded == at).then_some(piece.raw),
        }
    }

    /// Where in the raw bytes the folded text before `end` (> 0) ends; what was folded away after
    /// it is not part of it. `None` inside an indivisible piece.
    pub(super) fn raw_end(&self, end: usize) -> Option<usize> {
        let last = end.checked_sub(1)?;
        let index = self.pieces.partition_point(|piece| piece.folded <= last).checked_sub(1)?;
        let piece = &self.pieces[index];
        if piece.same {
            return Some(piece.raw + (end - piece.folded));
        }
        let next = self.pieces.get(index + 1);
        let folded_end = next.map_or(self.bytes.len(), |next| next.folded);
        let raw_end = next.map_or(self.raw_len, |next| next.raw);
        (folded_end == end).then_some(raw_end)
    }

    /// Which folded position the raw position `at` is; `None` inside an indivisible piece.
    pub(super) fn folded_at(&self, at: usize) -> Option<usize> {
        if at == self.raw_len {
            return Some(self.bytes.len());
        }
        let index = self.pieces.partition_point(|piece| piece.raw <= at).checked_sub(1)?;
        let piece = &self.pieces[index];
        match piece.same {
            true => Some(piece.folded + (at - piece.raw)),
            false => (piece.raw == at).then_some(piece.folded),
        }
    }

    fn text(&mut self, text: &str, folding: Folding) {
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c == '\r' && folding.line_ends && chars.peek() == Some(&'\n') {
                chars.next();
                self.drop_held();
                self.replaced(2, "\n");
            } else if c == '\n' {
                self.drop_held();
                self.same(b"\n");
            } else if folding.trailing_blanks && is_blank(c, folding) {
                self.held.push(c);
            } else {
                self.release(folding);
                self.folded(c, folding);
            }
        }
    }

    fn folded(&mut self, c: char, folding: Folding) {
        let mut buffer = [0; 4];
        let raw: &str = c.encode_utf8(&mut buffer);
        if !folding.look_alikes || c.is_ascii() {
            return self.same(raw.as_bytes());
        }
        let mut folded = String::new();
        fold_char(c, &mut folded);
        if folded == raw { self.same(raw.as_bytes()) } else { self.replaced(raw.len(), &folded) }
    }

    fn release(&mut self, folding: Folding) {
        for c in std::mem::take(&mut self.held) {
            self.folded(c, folding);
        }
    }

    fn drop_held(&mut self) {
        for c in std::mem::take(&mut self.held) {
            self.replaced(c.len_utf8(), "");
        }
    }

    fn same(&mut self, raw: &[u8]) {
        if self.pieces.last().is_none_or(|piece| !piece.same) {
            self.pieces.push(Piece { folded: self.bytes.len(), raw: self.raw_len, same: true });
        }
        self.bytes.extend_from_slice(raw);
        self.raw_len += raw.len();
    }

    fn replaced(&mut self, raw_len: usize, folded: &str) {
        self.pieces.push(Piece { folded: self.bytes.len(), raw: self.raw_len, same: false });
        self.bytes.extend_from_slice(folded.as_bytes());
        self.raw_len += raw_len;
    }
}

fn is_blank(c: char, folding: Folding) -> bool {
    matches!(c, ' ' | '\t') || (folding.look_alikes && look_alike(c) == Some(" "))
}

/// Appends what `c` is compared as.
pub(super) fn fold_char(c: char, out: &mut String) {
    match (look_alike(c), c) {
        (Some(text), _) => out.push_str(text),
        // The full-width forms stand in the order of ASCII.
        (None, '\u{FF01}'..='\u{FF5E}') => {
            out.extend(char::from_u32(u32::from(c) - 0xFF01 + 0x21));
        }
        (None, _) => decompose_canonical(c, |part| out.push(part)),
    }
}

/// The ASCII text that `c` looks like; empty for invisible characters.
pub(super) fn look_alike(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2018}'..='\u{201B}' | '\u{2032}' | '\u{02BC}' => "'",
        '\u{201C}'..='\u{201F}' | '\u{2033}' => "\"",
        '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{FE58}' | '\u{FE63}' | '\u{FF0D}' => "-",
        '\u{00A0}'
        | '\u{1680}'
        | '\u{2000}'..='\u{200A}'
        | '\u{202F}'
        | '\u{205F}'
        | '\u{3000}' => " ",
        '\u{2026}' => "...",
        '\u{00AD}' | '\u{200B}' | '\u{2060}' | '\u{FEFF}' => "",
        _ => return None,
    })
}
