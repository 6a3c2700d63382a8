//! Forks: a child that has its parent's events up to a boundary, without copying what is sealed.

use std::io::{self, Read};

use reins_schema::{EndSeed, FORMAT, Header, ParentPosition, Payload, Position, SessionId};
use reins_session::{Fold, KnownTypes};
use uuid::Uuid;

use super::open::header_text;
use super::{Sessions, now, silent, snapshot, tell};
use crate::log::Stands;
use crate::medium::{Held, Inherit, NewSession, Segment, SegmentInfo};
use crate::reading::{Found, Place, Reader, Source, Start, fold_log};
use crate::{StoreError, check_id};

/// A segment that is being written to and is smaller is copied: sharing it would leave the parent
/// with a tiny segment for each fork.
const SHARED_MIN: u64 = 32 << 10;

/// A child is given no larger snapshot: many forks of a session take little space, and one that is
/// worked in makes its own.
const SNAPSHOT_MAX: usize = 16 << 10;

/// How far back the start of a turn is searched at first, in events.
const BACK: u64 = 4096;

/// The last event that a child shares.
struct Boundary {
    at: Position,
    place: Place,
}

/// What a child takes over.
struct Share {
    /// Whole segments, in order.
    whole: Vec<u32>,
    /// Segments that cannot be shared, and how much of each is copied. They keep their numbers:
    /// what counts of a segment is said by its number.
    copied: Vec<(u32, u64)>,
    /// The number of the child's active segment.
    next: u32,
}

impl Sessions {
    pub(super) fn fork_now(
        &self,
        parent: &SessionId,
        at: Option<u64>,
    ) -> Result<Header, StoreError> {
        check_id(parent)?;
        let mut held = match self.medium().take(parent) {
            Ok(held) => Some(held),
            Err(StoreError::Busy { .. }) => None,
            Err(error) => return Err(error),
        };
        let (stored, source) = self.facts(parent)?;
        let own = stored.header;
        let at = match at {
            Some(at) => at,
            None => self.last_boundary(&source, &own)?,
        };
        let boundary = find(&source, at)?;
        let share = share(&source, held.as_deref_mut(), &boundary.place)?;
        let bounds = bounds(&source, share.next, at);
        let header = Header {
            format: FORMAT,
            id: SessionId::new(Uuid::now_v7().to_string()),
            created_at: now(),
            parent: Some(ParentPosition {
                session: parent.clone(),
                at: boundary.at,
                segments: bounds,
            }),
            ..own.clone()
        };
        self.make_child(&source, &own, header, &share)
    }

    /// The last event that is outside a turn.
    fn last_boundary(&self, source: &Source, own: &Header) -> Result<u64, StoreError> {
        let start = || self.start(source, own, KnownTypes::default()).0;
        let (folded, _) = self.fold_beside(source, &start, &silent())?;
        let absent = || StoreError::NoEvent { id: source.id.clone(), seq: 0, last: None };
        let last = folded.last.map(|(at, _)| at.seq);
        let last = last.or(folded.fold.next_seq().checked_sub(1)).ok_or_else(absent)?;
        let Some(turn) = folded.fold.open_turn() else { return Ok(last) };
        let turn = turn.number();
        before_turn(source, last)?.ok_or_else(|| StoreError::InsideTurn {
            id: source.id.clone(),
            seq: last,
            turn,
            before: None,
        })
    }

