//! Folds a log, whatever is wrong with it, and plans what opening would mend.

use reins_schema::{Event, Position};
use reins_session::{Applied, Fold};

use super::branches::{Branch, Contest, Record};
use super::plan::{self, Plan};
use super::{Found, Place, Reader, Source};
use crate::medium::SegmentInfo;
use crate::{Damage, Progress, StoreError};

/// Progress is told once in so many records.
const TOLD_EACH: u64 = 4096;

/// Where folding begins.
pub(crate) enum Start {
    /// At the first event, with an empty fold. `reached`: the log is known to have had the event
    /// of this number; when it ends before, the rest is lost.
    Whole { fold: Fold, reached: Option<u64> },
    /// After an event that the fold contains, which stands at `place` (only its segment and offset
    /// count). When another one stands there, everything is read.
    After { fold: Fold, place: Place, position: Position },
}

/// The good end of the last segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) segment: u32,
    pub(crate) length: u64,
    /// Nothing can be appended to it.
    pub(crate) is_sealed: bool,
}

/// What a log adds up to.
#[derive(Debug)]
pub(crate) struct Folded {
    pub(crate) fold: Fold,
    /// In the order of the log.
    pub(crate) damage: Vec<Damage>,
    /// What opening changes and says. Empty for a log that is right.
    pub(crate) plan: Plan,
    /// `None` when the log has no segment. Of a plan that is not empty, what it returns counts.
    pub(crate) end: Option<End>,
    /// The last event, and where it is.
    pub(crate) last: Option<(Position, Place)>,
    /// Events that were read and folded.
    pub(crate) folded: u64,
}

/// Folds a log. Never writes. `progress` hears of bytes as they are stored.
///
/// # Errors
/// Absent; unreadable; changed by somebody while it is read. Damage is no error.
pub(crate) fn fold_log(
    source: &Source,
    start: Start,
    progress: &Progress,
) -> Result<Folded, StoreError> {
    let (empty, reached) = match start {
        Start::Whole { fold, reached } => (fold, reached),
        Start::After { fold, place, position } => {
            let empty = Fold::new(fold.header().clone(), fold.known().clone());
            if let Some(reader) = reader_after(source, place, position)?
                && let Ok(folded) =
                    Pass::new(source, fold, Some((position, place)), None).run(reader, progress)?
            {
                return Ok(folded);
            }
            (empty, Some(position.seq))
        }
    };
    let mut pass = Pass::new(source, empty.clone(), None, None);
    pass.reached = reached;
    let contested = match pass.run(Reader::whole(source)?, progress)? {
        Ok(folded) => return Ok(folded),
        Err(contested) => contested,
    };
    let contest = Contest::new(source.clone(), contested);
    let mut pass = Pass::new(source, empty, None, Some(contest));
    pass.reached = reached;
    match pass.run(Reader::whole(source)?, progress)? {
        Ok(folded) => Ok(folded),
        Err(_) => Err(plan::changing(source)),
    }
}

/// Behind the event at a place, if it stands there.
fn reader_after(
    source: &Source,
    place: Place,
    position: Position,
) -> Result<Option<Reader>, StoreError> {
    let mut reader = Reader::from_place(source, place, 0)?;
    let is_there = match reader.next()? {
        Some(Found::Event { event, sum, place: found }) => {
            (event.seq, sum) == (position.seq, position.sum)
                && (found.segment, found.offset) == (place.segment, place.offset)
        }
        _ => false,
    };
    Ok(is_there.then_some(reader))
}

/// Something that is wrong at a place.
#[derive(Debug)]
pub(super) struct Finding {
    pub(super) place: Place,
    pub(super) problem: String,
    pub(super) meaning: Meaning,
    /// The branch whose history it belongs to.
    pub(super) branch: usize,
}

/// What it means. Numbers are the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nothing valid follows so far.
    Torn,
    Hole(u64, u64),
    Stray,
    Repeated(u64, u64),
    /// Right records that do not fit; they stay in the log and mean nothing.
    Aside(u64, u64),
    /// Right records of used numbers that fit nowhere.
    Unplaced(u64, u64),
}

