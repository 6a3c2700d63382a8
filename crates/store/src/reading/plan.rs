//! What opening would change in a damaged log, and doing it. What is changed is kept before.
//!
//! Every step leaves a log that folds to the same history, so a plan that was interrupted is made
//! again from what is there.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::branches::{Branch, Lookup, Record, is_part};
use super::fold::{End, Finding, Meaning};
use super::reader::count;
use super::{Place, Reader, Source};
use crate::medium::{Held, Segment, SegmentInfo};
use crate::{Damage, DamageKind, StoreError};
use reins_schema::{SessionRecovered, SourceRange};

/// What is told of one opening; more is told together.
const TOLD_MAX: usize = 16;

/// How many ranges of numbers one entry lists; what is more goes into further entries.
const RANGES_MAX: usize = 10_000;

/// How many names of kept files one entry lists.
const NAMES_MAX: usize = 8;

pub(super) const REPORT: &str = "this is a defect of Reins, please report it";

/// The log was changed between two looks, though nobody else may.
pub(super) fn changing(source: &Source) -> StoreError {
    let path = source.medium.path(&source.id);
    let advice = "end the program that changes it, and try again";
    StoreError::unreadable(&path, "the log changes while it is read", advice)
}

/// What opening changes and says.
#[derive(Debug)]
pub(crate) struct Plan {
    source: Source,
    /// Segments that get another content, and what they lose.
    replace: BTreeMap<u32, Vec<Span>>,
    /// The segment that is cut, and where.
    cut: Option<(u32, u64)>,
    keep: Vec<Vec<Record>>,
    told: Vec<Told>,
    end: Option<(SegmentInfo, u64)>,
}

/// Bytes of a segment that go; none of them when only a line feed is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    start: u64,
    end: u64,
}

/// A finding, before it is known where its bytes are kept.
#[derive(Debug)]
struct Told {
    damage: String,
    bytes: u64,
    kept: Kept,
    lost: Vec<SourceRange>,
    aside: Vec<SourceRange>,
    branch: Option<SourceRange>,
}

#[derive(Clone, Copy, Debug)]
enum Kept {
    /// Nothing is taken out.
    Nothing,
    /// With the segment as it was, or what was cut off it.
    Segment(u32),
    /// As a branch: its index in the plan.
    Branch(usize),
}

/// What [`make`] makes of findings.
pub(super) struct Made {
    pub(super) damage: Vec<Damage>,
    pub(super) plan: Plan,
}

/// Judges the findings by the branch that was chosen.
pub(super) fn make(
    source: &Source,
    findings: &[Finding],
    branches: &[Branch],
    chosen: usize,
    others: Vec<Vec<Record>>,
    reader: &Reader,
) -> Result<Made, StoreError> {
    let untold = branches[chosen].fold.untold();
    let mut maker = Maker {
        source,
        damage: Vec::new(),
        told: Vec::new(),
        spans: BTreeMap::new(),
        paths: HashMap::new(),
        lost_before: None,
    };
    for finding in findings {
        let is_ours = |seq| is_part(branches, chosen, finding.branch, seq);
        let has_bytes = finding.place.bytes > 0;
        let meaning = match finding.meaning {
            // In another history: there are bytes, or there is nothing.
            Meaning::Hole(first, _) if !is_ours(first) && has_bytes => Meaning::Stray,
            Meaning::Hole(first, _) | Meaning::Aside(first, _) if !is_ours(first) => continue,
            // A `session/recovered` in the log says it.
            Meaning::Hole(first, last) if !has_bytes && !names(&untold.lost, first, last) => {
                continue;
            }
            Meaning::Aside(first, last) if !names(&untold.aside, first, last) => continue,
            meaning => meaning,
        };
        maker.take(finding, meaning)?;
    }
    for (at, records) in others.iter().enumerate() {
        maker.branch(at, records)?;
    }
    maker.damage.sort_by_key(|(place, _)| (place.segment, place.offset));
    let damage = maker.damage.into_iter().map(|(_, damage)| damage).collect();
    let mut plan = Plan {
        source: source.clone(),
        replace: maker.spans,
        cut: None,
        keep: others,
        told: maker.told,
        end: reader.end(),
    };
    plan.arrange(reader.stops())?;
    Ok(Made { damage, plan })
}

