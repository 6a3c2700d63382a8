//! Events of a log in the order in which they stand there, and what is damaged between them.

use std::collections::VecDeque;

use reins_schema::Event;

use super::lines::{Line, Lines, READ_BYTES};
use super::salvage::{self, line_seq};
use super::{Place, Source, seek};
use crate::StoreError;
use crate::medium::SegmentInfo;

/// What stands at a place of a log.
#[derive(Debug)]
pub(crate) enum Found {
    /// A record whose checksum is right.
    Event { event: Event, sum: u32, place: Place },
    /// Bytes that are no record; of length 0 where no bytes are wrong: a line feed is missing, or
    /// the form in which a segment is stored is damaged.
    Damaged { place: Place, problem: String },
}

/// A writer's last line counts when its line feed is there: it may still be taken back.
const NO_END: &str = "the last line has no end";

/// No log has this number; readers in other languages could not tell those after it apart.
const NUMBERS_END: u64 = 1 << 53;

/// Reads a log in order. Blocks.
pub(crate) struct Reader {
    source: Source,
    later: VecDeque<SegmentInfo>,
    current: Option<(SegmentInfo, Lines)>,
    /// Events before this number are passed over.
    from: u64,
    ready: VecDeque<Found>,
    stretch: Option<Stretch>,
    /// Stored bytes of the segments that are done, and of all.
    passed: (u64, u64),
    ignored: u64,
    /// Something of the segment that is read is damaged.
    is_damaged: bool,
    /// Where reading stopped in segments of which a fork shares only the beginning.
    stops: Vec<(u32, u64)>,
    /// The last segment that was read to its end, and its length.
    end: Option<(SegmentInfo, u64)>,
}

/// Damaged lines one after the other are one stretch.
struct Stretch {
    place: Place,
    problem: String,
    lines: u64,
}

impl Reader {
    /// Everything.
    pub(crate) fn whole(source: &Source) -> Result<Self, StoreError> {
        let segments = source.medium.segments(&source.id)?;
        Ok(Self::over(source, segments, 0))
    }

    /// From event `seq` on, found without reading what is before it.
    pub(crate) fn from_seq(source: &Source, seq: u64) -> Result<Self, StoreError> {
        let segments = source.medium.segments(&source.id)?;
        let Some((at, lines)) = seek::find(source, &segments, seq)? else {
            return Ok(Self::over(source, segments, seq));
        };
        let mut reader = Self::over(source, segments.split_at(at + 1).1.to_vec(), seq);
        reader.enter(segments[at], lines);
        Ok(reader)
    }

    /// From a line on; events before number `seq` are passed over.
    pub(crate) fn from_place(source: &Source, place: Place, seq: u64) -> Result<Self, StoreError> {
        let mut segments = source.medium.segments(&source.id)?;
        segments.retain(|info| info.number >= place.segment);
        let first = segments.first().copied().filter(|info| info.number == place.segment);
        let mut reader = Self::over(source, segments, seq);
        if first.is_some()
            && let Some((info, mut lines)) = reader.open_next()?
        {
            if info.number == place.segment {
                lines.jump(place.offset, READ_BYTES);
            }
            reader.enter(info, lines);
        }
        Ok(reader)
    }

    fn over(source: &Source, segments: Vec<SegmentInfo>, from: u64) -> Self {
        let total = segments.iter().map(|info| info.stored).sum();
        Self {
            source: source.clone(),
            later: segments.into(),
            current: None,
            from,
            ready: VecDeque::new(),
            stretch: None,
            passed: (0, total),
            ignored: 0,
            is_damaged: false,
            stops: Vec::new(),
            end: None,
        }
    }

    fn enter(&mut self, info: SegmentInfo, lines: Lines) {
        self.ignored += lines.offset();
        self.current = Some((info, lines));
    }

