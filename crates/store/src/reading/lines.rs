//! Lines of one segment, read with bounded memory.

use std::io;

use reins_schema::{LineError, MAX_LINE_BYTES};

use super::Place;
use crate::StoreError;
use crate::medium::Segment;

/// How much is read at once.
pub(super) const READ_BYTES: usize = 128 << 10;

/// What stands at a place.
pub(super) enum Line<'a> {
    /// Bytes up to the line feed, without it. `has_end`: there is one.
    Text { text: &'a [u8], place: Place, has_end: bool },
    /// Bytes that are no line, or cannot be read.
    Unreadable { place: Place, problem: String },
}

/// The lines of a segment, up to the length that it had when it was opened: a live writer only
/// appends, so everything before that is settled except for an unfinished last line.
pub(super) struct Lines {
    segment: Box<dyn Segment>,
    number: u32,
    length: u64,
    /// Bytes that one read asks for.
    step: usize,
    buffer: Vec<u8>,
    /// What is read and not yet given out: `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Of `buffer[start]` in the segment.
    offset: u64,
    line: Option<u64>,
}

enum Filled {
    More,
    End,
    /// What follows cannot be read, with the reason.
    Damaged(String),
}

impl Lines {
    pub(super) fn new(segment: Box<dyn Segment>, number: u32, step: usize) -> Self {
        let length = segment.length();
        let (buffer, line) = (Vec::new(), Some(1));
        Self { segment, number, length, step, buffer, start: 0, end: 0, offset: 0, line }
    }

    /// Goes on at another offset.
    pub(super) fn jump(&mut self, offset: u64, step: usize) {
        (self.start, self.end) = (0, 0);
        self.offset = offset.min(self.length);
        self.line = (offset == 0).then_some(1);
        self.step = step;
    }

    /// Of the next line.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Of the segment.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn segment(&self) -> &dyn Segment {
        &*self.segment
    }

    /// The next line; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Line<'_>>, StoreError> {
        let mut searched = 0;
        loop {
            let waiting = &self.buffer[self.start + searched..self.end];
            if let Some(at) = memchr::memchr(b'\n', waiting) {
                return Ok(Some(self.text(searched + at, true)));
            }
            searched = self.end - self.start;
            if searched > MAX_LINE_BYTES {
                return self.skip_line().map(Some);
            }
            match self.fill()? {
                Filled::More => {}
                Filled::End | Filled::Damaged(_) if searched > 0 => {
                    return Ok(Some(self.text(searched, false)));
                }
                Filled::End => return Ok(None),
                Filled::Damaged(problem) => return Ok(Some(self.skip_damage(problem))),
            }
        }
    }

    fn text(&mut self, length: usize, has_end: bool) -> Line<'_> {
        let taken = length + usize::from(has_end);
        let place = self.advance(taken as u64);
        let text = &self.buffer[self.start..self.start + length];
        self.start += taken;
        self.line = self.line.map(|line| line + 1);
        Line::Text { text, place, has_end }
    }

    fn advance(&mut self, bytes: u64) -> Place {
        let place = Place { segment: self.number, offset: self.offset, bytes, line: self.line };
        self.offset += bytes;
        place
    }

    /// Passes over a line that is too long to be kept in memory.
    fn skip_line(&mut self) -> Result<Line<'_>, StoreError> {
        let (offset, line) = (self.offset, self.line);
        loop {
            let waiting = &self.buffer[self.start..self.end];
            let feed = memchr::memchr(b'\n', waiting);
            let taken = feed.map_or(waiting.len(), |at| at + 1);
            self.start += taken;
            self.offset += taken as u64;
            if feed.is_some() {
                self.line = self.line.map(|line| line + 1);
                break;
            }
            if !matches!(self.fill()?, Filled::More) {
                break;
            }
        }
        let bytes = self.offset - offset;
        let problem = LineError::TooLong(usize::try_from(bytes).unwrap_or(usize::MAX)).to_string();
        let place = Place { segment: self.number, offset, bytes, line };
        Ok(Line::Unreadable { place, problem })
    }

    fn skip_damage(&mut self, problem: String) -> Line<'_> {
        let after = self.segment.after_damage(self.offset);
        let after = after.clamp(self.offset + 1, self.length.max(self.offset + 1));
        let place = self.advance(after - self.offset);
        // How many lines that were is not known.
        self.line = None;
        Line::Unreadable { place, problem }
    }

    /// Reads on behind what waits.
    fn fill(&mut self) -> Result<Filled, StoreError> {
        let waiting = self.end - self.start;
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, waiting);
        let at = self.offset + waiting as u64;
        if at >= self.length {
            return Ok(Filled::End);
        }
        if waiting < self.step && self.buffer.len() > 2 * self.step {
            // A long line is over.
            self.buffer.truncate(2 * self.step);
            self.buffer.shrink_to_fit();
        }
        // A long line doubles it: its bytes are moved a bounded number of times.
        let wanted = waiting + self.step.max(waiting);
        if self.buffer.len() < wanted {
            self.buffer.resize(wanted, 0);
        }
        let left = usize::try_from(self.length - at).unwrap_or(usize::MAX);
        let space = (self.buffer.len() - waiting).min(left);
        loop {
            match self.segment.read_at(at, &mut self.buffer[waiting..waiting + space]) {
                // It became shorter: its writer took back what was not durable.
                Ok(0) => {
                    self.length = at;
                    return Ok(Filled::End);
                }
                Ok(read) => {
                    self.end += read;
                    return Ok(Filled::More);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    return Ok(Filled::Damaged(e.to_string()));
                }
                Err(e) => return Err(StoreError::io(&self.segment.place(), e)),
            }
        }
    }
}
