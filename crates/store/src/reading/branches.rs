//! Numbers that stand in a log twice: the histories of several writers, taken apart.
//!
//! Of the stretch from the lowest such number on, numbers, checksums and places are kept, nothing
//! else; what a new branch has in common with an older one is read again.

use std::collections::HashSet;
use std::io;

use reins_schema::{Event, Position};
use reins_session::{Applied, Fold};

use super::fold::Placing;
use super::{Place, Source, plan};
use crate::StoreError;
use crate::medium::Segment;

/// How many histories are told apart. Records beyond them fit nowhere.
const BRANCHES_MAX: usize = 16;

/// How often what branches have in common is folded again.
const REFOLDS_MAX: usize = 4 * BRANCHES_MAX;

/// How often an event that no branch takes as it is is tried on a copy.
const COPIES_MAX: usize = 8 * BRANCHES_MAX;

/// One history.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) fold: Fold,
    pub(super) last: Option<(Position, Place)>,
    /// The branch that it has everything before a number in common with.
    parent: Option<(usize, u64)>,
    /// Its own records, of the contested stretch.
    own: Vec<Record>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    pub(super) position: Position,
    pub(super) place: Place,
}

impl Branch {
    pub(super) fn first(fold: Fold, last: Option<(Position, Place)>) -> Self {
        Self { fold, last, parent: None, own: Vec::new() }
    }
}

/// The records of a branch that numbers below `below` have, oldest first.
fn path(branches: &[Branch], at: usize, below: u64) -> Vec<Record> {
    let branch = &branches[at];
    let mut records = match branch.parent {
        Some((parent, from)) => path(branches, parent, from.min(below)),
        None => Vec::new(),
    };
    records.extend(branch.own.iter().filter(|record| record.position.seq < below));
    records
}

/// Whether what `owner` has at a number is in the history of `at`.
pub(super) fn is_part(branches: &[Branch], at: usize, owner: usize, seq: u64) -> bool {
    let (mut at, mut below) = (at, u64::MAX);
    loop {
        if at == owner {
            return seq < below;
        }
        match branches[at].parent {
            Some((parent, from)) => (at, below) = (parent, below.min(from)),
            None => return false,
        }
    }
}

/// The branch with the most events; of equals the oldest.
pub(super) fn longest(branches: &[Branch]) -> usize {
    let lengths = (0..branches.len()).map(|at| path(branches, at, u64::MAX).len());
    let mut best = (0, 0);
    for (at, length) in lengths.enumerate() {
        if length > best.1 {
            best = (at, length);
        }
    }
    best.0
}

/// What is kept of a contested stretch.
pub(super) struct Contest {
    source: Source,
    /// The lowest number that stands there twice.
    lowest: u64,
    /// The fold of everything before it.
    common: Option<Fold>,
    seen: HashSet<(u64, u32)>,
    /// The branch of the last record, and how many records before it in a row are that branch's.
    run: (usize, u64),
    refolds: usize,
    copies: usize,
}

impl Contest {
    pub(super) fn new(source: Source, lowest: u64) -> Self {
        let seen = HashSet::new();
        Self { source, lowest, common: None, seen, run: (0, 0), refolds: 0, copies: 0 }
    }

    /// The branch that an event belongs to; makes one if need be.
    pub(super) fn place(
        &mut self,
        branches: &mut Vec<Branch>,
        event: &Event,
        sum: u32,
        after_damage: bool,
    ) -> Result<Placing, StoreError> {
        let seq = event.seq;
        if seq < self.lowest {
            return Ok(Placing::On(0));
        }
        if self.common.is_none() {
            self.common = Some(branches[0].fold.clone());
        }
        if self.seen.contains(&(seq, sum)) {
            return Ok(Placing::Repeated);
        }
        let due = |branch: &Branch| branch.fold.next_seq();
        let mut fitting: Vec<usize> =
            (0..branches.len()).filter(|at| due(&branches[*at]) == seq).collect();
        // Whoever wrote several records in a row goes on, past the end of others too; else the
        // oldest comes first.
        if self.run.1 > 0 {
            fitting.sort_by_key(|at| *at != self.run.0);
        }
        for at in &fitting {
            if self.takes(&mut branches[*at].fold, event) {
                return Ok(Placing::Folded(*at));
            }
        }
        // Behind a hole it continues what reaches nearest to it.
        let is_beyond = branches.iter().all(|branch| due(branch) < seq);
        if fitting.is_empty() && (is_beyond || after_damage) {
            let before = (0..branches.len()).filter(|at| due(&branches[*at]) < seq);
            let nearest = before.max_by_key(|at| (due(&branches[*at]), std::cmp::Reverse(*at)));
            if let Some(at) = nearest {
                return Ok(Placing::On(at));
            }
        }
        if let Some(branch) = self.begin(branches, event)? {
            branches.push(branch);
            return Ok(Placing::Folded(branches.len() - 1));
        }
        Ok(fitting.first().map_or(Placing::Nowhere, |at| Placing::On(*at)))
    }

