//! Where the old text stands in a file: exactly, or after the smallest folding that finds it.

use std::ops::Range;

use memchr::memmem;
use unicode_normalization::char::is_combining_mark;

use super::view::{Folding, View};

/// Places counted before a text is called ambiguous.
const MAX_COUNTED: usize = 1000;
/// Places changed by one edit at most.
const MAX_PLACES: usize = 1_000_000;

/// Larger files are compared exactly, but for line ends: the rest takes long.
const MAX_FOLDED_FILE: usize = 4 << 20;
/// So are longer old texts.
const MAX_FOLDED_OLD: usize = 64 << 10;

/// Whether these are too large for the rules that ignore more than line ends.
pub(super) fn is_large(file: &[u8], old: &[u8]) -> bool {
    file.len() > MAX_FOLDED_FILE || old.len() > MAX_FOLDED_OLD
}

/// How the text was found, narrowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    Exact,
    LineEnds,
    TrailingBlanks,
    LookAlikes,
    BlanksAndLookAlikes,
}

impl Rule {
    const ALL: [Self; 5] = [
        Self::Exact,
        Self::LineEnds,
        Self::TrailingBlanks,
        Self::LookAlikes,
        Self::BlanksAndLookAlikes,
    ];

    /// How many of them, from the first, ignore line ends at most.
    const EXACT: usize = 2;

    /// For the model and for people.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::LineEnds => "line ends",
            Self::TrailingBlanks => "blanks at line ends",
            Self::LookAlikes => "look-alike characters",
            Self::BlanksAndLookAlikes => "blanks at line ends and look-alike characters",
        }
    }

    fn folding(self) -> Folding {
        Folding {
            line_ends: self != Self::Exact,
            trailing_blanks: matches!(self, Self::TrailingBlanks | Self::BlanksAndLookAlikes),
            look_alikes: matches!(self, Self::LookAlikes | Self::BlanksAndLookAlikes),
        }
    }
}

/// One place, as folded positions; `raw` is the same place in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) folded: Range<usize>,
    pub(super) raw: Range<usize>,
}

/// The places, in order, not overlapping, at least one.
pub(super) struct Found {
    pub(super) rule: Rule,
    pub(super) places: Vec<Place>,
    /// The file as the rule sees it.
    pub(super) file: View,
    /// The old text as the rule sees it.
    pub(super) old: View,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FindError {
    NotFound,
    /// More than one place; these are their first bytes, `more` when there are others.
    Ambiguous {
        rule: Rule,
        starts: Vec<usize>,
        more: bool,
    },
    /// More places than one edit changes.
    TooMany {
        limit: usize,
    },
}

/// Finds `old` (not empty) in `file`; with `all` every place, else the only one.
pub(super) fn find(file: &[u8], old: &[u8], all: bool) -> Result<Found, FindError> {
    // All places of a file with both kinds of line ends are only seen with the ends folded.
    let plain = old.contains(&b'\n') && !old.contains(&b'\r');
    let mixed = all && plain && memmem::find(file, b"\r\n").is_some();
    let end = if is_large(file, old) { Rule::EXACT } else { Rule::ALL.len() };
    let rules = &Rule::ALL[usize::from(mixed)..end];
    for &rule in rules {
        let view = View::new(file, rule.folding());
        let needle = View::new(old, rule.folding());
        let mut places = places(file, &view, &needle, rule, all);
        if places.len() > 1 && !all {
            let more = places.len() > MAX_COUNTED;
            places.truncate(MAX_COUNTED);
            let starts = places.into_iter().map(|place| place.raw.start).collect();
            return Err(FindError::Ambiguous { rule, starts, more });
        }
        if places.len() > MAX_PLACES {
            return Err(FindError::TooMany { limit: MAX_PLACES });
        }
        if places.is_empty() {
            continue;
        }
        let exact = places.iter().all(|place| file[place.raw.clone()] == *old);
        return Ok(Found {
            rule: if exact { Rule::Exact } else { rule },
            places,
            file: view,
            old: needle,
        });
    }
    Err(FindError::NotFound)
}

/// With `all` the places do not overlap; else overlapping ones count, because each is a place
/// that may be meant. One more than the limit is enough to know that there are too many.
fn places(file: &[u8], view: &View, needle: &View, rule: Rule, all: bool) -> Vec<Place> {
    let (hay, old) = (view.bytes(), needle.bytes());
    let mut places = Vec::new();
    if old.is_empty() {
        return places;
    }
    let finder = memmem::Finder::new(old);
    let limit = if all { MAX_PLACES } else { MAX_COUNTED };
    let mut from = 0;
    while places.len() <= limit
        && let Some(at) = finder.find(&hay[from..]).map(|at| at + from)
    {
        let end = at + old.len();
        let raw = view.raw_start(at).zip(view.raw_end(end));
        let admitted = raw.filter(|_| {
            let rest = &hay[end..];
            let at_line_end = rest.first().is_none_or(|byte| *byte == b'\n');
            (at_line_end || !needle.blank_end())
                && !(rule.folding().look_alikes && starts_with_mark(rest))
        });
        let whole = admitted.filter(|(start, end)| {
            rule != Rule::Exact || !(splits_line_end(file, *start) || splits_line_end(file, *end))
        });
        from = at + 1;
        if let Some((start, raw_end)) = whole {
            places.push(Place { folded: at..end, raw: start..raw_end });
            from = if all { end } else { at + 1 };
        }
    }
    places
}

/// Whether `at` lies between CR and LF.
fn splits_line_end(file: &[u8], at: usize) -> bool {
    at > 0 && file[at - 1] == b'\r' && file.get(at) == Some(&b'\n')
}

/// A match that ends before a combining mark would take a letter away from its accent.
fn starts_with_mark(rest: &[u8]) -> bool {
    let head = &rest[..rest.len().min(4)];
    let first = head.utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
    first.is_some_and(is_combining_mark)
}
