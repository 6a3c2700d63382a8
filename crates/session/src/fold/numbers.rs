//! Sets of event numbers.

use reins_schema::SourceRange;
use serde::{Deserialize, Serialize};

/// Numbers as ascending inclusive ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Numbers(Vec<(u64, u64)>);

impl Numbers {
    pub(super) fn add(&mut self, first: u64, last: u64) {
        let from = self.0.partition_point(|range| range.1.saturating_add(1) < first);
        let to = self.0.partition_point(|range| range.0 <= last.saturating_add(1));
        let joined = self.0[from..to]
            .iter()
            .fold((first, last), |(first, last), range| (first.min(range.0), last.max(range.1)));
        self.0.splice(from..to, [joined]);
    }

    pub(super) fn remove(&mut self, first: u64, last: u64) {
        let from = self.0.partition_point(|range| range.1 < first);
        let to = self.0.partition_point(|range| range.0 <= last);
        if from >= to {
            return;
        }
        let (start, end) = (self.0[from].0, self.0[to - 1].1);
        let before = (start < first).then(|| (start, first - 1));
        let after = (end > last).then(|| (last + 1, end));
        self.0.splice(from..to, before.into_iter().chain(after));
    }

    /// Takes out the first number after `seq`; if there is none, the first of all.
    pub(super) fn take_after(&mut self, seq: u64) -> Option<u64> {
        let at = self.0.partition_point(|range| range.1 <= seq);
        let number = match self.0.get(at) {
            Some((first, _)) => (*first).max(seq + 1),
            None => self.0.first()?.0,
        };
        self.remove(number, number);
        Some(number)
    }

    pub(super) fn ranges(&self) -> Vec<SourceRange> {
        let range = |&(first, last): &(u64, u64)| match first == last {
            true => SourceRange::One(first),
            false => SourceRange::Range(first, last),
        };
        self.0.iter().map(range).collect()
    }

    /// Whether these are such ranges, all of numbers below `end`.
    pub(super) fn holds(&self, end: u64) -> bool {
        let mut free = Some(0);
        self.0.iter().all(|&(first, last)| {
            let fits = free.is_some_and(|free| first >= free) && first <= last && last < end;
            free = last.checked_add(2);
            fits
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Random additions, removals and takings against a plain set.
    #[test]
    fn a_set_of_ranges_is_a_set_of_numbers() {
        let mut set = Numbers::default();
        let mut marks = BTreeSet::new();
        let mut chance = 7_u64;
        for _ in 0..5000 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            let first = (chance >> 33) % 12;
            let last = (first + (chance >> 40) % 4).min(11);
            match (chance >> 50) % 5 {
                0 | 1 => {
                    set.add(first, last);
                    marks.extend(first..=last);
                }
                2 | 3 => {
                    set.remove(first, last);
                    marks.retain(|n| !(first..=last).contains(n));
                }
                _ => {
                    let expected = marks.range(first + 1..).next().or(marks.first()).copied();
                    assert_eq!(set.take_after(first), expected);
                    if let Some(taken) = expected {
                        marks.remove(&taken);
                    }
                }
            }
            assert!(set.holds(12), "{set:?}");
            let named = |n: &u64| set.ranges().iter().any(|range| range.contains(*n));
            assert_eq!((0..12).filter(named).collect::<BTreeSet<_>>(), marks, "{set:?}");
        }
    }
}