/// Whether one of the ascending ranges has a number of `first..=last`.
fn names(ranges: &[SourceRange], first: u64, last: u64) -> bool {
    let at = ranges.partition_point(|range| range.bounds().1 < first);
    ranges.get(at).is_some_and(|range| range.bounds().0 <= last)
}

struct Maker<'a> {
    source: &'a Source,
    damage: Vec<(Place, Damage)>,
    told: Vec<Told>,
    spans: BTreeMap<u32, Vec<Span>>,
    paths: HashMap<u32, PathBuf>,
    /// The hole that the last finding was in; it is lost once.
    lost_before: Option<(u64, u64)>,
}

impl Maker<'_> {
    fn take(&mut self, finding: &Finding, meaning: Meaning) -> Result<(), StoreError> {
        let place = finding.place;
        let mut problem = finding.problem.clone();
        let (mut lost, mut aside) = (Vec::new(), Vec::new());
        let mut kept = Kept::Segment(place.segment);
        let kind = match meaning {
            Meaning::Torn => DamageKind::Torn,
            Meaning::Stray => DamageKind::Stray,
            Meaning::Hole(first, last) => {
                problem = format!("{problem}; {} lost", are(first, last));
                if self.lost_before.replace((first, last)) != Some((first, last)) {
                    lost.push(range(first, last));
                }
                if finding.place.bytes == 0 {
                    kept = Kept::Nothing;
                }
                DamageKind::Hole { first, last }
            }
            Meaning::Aside(first, last) => {
                problem = format!("{} set aside: {problem}", are(first, last));
                aside.push(range(first, last));
                kept = Kept::Nothing;
                DamageKind::Refused { seq: first }
            }
            Meaning::Repeated(first, last) => {
                let verb = if first == last { "stands" } else { "stand" };
                problem = format!("{} {verb} there again", numbers(first, last));
                DamageKind::Repeated { seq: first }
            }
            Meaning::Unplaced(first, last) => {
                problem = format!("{} set aside: {problem}", are(first, last));
                DamageKind::Refused { seq: first }
            }
        };
        if matches!(kept, Kept::Segment(_)) {
            self.drop_bytes(place);
        }
        let path = self.path(place.segment)?;
        let from = match kind {
            DamageKind::Torn => format!("the end of {} from", name(&path)),
            _ => format!("{},", name(&path)),
        };
        let damage = format!("{from} byte {}: {problem}", place.offset);
        let bytes = if matches!(kept, Kept::Nothing) { 0 } else { place.bytes };
        self.told.push(Told { damage, bytes, kept, lost, aside, branch: None });
        self.found(place, path, problem, kind);
        Ok(())
    }

    fn branch(&mut self, at: usize, records: &[Record]) -> Result<(), StoreError> {
        let (Some(head), Some(tail)) = (records.first(), records.last()) else { return Ok(()) };
        let (first, last) = (head.position.seq, tail.position.seq);
        for record in records {
            self.drop_bytes(record.place);
        }
        let path = self.path(head.place.segment)?;
        let bytes = records.iter().map(|record| record.place.bytes).sum();
        let problem = format!(
            "another history: {}, {}",
            numbers(first, last),
            count(records.len() as u64, "record")
        );
        let damage = format!("{}, byte {}: {problem}", name(&path), head.place.offset);
        let (lost, aside) = (Vec::new(), Vec::new());
        let (kept, branch) = (Kept::Branch(at), Some(range(first, last)));
        self.told.push(Told { damage, bytes, kept, lost, aside, branch });
        self.found(head.place, path, problem, DamageKind::Branch { first, last });
        Ok(())
    }

    fn found(&mut self, place: Place, path: PathBuf, problem: String, kind: DamageKind) {
        let Place { offset, bytes, line, .. } = place;
        self.damage.push((place, Damage { path, offset, bytes, line, problem, kind }));
    }

    fn drop_bytes(&mut self, place: Place) {
        let span = Span { start: place.offset, end: place.end() };
        self.spans.entry(place.segment).or_default().push(span);
    }

    fn path(&mut self, segment: u32) -> Result<PathBuf, StoreError> {
        if let Some(path) = self.paths.get(&segment) {
            return Ok(path.clone());
        }
        let path = match self.source.segment(segment)? {
            Some(segment) => segment.place(),
            None => self.source.medium.path(&self.source.id),
        };
        self.paths.insert(segment, path.clone());
        Ok(path)
    }
}

