//! The list of sessions, with what it says about each kept in `index.sqlite`.
//!
//! The file is derived and never decides anything: which sessions there are says the medium, and a
//! row counts only while the session's stamp is still the one that it was made from. So a file
//! that is missing, locked, damaged or of another version costs time and nothing else.

mod kept;
mod row;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use reins_schema::{Header, SessionId};

use crate::medium::{Medium, Stamp};
use crate::{ListFilter, Listing, SessionState, SessionSummary, StoreError, check_id};
use kept::Kept;
use row::{Entry, Row, Seen};

/// Reads what a list says about a session from the session itself.
pub(crate) type Summarise<'a> = dyn Fn(&SessionId) -> Result<SummaryRow, StoreError> + Sync + 'a;

/// Is told how many sessions of how many were read, when these are many.
pub(crate) type Progressing<'a> = dyn Fn(u64, u64) + Sync + 'a;

/// From so many sessions to read on, progress is told.
const MUCH: usize = 64;
/// Threads that read sessions, at most; beyond it the disk decides.
const READERS_MAX: usize = 8;
/// From so many sessions on, a second thread pays for looking at them.
const SHARED_FROM: usize = 512;
/// A session that did not change for so long, outside a turn, is in nobody's hands.
const LIVE_WITHIN_MS: i64 = 24 * 60 * 60 * 1000;
/// Ids that an ambiguous beginning is answered with.
const AMBIGUOUS_MAX: usize = 8;

/// What a list says about a session, and what it was made from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SummaryRow {
    /// The number of the active segment.
    pub(crate) active: u32,
    /// Its state, looked at before anything else of the session was read; `None` when it has none.
    pub(crate) stamp: Option<Stamp>,
    /// The session's immutable facts.
    pub(crate) header: Header,
    /// The directory that it belongs to now.
    pub(crate) cwd: PathBuf,
    /// Last change of the log, Unix milliseconds.
    pub(crate) modified: i64,
    /// Bytes that all segments take on the medium.
    pub(crate) bytes: u64,
    /// The number of the next event.
    pub(crate) events: u64,
    /// A turn is open.
    pub(crate) in_turn: bool,
    /// Hidden from the plain list.
    pub(crate) archived: bool,
    /// The first words of a person.
    pub(crate) first_prompt: Option<String>,
    /// It can be read and something about it is damaged.
    pub(crate) problem: Option<String>,
}

/// The list and what is kept of it.
#[derive(Debug)]
pub(crate) struct Index {
    kept: Kept,
}

