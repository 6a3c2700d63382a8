//! What the appenders, the writer thread and the subscribers of one log share.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reins_schema::{Event, Position};
use tokio::sync::watch;

use super::offer::{Offer, Offers, Stands};
use crate::{StoreConfig, StoreError};

/// Limits of a log, from the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    write_within: Duration,
    queue_events: u64,
    queue_bytes: usize,
    recent_events: usize,
    recent_bytes: usize,
    pub(super) snapshot_events: u64,
}

impl From<&StoreConfig> for Limits {
    fn from(config: &StoreConfig) -> Self {
        Self {
            write_within: Duration::from_millis(config.write_within_ms),
            queue_events: config.queue_events.max(1) as u64,
            queue_bytes: config.queue_bytes.max(1),
            recent_events: config.recent_events,
            recent_bytes: config.recent_bytes,
            snapshot_events: config.snapshot_events,
        }
    }
}

/// How far the log is. Numbers are those of the events that come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) committed: u64,
    pub(crate) written: u64,
    pub(crate) durable: u64,
    pub(crate) failed: bool,
    pub(crate) closed: bool,
}

/// A committed event that is kept for who watches.
#[derive(Debug)]
struct Kept {
    event: Arc<Event>,
    sum: u32,
    bytes: usize,
}

/// How a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    NotYet,
    /// Everything is written.
    Close,
    /// Its session is removed.
    Discard,
}

#[derive(Debug)]
struct State {
    progress: Progress,
    /// The last committed events; at least all that are not written.
    recent: VecDeque<Kept>,
    recent_bytes: usize,
    /// Lines that wait for the writer, and when it must take them.
    lines: Vec<u8>,
    due: Option<Instant>,
    /// The writer must make events before this number durable.
    flush_to: u64,
    offers: Offers,
    announce: Option<String>,
    end: End,
    failure: Option<StoreError>,
    /// Why the session of a discarded log is still there.
    kept: Option<StoreError>,
}

/// The queue of one log.
#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    work: Condvar,
    progress: watch::Sender<Progress>,
    limits: Limits,
}

/// What the writer does next.
pub(crate) struct Work {
    pub(crate) upto: u64,
    pub(crate) sync: bool,
    pub(crate) last: bool,
    pub(crate) announce: Option<String>,
    /// A snapshot of what is durable.
    pub(crate) snapshot: Option<(Offer, Stands)>,
}

/// What a subscriber gets.
pub(crate) enum Recent {
    Events(Vec<Arc<Event>>),
    /// Only the medium has them; everything before this number is in it.
    Written(u64),
    NotYet,
    Closed,
}

impl Queue {
    /// The queue of a log whose next event has number `next`.
    pub(crate) fn new(next: u64, offers: Offers, limits: Limits) -> Self {
        let progress = Progress {
            committed: next,
            written: next,
            durable: next,
            failed: false,
            closed: false,
        };
        let state = State {
            progress,
            recent: VecDeque::new(),
            recent_bytes: 0,
            lines: Vec::new(),
            due: None,
            flush_to: next,
            offers,
            announce: None,
            end: End::NotYet,
            failure: None,
            kept: None,
        };
        let (sender, _) = watch::channel(progress);
        Self { state: Mutex::new(state), work: Condvar::new(), progress: sender, limits }
    }