    /// Folds what the child shares, as it will see it, and makes it.
    fn make_child(
        &self,
        source: &Source,
        own: &Header,
        mut header: Header,
        share: &Share,
    ) -> Result<Header, StoreError> {
        let bounds = header.parent.as_ref().map(|parent| &parent.segments);
        let at = header.parent.as_ref().map_or(0, |parent| parent.at.seq);
        let view = source_up_to(source, bounds.cloned().unwrap_or_default(), at)?;
        let known = KnownTypes::default();
        let stored = source.medium.snapshot(&source.id);
        let usable = stored.and_then(|text| snapshot::restore(&text, own, &header, known.clone()));
        let start = match usable.filter(|usable| usable.at.seq <= at) {
            Some(usable) => usable.into(),
            None => Start::Whole { fold: Fold::new(header.clone(), known), reached: None },
        };
        let folded = fold_log(&view, start, &silent())?;
        let mut fold = folded.fold;
        if let Some(turn) = fold.open_turn() {
            return Err(StoreError::InsideTurn {
                id: source.id.clone(),
                seq: at,
                turn: turn.number(),
                before: before_turn(source, at)?,
            });
        }
        header.cwd = fold.cwd().to_owned();
        // Of two events with the number, the one that counts.
        if let (Some(parent), Some((chosen, _))) = (&mut header.parent, folded.last)
            && chosen.seq == at
        {
            parent.at = chosen;
        }
        let seed = tell::event(at + 1, &Payload::EndSeed(EndSeed {}))?;
        let (line, sum) = seed.encode().map_err(|source| StoreError::Encode {
            seq: seed.seq,
            kind: seed.body.kind.clone(),
            source,
        })?;
        // A child of a damaged parent reads everything at first, and mends its own.
        let is_sound = folded.plan.is_empty() && fold.apply(&seed).is_ok();
        let stands = Stands { at: Position { seq: seed.seq, sum }, segment: share.next, offset: 0 };
        let path = self.medium().path(&header.id);
        let broken = |e: serde_json::Error| StoreError::io(&path, e.into());
        let text = header_text(&header).map_err(broken)?;
        let snapshot = match fold.snapshot() {
            Ok(fold) if is_sound => Some(snapshot::encode(&header, stands, &fold).map_err(broken)?),
            _ => None,
        };
        let snapshot = snapshot.filter(|text| text.len() <= SNAPSHOT_MAX);
        let blobs = self.medium().blobs(&source.id)?;
        let inherit = Inherit {
            parent: &source.id,
            segments: share.whole.clone(),
            blobs: blobs.into_iter().map(|(name, _)| name).collect(),
        };
        let mut copied: Vec<(u32, Box<dyn Read>)> = Vec::with_capacity(share.copied.len());
        for (number, end) in share.copied.iter().copied() {
            let segment = self.medium().segment(&source.id, number)?;
            copied.push((number, Box::new(Beginning { segment, offset: 0, end })));
        }
        let made = self.medium().create(NewSession {
            id: &header.id,
            header: &text,
            inherit: Some(inherit),
            sealed: copied,
            lines: &line,
            snapshot: snapshot.as_deref(),
        })?;
        drop(made);
        Ok(header)
    }
}

/// The parent's log as far as the child shares it.
fn source_up_to(source: &Source, mut bounds: Vec<u64>, at: u64) -> Result<Source, StoreError> {
    let last = source.medium.segments(&source.id)?.last().map_or(0, |info| info.number);
    let length = usize::try_from(last).unwrap_or(usize::MAX).saturating_add(1);
    if bounds.len() < length {
        bounds.resize(length, at);
    }
    Ok(Source { bounds, ..source.clone() })
}

/// The event with a number, and where it stands.
fn find(source: &Source, at: u64) -> Result<Boundary, StoreError> {
    let mut reader = Reader::from_seq(source, at)?;
    while let Some(found) = reader.next()? {
        if let Found::Event { event, sum, place } = found {
            if event.seq == at {
                return Ok(Boundary { at: Position { seq: at, sum }, place });
            }
            if event.seq > at {
                break;
            }
        }
    }
    let mut last = None;
    let mut reader = Reader::from_seq(source, at.saturating_sub(BACK))?;
    while let Some(found) = reader.next()? {
        if let Found::Event { event, .. } = found {
            last = last.max(Some(event.seq));
        }
    }
    Err(StoreError::NoEvent { id: source.id.clone(), seq: at, last })
}