impl Index {
    /// Keeps the rows in a file; without one, in memory. Touches nothing yet.
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { kept: Kept::new(file) }
    }

    /// Sessions that match, the last used first. Only what changed since the last list is read.
    ///
    /// # Errors
    /// The home cannot be read. Nothing about the index is an error.
    pub(crate) fn list(
        &self,
        medium: &dyn Medium,
        filter: &ListFilter,
        summarise: &Summarise<'_>,
        progress: &Progressing<'_>,
    ) -> Result<Listing, StoreError> {
        // Side by side: the one waits for folders, the other for rows.
        let (ids, mut known) = thread::scope(|scope| {
            let known = scope.spawn(|| self.kept.load());
            (medium.ids(), known.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        let ids = ids?;
        let pairs = ids.sessions.into_iter().map(|id| {
            let row = known.remove(&id);
            (id, row)
        });
        let (mut entries, stale) = split(medium, pairs.collect());
        let vanished: Vec<SessionId> = known.into_keys().collect();
        let anew = read_anew(medium, &stale, summarise, progress);
        self.kept.store(&anew, &vanished);
        entries.extend(anew);

        let mut listing = Listing { damaged: ids.strangers, ..Listing::default() };
        let mut readable = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry.said {
                Ok(summary) => readable.push(summary),
                Err(problem) => listing.damaged.push((medium.path(&entry.id), problem)),
            }
        }
        listing.damaged.sort();
        select(&mut readable, filter);
        listing.total = readable.len();
        readable.truncate(filter.limit.unwrap_or(usize::MAX));
        listing.sessions = with_states(medium, readable);
        Ok(listing)
    }

    /// Forgets what is known of a session: it is gone, or changed in a way that its stamp does not
    /// show. Best effort.
    pub(crate) fn forget(&self, id: &SessionId) {
        self.kept.store(&[], std::slice::from_ref(id));
    }

    /// The header that a session had at the last look, to make up a lost one from.
    pub(crate) fn header(&self, id: &SessionId) -> Option<Header> {
        self.kept.load().remove(id)?.said()?.ok().map(|summary| summary.header)
    }
}

/// The session whose id is this or, when it is the only one, begins like this. Upper and lower
/// case are the same.
///
/// # Errors
/// No id; none, with the one most like it; several.
pub(crate) fn find(medium: &dyn Medium, begins: &str) -> Result<SessionId, StoreError> {
    let whole = SessionId::new(begins);
    check_id(&whole)?;
    let absent = match medium.header(&whole) {
        Ok(_) => return Ok(whole),
        Err(error) => error,
    };
    let mut ids = medium.ids()?.sessions;
    ids.retain(|id| {
        let head = id.as_str().as_bytes().get(..begins.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(begins.as_bytes()))
    });
    ids.sort();
    if let Some(exact) = ids.iter().find(|id| **id == whole) {
        return Ok(exact.clone());
    }
    let mut same = ids.iter().filter(|id| id.as_str().len() == begins.len());
    match (ids.as_slice(), same.next(), same.next()) {
        ([], ..) => Err(absent),
        ([only], ..) | (_, Some(only), None) => Ok(only.clone()),
        _ => {
            ids.truncate(AMBIGUOUS_MAX);
            Err(StoreError::Ambiguous { begins: begins.to_owned(), ids })
        }
    }
}

/// A session with the row that there is about it.
type Pair = (SessionId, Option<Row>);

/// What rows say that still hold, and the ids of the sessions without such a row.
fn split(medium: &dyn Medium, pairs: Vec<Pair>) -> (Vec<Entry>, Vec<SessionId>) {
    let check = |pairs: Vec<Pair>| {
        let (mut fresh, mut stale) = (Vec::with_capacity(pairs.len()), Vec::new());
        let active = |row: &Option<Row>| row.as_ref().map_or(0, Row::active);
        let at: Vec<_> = pairs.iter().map(|(id, row)| (id, active(row))).collect();
        let looks = medium.looks(&at);
        for ((id, row), look) in pairs.into_iter().zip(looks) {
            match row.and_then(|row| row.if_fresh(medium, &id, look)) {
                Some(entry) => fresh.push(entry),
                None => stale.push(id),
            }
        }
        vec![(fresh, stale)]
    };
    let (mut fresh, mut stale) = (Vec::new(), Vec::new());
    for part in shared(pairs, &check) {
        fresh.extend(part.0);
        stale.extend(part.1);
    }
    (fresh, stale)
}

/// Works on many things on two threads.
fn shared<T: Send, U: Send>(
    mut things: Vec<T>,
    work: &(impl Fn(Vec<T>) -> Vec<U> + Sync),
) -> Vec<U> {
    if things.len() < SHARED_FROM {
        return work(things);
    }
    let half = things.split_off(things.len() / 2);
    thread::scope(|scope| {
        let other = scope.spawn(|| work(half));
        let mut done = work(things);
        done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        done
    })
}

/// Reads sessions on a few threads; one that cannot be read gets an entry that says so.
fn read_anew(
    medium: &dyn Medium,
    ids: &[SessionId],
    summarise: &Summarise<'_>,
    progress: &Progressing<'_>,
) -> Vec<Entry> {
    let tell = |done: u64| {
        if ids.len() >= MUCH {
            progress(done, ids.len() as u64);
        }
    };
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let work = || {
        let mut entries = Vec::new();
        while let Some(id) = ids.get(next.fetch_add(1, Ordering::Relaxed)) {
            entries.extend(entry_of(medium, id, summarise));
            tell(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
        entries
    };
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let helpers = cores.min(READERS_MAX).min(ids.len()).saturating_sub(1);
    thread::scope(|scope| {
        let helpers: Vec<_> = (0..helpers).map(|_| scope.spawn(work)).collect();
        let mut entries = work();
        for helper in helpers {
            entries.extend(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        entries
    })
}

/// `None` when the session was removed meanwhile.
fn entry_of(medium: &dyn Medium, id: &SessionId, summarise: &Summarise<'_>) -> Option<Entry> {
    if let Ok(row) = summarise(id)
        && row.problem.is_none()
    {
        return Some(Entry::sound(row));
    }
    // What is damaged may be put right where the stamp does not show it, in the header. So what
    // is there is noted before the session is read again.
    let seen = Seen::look(medium, id);
    match summarise(id) {
        Err(StoreError::NotFound { .. }) => None,
        found => Some(Entry { id: id.clone(), seen, said: found.map_err(|e| e.to_string()) }),
    }
}

/// Keeps what the filter wants, the last used first.
fn select(rows: &mut Vec<SummaryRow>, filter: &ListFilter) {
    let mut place = filter.cwd.as_deref().map(Place::new);
    rows.retain(|row| {
        (filter.archived || !row.archived)
            && filter.older_than.is_none_or(|time| row.modified < time)
            && place.as_mut().is_none_or(|place| place.is(&row.cwd))
    });
    rows.sort_unstable_by(|a, b| {
        (Reverse(a.modified), &a.header.id).cmp(&(Reverse(b.modified), &b.header.id))
    });
}

/// A directory under whatever path leads to it.
struct Place<'a> {
    path: &'a Path,
    real: Option<PathBuf>,
    /// Other paths that were looked at.
    known: BTreeMap<PathBuf, bool>,
}

impl<'a> Place<'a> {
    fn new(path: &'a Path) -> Self {
        Self { path, real: path.canonicalize().ok(), known: BTreeMap::new() }
    }

    fn is(&mut self, cwd: &Path) -> bool {
        let Some(real) = self.real.as_deref() else { return cwd == self.path };
        if cwd == self.path || cwd == real {
            return true;
        }
        if let Some(known) = self.known.get(cwd) {
            return *known;
        }
        let is_same = cwd.canonicalize().is_ok_and(|cwd| cwd == real);
        self.known.insert(cwd.to_path_buf(), is_same);
        is_same
    }
}

/// Asks who holds a session where somebody may.
fn with_states(medium: &dyn Medium, rows: Vec<SummaryRow>) -> Vec<SessionSummary> {
    let since = now().saturating_sub(LIVE_WITHIN_MS);
    let ask = |row: SummaryRow| {
        let may_be_held = row.in_turn || row.modified >= since;
        let holder = may_be_held.then(|| medium.holder(&row.header.id)).flatten();
        let state = match holder {
            Some(lease) => SessionState::Live(lease),
            None if row.in_turn => SessionState::InTurn,
            None => SessionState::Idle,
        };
        row.shown(state)
    };
    shared(rows, &|rows: Vec<SummaryRow>| rows.into_iter().map(ask).collect())
}

#[expect(clippy::disallowed_methods, reason = "only saves looks; the store is below `world`")]
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}