    /// A panic while the lock is held cannot leave half a change: each is a few assignments.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(crate) fn progress(&self) -> Progress {
        self.lock().progress
    }

    pub(crate) fn failure(&self) -> Option<StoreError> {
        self.lock().failure.clone()
    }

    /// Commits an event, or returns false when there is no room now.
    pub(crate) fn push(
        &self,
        event: &Arc<Event>,
        line: &[u8],
        sum: u32,
    ) -> Result<bool, StoreError> {
        let mut state = self.lock();
        state.check_open()?;
        let expected = state.progress.committed;
        if event.seq != expected {
            return Err(StoreError::OutOfOrder { expected, found: event.seq });
        }
        let waiting = expected - state.progress.written;
        let room = waiting < self.limits.queue_events
            && state.lines.len().saturating_add(line.len()) <= self.limits.queue_bytes;
        if !room && !state.lines.is_empty() {
            state.due = Some(Instant::now());
            self.work.notify_one();
            return Ok(false);
        }
        state.lines.extend_from_slice(line);
        state.recent.push_back(Kept { event: Arc::clone(event), sum, bytes: line.len() });
        state.recent_bytes += line.len();
        state.progress.committed += 1;
        state.trim(self.limits);
        if state.due.is_none() {
            state.due = Instant::now().checked_add(self.limits.write_within);
            self.work.notify_one();
        }
        // The writer starts early enough that appenders seldom wait.
        let half = waiting >= self.limits.queue_events / 2
            || state.lines.len() >= self.limits.queue_bytes / 2;
        if half {
            state.due = Some(Instant::now());
            self.work.notify_one();
        }
        self.publish(&state);
        Ok(true)
    }

    /// Asks the writer to make everything committed durable; returns the number to wait for.
    pub(crate) fn request_flush(&self) -> Result<u64, StoreError> {
        let mut state = self.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let target = state.progress.committed;
        if state.progress.durable < target {
            state.flush_to = target;
            drop(state);
            self.work.notify_one();
        }
        Ok(target)
    }

    /// Whether so much was committed since the last snapshot that a new one pays.
    pub(crate) fn wants_snapshot(&self) -> bool {
        let state = self.lock();
        let since = state.progress.committed.saturating_sub(state.offers.newest());
        let every = self.limits.snapshot_events;
        every > 0 && since >= every && state.end == End::NotYet && state.failure.is_none()
    }

    /// Takes a snapshot to be stored when everything in it is durable.
    pub(crate) fn offer(&self, offer: Offer) {
        let mut state = self.lock();
        let written = state.progress.written;
        state.offers.take(offer, written);
        drop(state);
        self.work.notify_one();
    }

    /// What the lease is to say of its holder.
    pub(crate) fn announce(&self, doing: String) {
        self.lock().announce = Some(doing);
        self.work.notify_one();
    }

    /// No more events; the writer drains and ends.
    pub(crate) fn close(&self) {
        self.end(End::Close);
    }

    /// The writer ends and removes the session. False when the log is closed already.
    pub(crate) fn discard(&self) -> bool {
        self.end(End::Discard)
    }

    fn end(&self, end: End) -> bool {
        let mut state = self.lock();
        let is_first = state.end == End::NotYet;
        if is_first {
            state.end = end;
        }
        drop(state);
        self.work.notify_one();
        is_first
    }

    /// Whether the session is to be removed at the end.
    pub(crate) fn is_discarded(&self) -> bool {
        self.lock().end == End::Discard
    }

    /// The session of a discarded log could not be removed.
    pub(crate) fn not_removed(&self, error: StoreError) {
        self.lock().kept = Some(error);
    }

    /// Why the session of a discarded log is still there.
    pub(crate) fn why_kept(&self) -> Option<StoreError> {
        self.lock().kept.clone()
    }

    /// The writer's wait: returns when there is something to do, with the lines in `lines`.
    pub(crate) fn next_work(&self, lines: &mut Vec<u8>) -> Work {
        lines.clear();
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            if state.has_work() || state.due.is_some_and(|due| due <= now) {
                break;
            }
            state = match state.due {
                None => self.work.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(due) => {
                    let waited = self.work.wait_timeout(state, due - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        let last = state.end != End::NotYet;
        let sync = last || state.flush_to > state.progress.durable;
        // Lines wait until they are due when only something else is to be done.
        if sync || state.due.is_some_and(|due| due <= Instant::now()) {
            std::mem::swap(&mut state.lines, lines);
            state.due = None;
        }
        let upto = if lines.is_empty() && !sync {
            state.progress.written
        } else {
            state.progress.committed
        };
        let durable = state.progress.durable;
        let snapshot = state.offers.ready(durable);
        Work { upto, sync, last, announce: state.announce.take(), snapshot }
    }

    /// The snapshot to be stored at the end, when everything in it is durable.
    pub(crate) fn last_snapshot(&self) -> Option<(Offer, Stands)> {
        let mut state = self.lock();
        let durable = state.progress.durable;
        state.offers.ready(durable)
    }

    /// The writer's report after each piece of work; `start` is where its lines begin.
    pub(crate) fn done(&self, work: &Work, start: (u32, u64), result: Result<(), StoreError>) {
        let mut state = self.lock();
        match result {
            Ok(()) => {
                state.place(work.upto, start);
                state.progress.written = work.upto;
                if work.sync {
                    state.progress.durable = work.upto;
                }
                state.trim(self.limits);
            }
            Err(error) => state.fail(error),
        }
        self.publish(&state);
    }

    /// Whether the snapshot that was handed out is stored now.
    pub(crate) fn stored(&self, is_stored: bool) {
        self.lock().offers.stored(is_stored);
    }

    /// After a failure the writer only waits for the close.
    pub(crate) fn wait_for_close(&self) {
        let mut state = self.lock();
        while state.end == End::NotYet {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The writer has ended and the lease is free.
    pub(crate) fn closed(&self) {
        let mut state = self.lock();
        if state.end == End::NotYet {
            state.end = End::Close;
        }
        state.progress.closed = true;
        let is_short = state.progress.durable < state.progress.committed;
        if is_short && state.failure.is_none() && state.end != End::Discard {
            state.fail(StoreError::Writer { problem: "it ended early".to_owned() });
        }
        self.publish(&state);
    }

    /// Under the lock, or an older state could overtake a newer one and a waiter would sleep on.
    fn publish(&self, state: &State) {
        self.progress.send_replace(state.progress);
    }

    /// At most `limit` committed events from number `next` on.
    pub(crate) fn recent(&self, next: u64, limit: usize) -> Recent {
        let state = self.lock();
        let committed = state.progress.committed;
        if next >= committed {
            return if state.progress.closed { Recent::Closed } else { Recent::NotYet };
        }
        let oldest = committed - state.recent.len() as u64;
        let Some(skip) = next.checked_sub(oldest).and_then(|n| usize::try_from(n).ok()) else {
            return Recent::Written(oldest);
        };
        let events = state.recent.iter().skip(skip).take(limit);
        Recent::Events(events.map(|kept| Arc::clone(&kept.event)).collect())
    }
}

impl State {
    fn check_open(&self) -> Result<(), StoreError> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None if self.end != End::NotYet => Err(StoreError::Closed),
            None => Ok(()),
        }
    }

    fn has_work(&self) -> bool {
        self.end != End::NotYet
            || self.flush_to > self.progress.durable
            || self.announce.is_some()
            || self.offers.is_ready(self.progress.durable)
    }

    fn fail(&mut self, error: StoreError) {
        self.failure.get_or_insert(error);
        self.progress.failed = true;
        self.lines = Vec::new();
        self.due = None;
    }

    /// Tells the offers where the events before `upto` that were just written stand.
    fn place(&mut self, upto: u64, (segment, mut offset): (u32, u64)) {
        let written = usize::try_from(upto - self.progress.written).unwrap_or(usize::MAX);
        let waiting = self.progress.committed - self.progress.written;
        let from = self.recent.len() - usize::try_from(waiting).unwrap_or(0);
        for kept in self.recent.iter().skip(from).take(written) {
            let at = Position { seq: kept.event.seq, sum: kept.sum };
            self.offers.written(Stands { at, segment, offset });
            offset += kept.bytes as u64;
        }
    }

    /// Forgets the oldest written events beyond the limits.
    fn trim(&mut self, limits: Limits) {
        while self.recent.len() > limits.recent_events || self.recent_bytes > limits.recent_bytes {
            match self.recent.front() {
                Some(kept) if kept.event.seq < self.progress.written => {
                    self.recent_bytes -= kept.bytes;
                    self.recent.pop_front();
                }
                _ => return,
            }
        }
    }
}