    /// Writes down that an event belongs to a branch.
    pub(super) fn record(&mut self, branches: &mut [Branch], at: usize, record: Record) {
        if record.position.seq >= self.lowest {
            self.seen.insert((record.position.seq, record.position.sum));
            branches[at].own.push(record);
            self.run = if self.run.0 == at { (at, self.run.1 + 1) } else { (at, 0) };
        }
    }

    /// Of each branch but the chosen one, what that has not.
    pub(super) fn others(self, branches: &[Branch], chosen: usize) -> Vec<Vec<Record>> {
        let kept: HashSet<(u64, u32)> = path(branches, chosen, u64::MAX)
            .iter()
            .map(|record| (record.position.seq, record.position.sum))
            .collect();
        let others = (0..branches.len()).filter(|at| *at != chosen).map(|at| {
            let mut records = path(branches, at, u64::MAX);
            records.retain(|r| !kept.contains(&(r.position.seq, r.position.sum)));
            records
        });
        others.filter(|records| !records.is_empty()).collect()
    }

    /// Folds the next event if it fits; else nothing is changed.
    fn takes(&mut self, fold: &mut Fold, event: &Event) -> bool {
        // What the opening folds has to be what every later one folds, when nothing is contested
        // any more.
        let is_tried = fold.may_prove_unseen(event) && self.copies < COPIES_MAX;
        if !is_tried && fold.apply(event).is_ok() {
            return true;
        }
        if self.copies >= COPIES_MAX {
            return false;
        }
        // Behind a loss more fits, which only shows in a fold that it then has changed.
        self.copies += 1;
        let mut copy = fold.clone();
        let fits = matches!(copy.apply_or_set_aside(event), Ok(Applied::Folded));
        if fits {
            *fold = copy;
        }
        fits
    }

    /// A branch that has everything before the event in common with an older one, and takes it.
    fn begin(&mut self, branches: &[Branch], event: &Event) -> Result<Option<Branch>, StoreError> {
        if branches.len() >= BRANCHES_MAX {
            return Ok(None);
        }
        for (parent, older) in branches.iter().enumerate() {
            if older.fold.next_seq() <= event.seq || self.refolds >= REFOLDS_MAX {
                continue;
            }
            self.refolds += 1;
            let Some(mut fold) = self.common.clone() else { continue };
            let mut lookup = Lookup::new(&self.source);
            for record in path(branches, parent, event.seq) {
                let event = lookup.event(record.place)?;
                if event.seq > fold.next_seq() {
                    fold.lose(event.seq);
                }
                // What was set aside then is set aside again.
                drop(fold.apply_or_set_aside(&event));
            }
            if fold.next_seq() < event.seq {
                fold.lose(event.seq);
            }
            if matches!(fold.apply_or_set_aside(event), Ok(Applied::Folded)) {
                let (parent, last) = (Some((parent, event.seq)), None);
                return Ok(Some(Branch { fold, last, parent, own: Vec::new() }));
            }
        }
        Ok(None)
    }
}

/// Reads single records again.
pub(super) struct Lookup<'a> {
    source: &'a Source,
    open: Option<(u32, Box<dyn Segment>)>,
    line: Vec<u8>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(source: &'a Source) -> Self {
        Self { source, open: None, line: Vec::new() }
    }

    fn event(&mut self, place: Place) -> Result<Event, StoreError> {
        let line = self.line(place)?;
        let decoded = Event::decode(line.strip_suffix(b"\n").unwrap_or(line));
        decoded.map(|(event, _)| event).map_err(|_| plan::changing(self.source))
    }

    /// The bytes at a place.
    pub(super) fn line(&mut self, place: Place) -> Result<&[u8], StoreError> {
        if self.open.as_ref().is_none_or(|(number, _)| *number != place.segment) {
            let segment = self.source.segment(place.segment)?;
            let segment = segment.ok_or_else(|| plan::changing(self.source))?;
            self.open = Some((place.segment, segment));
        }
        let Some((_, segment)) = &mut self.open else {
            return Err(plan::changing(self.source));
        };
        self.line.resize(usize::try_from(place.bytes).unwrap_or(usize::MAX), 0);
        let mut filled = 0;
        while filled < self.line.len() {
            let at = place.offset + filled as u64;
            match segment.read_at(at, &mut self.line[filled..]) {
                Ok(0) => return Err(plan::changing(self.source)),
                Ok(read) => filled += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(StoreError::io(&segment.place(), e)),
            }
        }
        Ok(&self.line)
    }
}
