//! Output kept at both ends.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use crate::process::Captured;

/// Takes a stream in pieces; never holds more than the limit.
pub(super) struct Capture {
    head: Vec<u8>,
    head_limit: usize,
    tail: VecDeque<u8>,
    tail_limit: usize,
    omitted: u64,
}

impl Capture {
    /// Keeps everything up to `limit` bytes, of more the first and last half each.
    pub(super) fn new(limit: usize) -> Self {
        let tail_limit = limit / 2;
        let head_limit = limit - tail_limit;
        Self { head: Vec::new(), head_limit, tail: VecDeque::new(), tail_limit, omitted: 0 }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        let room = self.head_limit - self.head.len();
        let (first, rest) = piece.split_at(room.min(piece.len()));
        self.head.extend_from_slice(first);
        let skipped = rest.len().saturating_sub(self.tail_limit);
        let rest = &rest[skipped..];
        let pushed_out = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        self.tail.drain(..pushed_out);
        self.tail.extend(rest);
        self.omitted += (skipped + pushed_out) as u64;
    }

    /// What was kept so far; nothing is kept any more.
    pub(super) fn take(&mut self) -> Captured {
        let mut head = std::mem::take(&mut self.head);
        let mut tail = Vec::from(std::mem::take(&mut self.tail));
        if self.omitted == 0 {
            head.append(&mut tail);
        }
        *self = Self { omitted: self.omitted, ..Self::new(0) };
        Captured { head, tail, omitted: self.omitted }
    }
}