fn numbers(first: u64, last: u64) -> String {
    if first == last { format!("event {first}") } else { format!("events {first} to {last}") }
}

fn are(first: u64, last: u64) -> String {
    let verb = if first == last { "is" } else { "are" };
    format!("{} {verb}", numbers(first, last))
}

fn range(first: u64, last: u64) -> SourceRange {
    if first == last { SourceRange::One(first) } else { SourceRange::Range(first, last) }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

impl Plan {
    /// Nothing is changed and nothing is said.
    pub(crate) fn is_empty(&self) -> bool {
        self.told.is_empty()
    }

    /// Where the last segment is cut, if it is.
    pub(super) fn cut_length(&self) -> Option<u64> {
        self.cut.map(|(_, length)| length)
    }

    /// Brings spans in order, and cuts what needs no new content.
    fn arrange(&mut self, stops: &[(u32, u64)]) -> Result<(), StoreError> {
        for spans in self.replace.values_mut() {
            spans.sort_unstable();
            spans.dedup();
            let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
            for span in spans.drain(..) {
                match merged.last_mut() {
                    Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
                    _ => merged.push(span),
                }
            }
            *spans = merged;
        }
        // What belongs to the parent only needs not be readable.
        for (number, offset) in stops {
            if let Some(spans) = self.replace.get_mut(number) {
                spans.push(Span { start: *offset, end: u64::MAX });
            }
        }
        let Some((info, length)) = self.end else { return Ok(()) };
        let Some(&[Span { start, end }]) = self.replace.get(&info.number).map(Vec::as_slice) else {
            return Ok(());
        };
        if info.is_sealed || start == end || end != length {
            return Ok(());
        }
        if start == 0 || self.has_feed_before(info.number, start)? {
            self.replace.remove(&info.number);
            self.cut = Some((info.number, start));
        }
        Ok(())
    }

    fn has_feed_before(&self, number: u32, offset: u64) -> Result<bool, StoreError> {
        let mut segment = self.open(number)?;
        let mut byte = [0];
        let read = segment.read_at(offset - 1, &mut byte);
        let read = read.map_err(|e| StoreError::io(&segment.place(), e))?;
        Ok(read == 1 && byte == *b"\n")
    }

    fn open(&self, number: u32) -> Result<Box<dyn Segment>, StoreError> {
        self.source.segment(number)?.ok_or_else(|| changing(&self.source))
    }

    /// Does it, and returns what there is to say and where the log ends then.
    pub(crate) fn carry_out(
        self,
        held: &mut dyn Held,
    ) -> Result<(Vec<SessionRecovered>, Option<End>), StoreError> {
        let mut branches = Vec::new();
        for records in &self.keep {
            let mut lines = Lined::new(&self.source, records);
            branches.push(held.keep(&branch_name(records), &mut lines)?);
        }
        let mut originals = HashMap::new();
        let mut end = self.end.map(|(info, length)| End {
            segment: info.number,
            length,
            is_sealed: info.is_sealed,
        });
        let segments = self.source.medium.segments(&self.source.id)?;
        // From the first to the last: what was cleaned says more and more which history counts.
        for (number, spans) in &self.replace {
            let is_sealed = segments.iter().any(|info| info.number == *number && info.is_sealed);
            let suffix = if is_sealed { ".zst" } else { "" };
            let name = format!("original-{number:08}.log{suffix}");
            let mut rest = Rest::new(self.open(*number)?, spans);
            let name = held.replace(*number, &mut rest, &name)?;
            if let Some(end) = end.as_mut().filter(|end| end.segment == *number) {
                end.length = rest.given;
            }
            originals.insert(*number, name);
        }
        if let Some((number, length)) = self.cut {
            let name = match length {
                0 => format!("original-{number:08}.log"),
                _ => format!("torn-{number:08}-{length}.bytes"),
            };
            let name = held.cut(number, length, &name)?;
            if let Some(end) = &mut end {
                end.length = length;
            }
            originals.insert(number, name);
        }
        Ok((say(self.told, &originals, &branches), end))
    }
}

fn branch_name(records: &[Record]) -> String {
    let first = records.first().map(|record| record.position);
    let (seq, sum) = first.map_or((0, 0), |position| (position.seq, position.sum));
    format!("branch-{seq}-{sum:08x}.log")
}

/// One entry for each finding; those beyond the last that fits go with it.
fn say(
    told: Vec<Told>,
    originals: &HashMap<u32, String>,
    branches: &[String],
) -> Vec<SessionRecovered> {
    let total = told.len();
    let mut said: Vec<SessionRecovered> = Vec::new();
    // Branches first: each must be named with its file.
    let (first, rest): (Vec<Told>, Vec<Told>) =
        told.into_iter().partition(|told| told.branch.is_some());
    let mut names: Vec<String> = Vec::new();
    for told in first.into_iter().chain(rest) {
        let kept_in = match told.kept {
            Kept::Nothing => String::new(),
            Kept::Segment(number) => originals.get(&number).cloned().unwrap_or_default(),
            Kept::Branch(at) => branches.get(at).cloned().unwrap_or_default(),
        };
        if said.len() < TOLD_MAX {
            names = vec![kept_in.clone()];
            said.push(SessionRecovered {
                damage: told.damage,
                cut_bytes: told.bytes,
                kept_in,
                lost: told.lost,
                aside: told.aside,
                branch: told.branch,
            });
        } else if let Some(last) = said.last_mut() {
            last.cut_bytes += told.bytes;
            last.lost.extend(told.lost);
            last.aside.extend(told.aside);
            if !kept_in.is_empty() && !names.contains(&kept_in) && names.len() < NAMES_MAX {
                names.push(kept_in);
            }
        }
    }
    if total > TOLD_MAX
        && let Some(last) = said.last_mut()
    {
        let more = count((total - TOLD_MAX) as u64, "more place");
        last.damage.push_str(&format!("; and {more}, whose bytes are in the files that are kept"));
        names.retain(|name| !name.is_empty());
        last.kept_in = names.join(", ");
    }
    said.into_iter().flat_map(spread).collect()
}

/// An entry whose ranges fit a line, and those that list the rest of them.
fn spread(mut told: SessionRecovered) -> Vec<SessionRecovered> {
    let (lost, aside) = (joined(told.lost), joined(told.aside));
    let damage = format!("{}; more of its numbers", told.damage);
    let mut lost = lost.chunks(RANGES_MAX).map(<[SourceRange]>::to_vec);
    let mut aside = aside.chunks(RANGES_MAX).map(<[SourceRange]>::to_vec);
    told.lost = lost.next().unwrap_or_default();
    told.aside = aside.next().unwrap_or_default();
    let mut entries = vec![told];
    loop {
        let (lost, aside) = (lost.next(), aside.next());
        if lost.is_none() && aside.is_none() {
            return entries;
        }
        entries.push(SessionRecovered {
            damage: damage.clone(),
            lost: lost.unwrap_or_default(),
            aside: aside.unwrap_or_default(),
            ..SessionRecovered::default()
        });
    }
}

/// The ranges in order, those that touch as one.
fn joined(mut ranges: Vec<SourceRange>) -> Vec<SourceRange> {
    ranges.sort_unstable_by_key(|range| range.bounds());
    let mut all: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (first, last) in ranges.iter().map(|range| range.bounds()) {
        match all.last_mut() {
            Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
            _ => all.push((first, last)),
        }
    }
    all.into_iter().map(|(first, last)| range(first, last)).collect()
}

/// A segment's content without some spans, every line with its line feed.
struct Rest<'a> {
    segment: Box<dyn Segment>,
    spans: &'a [Span],
    at: u64,
    given: u64,
    last: u8,
}