/// One reading of a log.
struct Pass<'a> {
    source: &'a Source,
    /// The oldest first; one unless numbers stand there twice.
    branches: Vec<Branch>,
    /// `None` as long as every number is new.
    contest: Option<Contest>,
    findings: Vec<Finding>,
    /// Damaged stretches behind the last event.
    loose: Vec<usize>,
    folded: u64,
    /// The log is known to have had this number.
    reached: Option<u64>,
}

impl<'a> Pass<'a> {
    fn new(
        source: &'a Source,
        fold: Fold,
        last: Option<(Position, Place)>,
        contest: Option<Contest>,
    ) -> Self {
        let branches = vec![Branch::first(fold, last)];
        let (findings, loose) = (Vec::new(), Vec::new());
        Self { source, branches, contest, findings, loose, folded: 0, reached: None }
    }

    /// `Err` with the lowest number that stands there twice, if nothing was prepared for that.
    fn run(
        mut self,
        mut reader: Reader,
        progress: &Progress,
    ) -> Result<Result<Folded, u64>, StoreError> {
        let mut seen = 0_u64;
        while let Some(found) = reader.next()? {
            seen += 1;
            if seen.is_multiple_of(TOLD_EACH) {
                let (done, total) = reader.progress();
                progress(done, total);
            }
            match found {
                Found::Damaged { place, problem } => self.damaged(place, problem),
                Found::Event { event, sum, place } => {
                    let due = self.branches[0].fold.next_seq();
                    if self.contest.is_none() && event.seq < due {
                        return survey(reader, event.seq, due).map(Err);
                    }
                    self.event(&event, sum, place)?;
                }
            }
        }
        let (done, total) = reader.progress();
        progress(done, total);
        self.finish(&reader).map(Ok)
    }

    fn damaged(&mut self, place: Place, problem: String) {
        let meaning = if place.bytes == 0 { Meaning::Stray } else { Meaning::Torn };
        if meaning == Meaning::Torn {
            self.loose.push(self.findings.len());
        }
        self.findings.push(Finding { place, problem, meaning, branch: 0 });
    }

    fn event(&mut self, event: &Event, sum: u32, place: Place) -> Result<(), StoreError> {
        let seq = event.seq;
        let (mut at, mut is_folded) = (0, false);
        if let Some(contest) = &mut self.contest {
            let after_damage = !self.loose.is_empty();
            match contest.place(&mut self.branches, event, sum, after_damage)? {
                Placing::Folded(branch) => (at, is_folded) = (branch, true),
                Placing::On(branch) => at = branch,
                Placing::Repeated => {
                    self.refuse(place, Meaning::Repeated(seq, seq), "");
                    return Ok(());
                }
                Placing::Nowhere => {
                    let why = "fits none of the histories that the log holds";
                    self.refuse(place, Meaning::Unplaced(seq, seq), why);
                    return Ok(());
                }
            }
            let record = Record { position: Position { seq, sum }, place };
            contest.record(&mut self.branches, at, record);
        }
        self.settle(at, seq, place);
        self.folded += 1;
        if !is_folded {
            self.fold(at, event, place)?;
        }
        self.branches[at].last = Some((Position { seq, sum }, place));
        Ok(())
    }

    fn fold(&mut self, at: usize, event: &Event, place: Place) -> Result<(), StoreError> {
        match self.branches[at].fold.apply_or_set_aside(event) {
            Ok(Applied::Folded) => {}
            Ok(Applied::Aside(error)) => {
                let (problem, meaning) = (error.to_string(), Meaning::Aside(event.seq, event.seq));
                self.note(Finding { place, problem, meaning, branch: at });
            }
            Err(error) => {
                let path = self.source.medium.path(&self.source.id);
                return Err(StoreError::unreadable(&path, error.to_string(), plan::REPORT));
            }
        }
        Ok(())
    }

