//! What the appenders, the writer thread and the subscribers of one log share.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reins_schema::Event;
use tokio::sync::watch;

use crate::{StoreConfig, StoreError};

/// Limits of a log, from the configuration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    write_within: Duration,
    queue_events: u64,
    queue_bytes: usize,
    recent_events: usize,
    recent_bytes: usize,
}

impl From<&StoreConfig> for Limits {
    fn from(config: &StoreConfig) -> Self {
        Self {
            write_within: Duration::from_millis(config.write_within_ms),
            queue_events: config.queue_events.max(1) as u64,
            queue_bytes: config.queue_bytes.max(1),
            recent_events: config.recent_events,
            recent_bytes: config.recent_bytes,
        }
    }
}

/// How far the log is. All numbers are counts of events from the log's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) committed: u64,
    pub(crate) written: u64,
    pub(crate) durable: u64,
    pub(crate) failed: bool,
    pub(crate) closed: bool,
}

#[derive(Debug)]
struct State {
    progress: Progress,
    /// The last committed events; at least all that are not written.
    recent: VecDeque<(Arc<Event>, usize)>,
    recent_bytes: usize,
    /// Lines that wait for the writer, and when it must take them.
    lines: Vec<u8>,
    due: Option<Instant>,
    /// The writer must make events before this number durable.
    flush_to: u64,
    closing: bool,
    failure: Option<StoreError>,
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
}

/// What a subscriber gets.
pub(crate) enum Recent {
    Events(Vec<Arc<Event>>),
    /// Only the file has them; everything before this number is in it.
    InFile(u64),
    NotYet,
    Closed,
}

impl Queue {
    /// The queue of a log that has `events` durable events.
    pub(crate) fn new(events: u64, limits: Limits) -> Self {
        let progress = Progress {
            committed: events,
            written: events,
            durable: events,
            failed: false,
            closed: false,
        };
        let state = State {
            progress,
            recent: VecDeque::new(),
            recent_bytes: 0,
            lines: Vec::new(),
            due: None,
            flush_to: events,
            closing: false,
            failure: None,
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
    pub(crate) fn push(&self, event: &Arc<Event>, line: &[u8]) -> Result<bool, StoreError> {
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
        state.recent.push_back((Arc::clone(event), line.len()));
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

    /// No more events; the writer drains and ends.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.work.notify_one();
    }

    /// The writer's wait: returns when there is something to do, with the lines in `lines`.
    pub(crate) fn next_work(&self, lines: &mut Vec<u8>) -> Work {
        lines.clear();
        let mut state = self.lock();
        loop {
            let flush = state.flush_to > state.progress.durable;
            let now = Instant::now();
            if state.closing || flush || state.due.is_some_and(|due| due <= now) {
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
        std::mem::swap(&mut state.lines, lines);
        state.due = None;
        let last = state.closing;
        let sync = last || state.flush_to > state.progress.durable;
        Work { upto: state.progress.committed, sync, last }
    }

    /// The writer's report after each piece of work.
    pub(crate) fn done(&self, work: &Work, result: Result<(), StoreError>) {
        let mut state = self.lock();
        match result {
            Ok(()) => {
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

    /// After a failure the writer only waits for the close.
    pub(crate) fn wait_for_close(&self) {
        let mut state = self.lock();
        while !state.closing {
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The writer has ended and the lease is free.
    pub(crate) fn closed(&self) {
        let mut state = self.lock();
        state.closing = true;
        state.progress.closed = true;
        if state.progress.durable < state.progress.committed && state.failure.is_none() {
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
            return Recent::InFile(oldest);
        };
        let events = state.recent.iter().skip(skip).take(limit);
        Recent::Events(events.map(|(event, _)| Arc::clone(event)).collect())
    }
}

impl State {
    fn check_open(&self) -> Result<(), StoreError> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None if self.closing => Err(StoreError::Closed),
            None => Ok(()),
        }
    }

    fn fail(&mut self, error: StoreError) {
        self.failure.get_or_insert(error);
        self.progress.failed = true;
        self.lines = Vec::new();
        self.due = None;
    }

    /// Forgets the oldest written events beyond the limits.
    fn trim(&mut self, limits: Limits) {
        while self.recent.len() > limits.recent_events || self.recent_bytes > limits.recent_bytes {
            match self.recent.front() {
                Some((event, size)) if event.seq < self.progress.written => {
                    self.recent_bytes -= size;
                    self.recent.pop_front();
                }
                _ => return,
            }
        }
    }
}