    /// What follows: at most `events` events, and about `bytes` of them. Empty at the end.
    pub(crate) fn batch(&mut self, events: usize, bytes: u64) -> Result<Vec<Found>, StoreError> {
        let (mut batch, mut count, mut size) = (Vec::new(), 0, 0);
        while count < events && size < bytes {
            let Some(found) = self.next()? else { break };
            if let Found::Event { place, .. } = &found {
                count += 1;
                size += place.bytes;
            }
            batch.push(found);
        }
        Ok(batch)
    }

    /// What follows; `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Found>, StoreError> {
        loop {
            if let Some(found) = self.ready.pop_front() {
                return Ok(Some(found));
            }
            if self.current.is_none() {
                match self.open_next()? {
                    Some(opened) => self.current = Some(opened),
                    None => return Ok(None),
                }
            }
            self.read_line()?;
        }
    }

    /// Bytes done and in all, as they are stored.
    pub(crate) fn progress(&self) -> (u64, u64) {
        let (mut done, total) = self.passed;
        if let Some((info, lines)) = &self.current {
            let (at, length) = (lines.offset(), lines.length().max(1));
            let part = u128::from(info.stored) * u128::from(at) / u128::from(length);
            done += u64::try_from(part).unwrap_or(info.stored);
        }
        (done.min(total), total)
    }

    /// Bytes of content that were passed over: before the start, and past what a fork shares.
    #[cfg(test)]
    pub(super) fn ignored(&self) -> u64 {
        self.ignored
    }

    /// Segments of which only the beginning counts, and where that ends.
    pub(super) fn stops(&self) -> &[(u32, u64)] {
        &self.stops
    }

    /// The last segment, and its length, once the end was reached.
    pub(super) fn end(&self) -> Option<(SegmentInfo, u64)> {
        self.end
    }

    fn open_next(&mut self) -> Result<Option<(SegmentInfo, Lines)>, StoreError> {
        while let Some(info) = self.later.pop_front() {
            if let Some(segment) = self.source.segment(info.number)? {
                return Ok(Some((info, Lines::new(segment, info.number, READ_BYTES))));
            }
        }
        Ok(None)
    }

    fn read_line(&mut self) -> Result<(), StoreError> {
        let Some((info, lines)) = &mut self.current else { return Ok(()) };
        let bound = self.source.bound(info.number);
        let mut out = Out {
            ready: &mut self.ready,
            stretch: &mut self.stretch,
            ignored: &mut self.ignored,
            is_damaged: &mut self.is_damaged,
            from: self.from,
            bound,
            end: self.later.is_empty().then(|| lines.length()),
        };
        let is_over = match lines.next()? {
            None => true,
            Some(Line::Unreadable { place, problem }) => {
                out.damaged(place, problem);
                false
            }
            Some(Line::Text { text, place, has_end }) => out.text(text, place, has_end),
        };
        if is_over {
            out.settle();
            let problem = lines.segment().flaw().filter(|_| !self.is_damaged).map(str::to_owned);
            self.ready.extend(problem.map(|problem| {
                let (segment, offset) = (info.number, lines.offset());
                Found::Damaged { place: Place { segment, offset, bytes: 0, line: None }, problem }
            }));
            self.is_damaged = false;
            let unread = lines.length().saturating_sub(lines.offset());
            if unread > 0 {
                self.ignored += unread;
                self.stops.push((info.number, lines.offset()));
            }
            self.passed.0 += info.stored;
            self.end = Some((*info, lines.length()));
            self.current = None;
        }
        Ok(())
    }
}

/// Where the lines of a segment go.
struct Out<'a> {
    ready: &'a mut VecDeque<Found>,
    stretch: &'a mut Option<Stretch>,
    ignored: &'a mut u64,
    is_damaged: &'a mut bool,
    from: u64,
    bound: Option<u64>,
    /// Of the log, when it is in this segment.
    end: Option<u64>,
}