impl<'a> Rest<'a> {
    fn new(segment: Box<dyn Segment>, spans: &'a [Span]) -> Self {
        Self { segment, spans, at: 0, given: 0, last: b'\n' }
    }
}

impl Read for Rest<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.segment.length();
        let until = loop {
            match self.spans.first() {
                Some(span) if span.start <= self.at => {
                    self.at = self.at.max(span.end.min(length));
                    self.spans = &self.spans[1..];
                    if self.last != b'\n' && !buffer.is_empty() {
                        break self.at;
                    }
                }
                Some(span) => break span.start.min(length),
                None => break length,
            }
        };
        if buffer.is_empty() {
            return Ok(0);
        }
        let space = usize::try_from(until - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let read = if space == 0 {
            if self.last == b'\n' {
                return Ok(0);
            }
            buffer[0] = b'\n';
            1
        } else {
            let read = self.segment.read_at(self.at, &mut buffer[..space])?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.at += read as u64;
            read
        };
        self.last = buffer[read - 1];
        self.given += read as u64;
        Ok(read)
    }
}

/// Records as the lines of a log.
struct Lined<'a> {
    lookup: Lookup<'a>,
    records: std::slice::Iter<'a, Record>,
    line: io::Cursor<Vec<u8>>,
}

impl<'a> Lined<'a> {
    fn new(source: &'a Source, records: &'a [Record]) -> Self {
        let (lookup, line) = (Lookup::new(source), io::Cursor::default());
        Self { lookup, records: records.iter(), line }
    }
}