/// The last event before the start of the turn that is open at `at`.
fn before_turn(source: &Source, at: u64) -> Result<Option<u64>, StoreError> {
    let mut back = BACK;
    loop {
        let from = at.saturating_sub(back);
        let (mut before, mut last) = (None, None);
        let mut reader = Reader::from_seq(source, from)?;
        while let Some(found) = reader.next()? {
            let Found::Event { event, .. } = found else { continue };
            if event.seq > at {
                break;
            }
            match event.body.kind.as_str() {
                "turn/start" => before = last,
                "turn/end" => before = None,
                _ => {}
            }
            last = Some(event.seq);
        }
        if before.is_some() || from == 0 {
            return Ok(before);
        }
        back = back.saturating_mul(8);
    }
}

/// For each segment that the child has of the parent, the last number that counts.
fn bounds(source: &Source, segments: u32, at: u64) -> Vec<u64> {
    let count = usize::try_from(segments).unwrap_or(usize::MAX);
    let inherited = source.bounds.iter().copied().chain(std::iter::repeat(u64::MAX));
    inherited.take(count).map(|bound| bound.min(at)).collect()
}

/// Which segments are shared, and which lines are copied. Of a parent that nobody uses, whole
/// segments are sealed for that, when nothing in them is damaged.
fn share(
    source: &Source,
    held: Option<&mut (dyn Held + '_)>,
    end: &Place,
) -> Result<Share, StoreError> {
    let all = source.medium.segments(&source.id)?;
    let wanted: Vec<SegmentInfo> =
        all.iter().copied().filter(|info| info.number <= end.segment).collect();
    let is_active = |info: &SegmentInfo| all.last().is_some_and(|last| last.number == info.number);
    if let Some(held) = held {
        for info in wanted.iter().filter(|info| !info.is_sealed) {
            if is_active(info) {
                if info.stored < SHARED_MIN || !is_sound(source, info)? {
                    continue;
                }
                held.begin_segment(info.number.saturating_add(1))?;
            }
            held.sealer().seal(info.number)?;
        }
    }
    let all = source.medium.segments(&source.id)?;
    let sealed = |number: u32| all.iter().any(|info| info.number == number && info.is_sealed);
    let next = end.segment.saturating_add(1);
    let mut share = Share { whole: Vec::new(), copied: Vec::new(), next };
    for info in &wanted {
        if sealed(info.number) {
            share.whole.push(info.number);
        } else if info.number == end.segment {
            share.copied.push((end.segment, end.offset + end.bytes));
        } else {
            // The parent's writer has not sealed it yet.
            let segment = source.medium.segment(&source.id, info.number)?;
            share.copied.push((info.number, segment.length()));
        }
    }
    Ok(share)
}

/// Whether all of a segment is verified events.
fn is_sound(source: &Source, info: &SegmentInfo) -> Result<bool, StoreError> {
    let start = Place { segment: info.number, offset: 0, bytes: 0, line: None };
    let unbounded = Source { bounds: Vec::new(), ..source.clone() };
    let mut reader = Reader::from_place(&unbounded, start, 0)?;
    let mut next = None;
    while let Some(found) = reader.next()? {
        match found {
            Found::Event { event, .. } if next.is_none_or(|next| next == event.seq) => {
                next = event.seq.checked_add(1);
            }
            Found::Event { .. } | Found::Damaged { .. } => return Ok(false),
        }
    }
    Ok(true)
}

/// The beginning of a segment.
struct Beginning {
    segment: Box<dyn Segment>,
    offset: u64,
    end: u64,
}

impl Read for Beginning {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.offset).unwrap_or(usize::MAX);
        let wanted = left.min(buffer.len());
        if wanted == 0 {
            return Ok(0);
        }
        let read = self.segment.read_at(self.offset, &mut buffer[..wanted])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.offset += read as u64;
        Ok(read)
    }
}
