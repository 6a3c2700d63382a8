//! Server-sent events, decoded byte for byte and as far as they have arrived.

#[cfg(test)]
mod tests;

use std::ops::Range;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The default limit of one event in bytes.
pub const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// One event, borrowed from the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// The `event` field; empty when there was none.
    pub name: &'a str,
    /// The `data` lines, joined with LF.
    pub data: &'a str,
    /// False when the stream ended before the blank line: the data may be cut.
    pub complete: bool,
}

/// Bytes that are no event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// Not UTF-8.
    #[error("byte {offset} of the event stream is not UTF-8")]
    Utf8 {
        /// Counted from the first byte of the stream.
        offset: u64,
    },
    /// An event does not end.
    #[error("an event of the stream is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
}

#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    /// One `data` line: a range of the buffer, so that the usual event is not copied.
    Line(Range<usize>),
    /// Several lines, in `joined`.
    Joined,
}

/// Splits bytes into events. Push bytes, then take events until there is none; after the last
/// bytes call [`SseDecoder::end`] and take once more. After an error it must not be used again.
///
/// Unlike the standard says, an event that the end of the stream leaves without its blank line is
/// delivered, marked as not complete: servers forget that line after their end mark.
#[derive(Debug)]
pub struct SseDecoder {
    buffer: Vec<u8>,
    /// Bytes of the stream before `buffer`.
    before: u64,
    /// Where the unread line starts in `buffer`.
    line: usize,
    /// Where the search for its end goes on.
    scan: usize,
    data: Data,
    joined: String,
    name: String,
    delivered: bool,
    skip_lf: bool,
    at_start: bool,
    ended: bool,
    limit: usize,
}

impl Default for SseDecoder {
    fn default() -> Self {
        Self::new(MAX_EVENT_BYTES)
    }
}

impl SseDecoder {
    /// A decoder that refuses events of more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: Vec::new(),
            before: 0,
            line: 0,
            scan: 0,
            data: Data::None,
            joined: String::new(),
            name: String::new(),
            delivered: false,
            skip_lf: false,
            at_start: true,
            ended: false,
            limit,
        }
    }

    /// Takes more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let unused = match &self.data {
            Data::Line(range) => range.start,
            Data::None | Data::Joined => self.line,
        };
        if unused > 0 {
            self.buffer.drain(..unused);
            self.before += unused as u64;
            self.line -= unused;
            self.scan -= unused;
            if let Data::Line(range) = &mut self.data {
                *range = range.start - unused..range.end - unused;
            }
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Says that no more bytes follow.
    pub fn end(&mut self) {
        self.ended = true;
    }

    /// The next event, or nothing until more bytes arrive.
    ///
    /// # Errors
    /// The data is not UTF-8, or the event is longer than the limit.
    pub fn next_event(&mut self) -> Result<Option<SseEvent<'_>>, SseError> {
        if std::mem::take(&mut self.delivered) {
            self.name.clear();
        }
        let complete = loop {
            match self.next_line() {
                Some(line) if line.is_empty() => {
                    if !matches!(self.data, Data::None) {
                        break true;
                    }
                    self.name.clear();
                }
                Some(line) => self.field(line)?,
                None if self.ended && !matches!(self.data, Data::None) => break false,
                None => {
                    self.check_length(self.buffer.len() - self.line)?;
                    return Ok(None);
                }
            }
        };
        self.delivered = true;
        let data = match std::mem::take(&mut self.data) {
            Data::Line(range) => text(&self.buffer, range, self.before)?,
            Data::None | Data::Joined => &self.joined,
        };
        Ok(Some(SseEvent { name: &self.name, data, complete }))
    }

    fn next_line(&mut self) -> Option<Range<usize>> {
        if self.at_start && !self.pass_bom() {
            return None;
        }
        if self.skip_lf && self.line < self.buffer.len() {
            self.skip_lf = false;
            if self.buffer[self.line] == b'\n' {
                self.line += 1;
                self.scan = self.scan.max(self.line);
            }
        }
        let rest = &self.buffer[self.scan..];
        let found = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let Some(length) = found else {
            self.scan = self.buffer.len();
            let line = self.line..self.buffer.len();
            if !self.ended || line.is_empty() {
                return None;
            }
            self.line = line.end;
            return Some(line);
        };
        let line = self.line..self.scan + length;
        self.skip_lf = self.buffer[line.end] == b'\r';
        self.line = line.end + 1;
        self.scan = self.line;
        Some(line)
    }

    /// Whether the first bytes are decided.
    fn pass_bom(&mut self) -> bool {
        if self.buffer.len() < BOM.len() && BOM.starts_with(&self.buffer) && !self.ended {
            return false;
        }
        self.at_start = false;
        if self.buffer.starts_with(BOM) {
            self.line = BOM.len();
            self.scan = BOM.len();
        }
        true
    }

    fn field(&mut self, line: Range<usize>) -> Result<(), SseError> {
        let bytes = &self.buffer[line.clone()];
        let colon = bytes.iter().position(|byte| *byte == b':').unwrap_or(bytes.len());
        let mut value = line.start + (colon + 1).min(bytes.len())..line.end;
        if self.buffer.get(value.start) == Some(&b' ') && !value.is_empty() {
            value.start += 1;
        }
        match &bytes[..colon] {
            b"data" => self.data_line(value),
            b"event" => {
                self.check_length(value.len())?;
                self.name.clear();
                self.name.push_str(text(&self.buffer, value, self.before)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn data_line(&mut self, value: Range<usize>) -> Result<(), SseError> {
        match std::mem::take(&mut self.data) {
            Data::None => {
                self.check_length(value.len())?;
                self.data = Data::Line(value);
                return Ok(());
            }
            Data::Line(first) => {
                self.joined.clear();
                self.joined.push_str(text(&self.buffer, first, self.before)?);
            }
            Data::Joined => {}
        }
        self.data = Data::Joined;
        self.check_length(self.joined.len() + value.len())?;
        self.joined.push('\n');
        self.joined.push_str(text(&self.buffer, value, self.before)?);
        Ok(())
    }

    fn check_length(&self, bytes: usize) -> Result<(), SseError> {
        if bytes > self.limit { Err(SseError::TooLong { limit: self.limit }) } else { Ok(()) }
    }
}

/// Lines end at ASCII bytes, so a character never lies in two of them.
fn text(buffer: &[u8], range: Range<usize>, before: u64) -> Result<&str, SseError> {
    let start = before + range.start as u64;
    std::str::from_utf8(&buffer[range])
        .map_err(|error| SseError::Utf8 { offset: start + error.valid_up_to() as u64 })
}