impl Read for Lined<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.line.position() == self.line.get_ref().len() as u64
            && let Some(record) = self.records.next()
        {
            let line = self.lookup.line(record.place).map_err(io::Error::other)?;
            let bytes = self.line.get_mut();
            bytes.clear();
            bytes.extend_from_slice(line);
            if bytes.last() != Some(&b'\n') {
                bytes.push(b'\n');
            }
            self.line.set_position(0);
        }
        self.line.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However much is lost, each entry fits a line, and together they name all of it.
    #[test]
    fn what_is_lost_is_told_in_entries_of_bounded_size() {
        let lost = |first: u64, last: u64| Told {
            damage: "a hole".to_owned(),
            bytes: 1,
            kept: Kept::Nothing,
            lost: vec![range(first, last)],
            aside: Vec::new(),
            branch: None,
        };
        let apart = say((0..30_000).map(|n| lost(2 * n, 2 * n)).collect(), &HashMap::new(), &[]);
        assert!(apart.len() <= TOLD_MAX + 3, "{}", apart.len());
        assert!(apart.iter().all(|told| told.lost.len() <= RANGES_MAX));
        assert_eq!(apart.iter().map(|told| told.cut_bytes).sum::<u64>(), 30_000);
        let named: Vec<u64> =
            apart.iter().flat_map(|told| &told.lost).map(|range| range.bounds().0).collect();
        assert_eq!(named, (0..30_000).map(|n| 2 * n).collect::<Vec<_>>());
        let close = say((0..30_000).map(|n| lost(n, n)).collect(), &HashMap::new(), &[]);
        assert_eq!(close.len(), TOLD_MAX);
        assert_eq!(close[TOLD_MAX - 1].lost, [SourceRange::Range(15, 29_999)]);
    }
}