impl Out<'_> {
    /// Takes a line. True when nothing that follows in the segment counts.
    fn text(&mut self, text: &[u8], place: Place, has_end: bool) -> bool {
        if self.from > 0 && line_seq(text).is_some_and(|seq| seq < self.from) {
            self.settle();
            *self.ignored += place.bytes;
            return false;
        }
        match Event::decode(text) {
            Ok(_) if !has_end && self.end == Some(place.end()) => {
                self.damaged(place, NO_END.to_owned());
                false
            }
            Ok((event, sum)) => {
                let is_over = self.event(event, sum, place);
                if !has_end && !is_over {
                    self.no_feed(place.end(), place);
                }
                is_over
            }
            Err(error) => self.rubble(text, place, has_end, &problem(text, &error.to_string())),
        }
    }

    /// A line that is no record, but may hold some.
    fn rubble(&mut self, text: &[u8], place: Place, has_end: bool, problem: &str) -> bool {
        let part = |start: usize, end: u64| {
            let offset = place.offset + start as u64;
            Place { offset, bytes: end - offset, ..place }
        };
        let mut done = 0;
        let mut pieces = salvage::pieces(text).into_iter().peekable();
        while let Some(piece) = pieces.next() {
            let is_last = piece.end == text.len();
            if is_last && !has_end && self.end == Some(place.end()) {
                self.damaged(part(done, place.end()), NO_END.to_owned());
                return false;
            }
            let start = place.offset + piece.start as u64;
            let end = place.offset + piece.end as u64 + u64::from(is_last && has_end);
            if piece.start > done {
                self.damaged(part(done, start), problem.to_owned());
            }
            if self.event(piece.event, piece.sum, part(piece.start, end)) {
                *self.ignored += place.end() - end;
                return true;
            }
            done = piece.end;
            let is_followed = pieces.peek().is_some_and(|next| next.start == done);
            if is_followed || (is_last && !has_end) {
                self.no_feed(end, place);
            }
        }
        if done < text.len() || text.is_empty() {
            self.damaged(part(done, place.end()), problem.to_owned());
        }
        false
    }

    /// True when nothing that follows in the segment counts.
    fn event(&mut self, event: Event, sum: u32, place: Place) -> bool {
        let seq = event.seq;
        if seq >= NUMBERS_END {
            self.damaged(place, format!("event {seq} is in no log"));
            return false;
        }
        self.settle();
        if seq < self.from || self.bound.is_some_and(|bound| seq > bound) {
            *self.ignored += place.bytes;
        } else {
            self.ready.push_back(Found::Event { event, sum, place });
        }
        // What a writer appended after the last shared event is not the fork's.
        self.bound.is_some_and(|bound| seq >= bound)
    }

    fn no_feed(&mut self, offset: u64, place: Place) {
        let problem = "the line feed after a record is missing".to_owned();
        self.settle();
        self.ready
            .push_back(Found::Damaged { place: Place { offset, bytes: 0, ..place }, problem });
    }

    fn damaged(&mut self, place: Place, problem: String) {
        *self.is_damaged = true;
        if let Some(stretch) = self.stretch.as_mut().filter(|s| s.place.end() == place.offset) {
            stretch.place.bytes += place.bytes;
            stretch.lines += 1;
            return;
        }
        self.settle();
        *self.stretch = Some(Stretch { place, problem, lines: 1 });
    }

    /// The stretch that is open ends here.
    fn settle(&mut self) {
        if let Some(Stretch { place, mut problem, lines }) = self.stretch.take() {
            if lines > 1 {
                problem.push_str(&format!(", and {} more", count(lines - 1, "line")));
            }
            self.ready.push_back(Found::Damaged { place, problem });
        }
    }
}

fn problem(text: &[u8], error: &str) -> String {
    match text {
        [] => "an empty line".to_owned(),
        text if text.iter().all(|byte| *byte == 0) => "nothing but NUL bytes".to_owned(),
        _ => error.to_owned(),
    }
}

/// A number with its noun.
pub(super) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
