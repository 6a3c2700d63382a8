//! The write end of one open session: a bounded queue, a writer that commits in groups, and what
//! compresses the segments it leaves behind.

mod offer;
mod queue;
mod sealing;
mod subscription;
mod writer;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use reins_schema::{Event, Header};
use reins_session::Fold;

pub(crate) use offer::Stands;
pub use subscription::Subscription;

use crate::medium::{Active, Held};
use crate::reading::Source;
use crate::{StoreConfig, StoreError};
use offer::{Offer, Offers};
use queue::{Limits, Progress, Queue};
use sealing::Sealing;
use writer::Writer;

/// A flush that takes longer is worth a line of the debug log.
const SLOW_FLUSH: Duration = Duration::from_millis(50);

/// Appends to one session. Clones share the same log; when the last one is dropped, what was
/// appended is written and the lease released, as after [`Log::close`].
#[derive(Clone)]
pub struct Log {
    owner: Arc<Owner>,
}

/// A session whose log is to be started.
pub(crate) struct Beginning {
    pub(crate) source: Source,
    pub(crate) header: Header,
    pub(crate) held: Box<dyn Held>,
    pub(crate) active: Box<dyn Active>,
    /// The number of the active segment.
    pub(crate) number: u32,
    /// The session was just made.
    pub(crate) is_new: bool,
    /// The number of the next event.
    pub(crate) next: u64,
    /// Where the last event stands, when that is known.
    pub(crate) last: Option<Stands>,
    /// Events before this number are in the stored snapshot.
    pub(crate) snapshot: u64,
    /// Segments that should have been sealed.
    pub(crate) unsealed: Vec<u32>,
}

/// Ends and joins the writer thread.
struct Owner {
    queue: Arc<Queue>,
    source: Source,
    is_new: bool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Owner {
    fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of the writer was already turned into the log's failure.
        drop(thread.map(JoinHandle::join));
    }

    async fn ended(&self) {
        // An error would mean that the queue is gone, and we hold it.
        drop(self.queue.watch().wait_for(|now| now.closed).await);
        self.join();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.queue.close();
        self.join();
    }
}

impl Log {
    /// Starts the writer.
    pub(crate) fn start(begin: Beginning, config: &StoreConfig) -> Result<Self, StoreError> {
        let Beginning { source, header, held, active, number, is_new, .. } = begin;
        let offers = Offers::new(begin.snapshot, begin.last);
        let queue = Arc::new(Queue::new(begin.next, offers, Limits::from(config)));
        let mut sealing = Sealing::default();
        sealing.add(begin.unsealed, &*held);
        let segment_bytes = config.segment_bytes.max(1);
        let full_at = segment_bytes;
        let writer = Writer { active, number, full_at, segment_bytes, header, sealing, held };
        let shared = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name("reins-log".to_owned())
            .spawn(move || writer::run(&shared, writer))
            .map_err(|e| StoreError::Writer { problem: e.to_string() })?;
        let thread = Mutex::new(Some(thread));
        Ok(Self { owner: Arc::new(Owner { queue, source, is_new, thread }) })
    }

    /// Commits an event: subscribers see it now, the medium has it within the configured time.
    /// Waits while the queue is full. Events come from one caller, in order.
    ///
    /// # Errors
    /// The first write error, which also ends every later call; a number that is not the next
    /// one; an event that has no line; a closed log.
    pub async fn append(&self, event: Arc<Event>) -> Result<(), StoreError> {
        let (line, sum) = event.encode().map_err(|source| StoreError::Encode {
            seq: event.seq,
            kind: event.body.kind.clone(),
            source,
        })?;
        let queue = &self.owner.queue;
        if queue.push(&event, &line, sum)? {
            return Ok(());
        }
        let mut progress = queue.watch();
        loop {
            let written = progress.borrow_and_update().written;
            if queue.push(&event, &line, sum)? {
                return Ok(());
            }
            let moved = |now: &Progress| now.written > written || now.failed || now.closed;
            progress.wait_for(moved).await.map_err(|_| StoreError::Closed)?;
        }
    }

    /// A barrier: resolves when everything appended before it is on disk.
    ///
    /// # Errors
    /// The first write error.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let (queue, began) = (&self.owner.queue, Instant::now());
        let target = queue.request_flush()?;
        let mut progress = queue.watch();
        let settled = |now: &Progress| now.durable >= target || now.failed || now.closed;
        let durable = match progress.wait_for(settled).await {
            Ok(now) => now.durable,
            Err(_) => 0,
        };
        let took = began.elapsed();
        if took > SLOW_FLUSH {
            ::log::info!("session {}: flush took {} ms", self.owner.source.id, took.as_millis());
        }
        if durable >= target {
            return Ok(());
        }
        Err(queue.failure().unwrap_or(StoreError::Closed))
    }

    /// Committed events from number `from` on, then those to come.
    pub fn subscribe(&self, from: u64) -> Subscription {
        Subscription::new(Arc::clone(&self.owner.queue), self.owner.source.clone(), from)
    }

    /// The number of the next event.
    pub fn next_seq(&self) -> u64 {
        self.owner.queue.progress().committed
    }

    /// Whether so many events were appended since the last snapshot that a new one pays.
    pub fn wants_snapshot(&self) -> bool {
        self.owner.queue.wants_snapshot()
    }

    /// Stores the fold of everything that was appended, once that is on disk; of several that
    /// wait, the newest. Best effort: without a snapshot the session only opens more slowly.
    pub fn offer_snapshot(&self, fold: &Fold) {
        match fold.snapshot() {
            Ok(text) => self.owner.queue.offer(Offer { next: fold.next_seq(), fold: text }),
            Err(error) => {
                ::log::warn!("session {}: no snapshot: {error}", self.owner.source.id);
            }
        }
    }

    /// Says in the lease what this process does, as a person would call it: `reins run`.
    pub fn announce(&self, doing: &str) {
        self.owner.queue.announce(doing.to_owned());
    }

    /// The first write error. After it nothing is written any more.
    pub fn failed(&self) -> Option<StoreError> {
        self.owner.queue.failure()
    }

    /// Writes and syncs what was appended, waits until segments are compressed, releases the lease
    /// and ends all clones of this log.
    ///
    /// # Errors
    /// The first write error of the log's life.
    pub async fn close(self) -> Result<(), StoreError> {
        let queue = &self.owner.queue;
        queue.close();
        self.owner.ended().await;
        match queue.failure() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }

    /// Ends all clones of this log and removes its session, which nobody has got: for who made it
    /// and has held it since then. A session that was there before, or whose log was closed, stays;
    /// then this is [`Log::close`].
    ///
    /// # Errors
    /// The disk refuses to remove it. What could not be written to it is no error.
    pub async fn discard(self) -> Result<(), StoreError> {
        let queue = &self.owner.queue;
        if !self.owner.is_new || !queue.discard() {
            return self.close().await;
        }
        self.owner.ended().await;
        match queue.why_kept() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("session", &self.owner.source.id).finish_non_exhaustive()
    }
}