    /// What lies before an event is lost numbers, or nothing.
    fn settle(&mut self, at: usize, seq: u64, place: Place) {
        let due = self.branches[at].fold.next_seq();
        let meaning = if seq > due { Meaning::Hole(due, seq - 1) } else { Meaning::Stray };
        if seq > due {
            self.branches[at].fold.lose(seq);
        }
        let mut explained = meaning == Meaning::Stray;
        for loose in self.loose.drain(..) {
            let finding = &mut self.findings[loose];
            finding.branch = at;
            finding.meaning = meaning;
            explained = true;
        }
        if !explained {
            let place = Place { bytes: 0, ..place };
            let problem = "records are missing before this one".to_owned();
            self.findings.push(Finding { place, problem, meaning, branch: at });
        }
    }

    /// A record that has no place in any history.
    fn refuse(&mut self, place: Place, meaning: Meaning, why: &str) {
        // What is damaged before it stays open: the next event says what it was.
        self.note(Finding { place, problem: why.to_owned(), meaning, branch: 0 });
    }

    /// Adds a finding, to the one before when it continues that.
    fn note(&mut self, new: Finding) {
        if let Some(before) = self.findings.last_mut()
            && before.branch == new.branch
            && (before.place.segment, before.place.end()) == (new.place.segment, new.place.offset)
            && let Some(meaning) = before.meaning.with(new.meaning)
        {
            before.meaning = meaning;
            before.place.bytes += new.place.bytes;
            return;
        }
        self.findings.push(new);
    }

    fn finish(self, reader: &Reader) -> Result<Folded, StoreError> {
        let Self { source, mut branches, contest, mut findings, folded, reached, .. } = self;
        let chosen = contest.as_ref().map_or(0, |_| super::branches::longest(&branches));
        let others = contest.map(|contest| contest.others(&branches, chosen)).unwrap_or_default();
        let end = reader.end();
        let due = branches[chosen].fold.next_seq();
        if let Some(reached) = reached.filter(|reached| *reached >= due) {
            branches[chosen].fold.lose(reached.saturating_add(1));
            let (segment, offset) = end.map_or((0, 0), |(info, length)| (info.number, length));
            let place = Place { segment, offset, bytes: 0, line: None };
            let problem = "the log ends here, and a snapshot was made of a longer one".to_owned();
            let meaning = Meaning::Hole(due, reached);
            findings.push(Finding { place, problem, meaning, branch: chosen });
        }
        let made = plan::make(source, &findings, &branches, chosen, others, reader)?;
        let Branch { fold, last, .. } = branches.swap_remove(chosen);
        let end = end.map(|(info, length): (SegmentInfo, u64)| End {
            segment: info.number,
            length: made.plan.cut_length().unwrap_or(length),
            is_sealed: info.is_sealed,
        });
        Ok(Folded { fold, damage: made.damage, plan: made.plan, end, last, folded })
    }
}

/// The rest of a log whose numbers are not all new: the lowest one that stands there twice.
fn survey(mut reader: Reader, mut lowest: u64, mut due: u64) -> Result<u64, StoreError> {
    while let Some(found) = reader.next()? {
        if let Found::Event { event, .. } = found {
            if event.seq < due {
                lowest = lowest.min(event.seq);
            } else {
                due = event.seq + 1;
            }
        }
    }
    Ok(lowest)
}

/// Where an event goes when numbers stand there twice.
pub(super) enum Placing {
    /// To that branch, which has folded it.
    Folded(usize),
    /// To that branch, whether it fits or not.
    On(usize),
    Repeated,
    Nowhere,
}

impl Meaning {
    /// Both as one, when the second continues the first.
    fn with(self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Repeated(first, a), Self::Repeated(b, last)) if a + 1 == b => {
                Some(Self::Repeated(first, last))
            }
            (Self::Aside(first, a), Self::Aside(b, last)) if a + 1 == b => {
                Some(Self::Aside(first, last))
            }
            (Self::Unplaced(first, a), Self::Unplaced(b, last)) if a + 1 == b => {
                Some(Self::Unplaced(first, last))
            }
            _ => None,
        }
    }
}
