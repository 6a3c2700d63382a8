//! The write end of one open session: a bounded queue and a writer that commits in groups.

mod file;
mod queue;
mod subscription;
mod writer;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use reins_schema::Event;

pub use subscription::Subscription;

pub(crate) use file::ActiveFile;

use crate::jsonl::{Folder, Lease, blocking};
use crate::{StoreConfig, StoreError};
use queue::{Limits, Progress, Queue};

/// Appends to one session. Clones share the same log; when the last one is dropped, what was
/// appended is written and the lease released, as after [`Log::close`].
#[derive(Clone)]
pub struct Log {
    owner: Arc<Owner>,
}

/// How a log came here.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// Its session was just made.
    Created,
    /// It was there, with so many events.
    Opened { events: u64 },
}

/// Ends and joins the writer thread.
struct Owner {
    queue: Arc<Queue>,
    folder: Folder,
    start: Start,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Owner {
    fn join(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of the writer was already turned into the log's failure.
        drop(thread.map(JoinHandle::join));
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
    pub(crate) fn start(
        folder: Folder,
        file: ActiveFile,
        lease: Lease,
        start: Start,
        config: &StoreConfig,
    ) -> Result<Self, StoreError> {
        let events = match start {
            Start::Created => 0,
            Start::Opened { events } => events,
        };
        let queue = Arc::new(Queue::new(events, Limits::from(config)));
        let shared = Arc::clone(&queue);
        let thread = std::thread::Builder::new()
            .name("reins-log".to_owned())
            .spawn(move || writer::run(&shared, file, lease))
            .map_err(|e| StoreError::Writer { problem: e.to_string() })?;
        let thread = Mutex::new(Some(thread));
        Ok(Self { owner: Arc::new(Owner { queue, folder, start, thread }) })
    }

    /// Commits an event: subscribers see it now, the file has it within the configured time.
    /// Waits while the queue is full. Events come from one caller, in order.
    ///
    /// # Errors
    /// The first write error, which also ends every later call; a number that is not the next
    /// one; an event that has no line; a closed log.
    pub async fn append(&self, event: Arc<Event>) -> Result<(), StoreError> {
        let (line, _) = event.encode().map_err(|source| StoreError::Encode {
            seq: event.seq,
            kind: event.body.kind.clone(),
            source,
        })?;
        let queue = &self.owner.queue;
        if queue.push(&event, &line)? {
            return Ok(());
        }
        let mut progress = queue.watch();
        loop {
            let written = progress.borrow_and_update().written;
            if queue.push(&event, &line)? {
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
        let queue = &self.owner.queue;
        let target = queue.request_flush()?;
        let mut progress = queue.watch();
        let settled = |now: &Progress| now.durable >= target || now.failed || now.closed;
        let durable = match progress.wait_for(settled).await {
            Ok(now) => now.durable,
            Err(_) => 0,
        };
        if durable >= target {
            return Ok(());
        }
        Err(queue.failure().unwrap_or(StoreError::Closed))
    }

    /// Committed events from number `from` on, then those to come.
    pub fn subscribe(&self, from: u64) -> Subscription {
        Subscription::new(Arc::clone(&self.owner.queue), self.owner.folder.clone(), from)
    }

    /// The number of the next event.
    pub fn next_seq(&self) -> u64 {
        self.owner.queue.progress().committed
    }

    /// The first write error. After it nothing is written any more.
    pub fn failed(&self) -> Option<StoreError> {
        self.owner.queue.failure()
    }

    /// Writes and syncs what was appended, releases the lease and ends all clones of this log.
    ///
    /// # Errors
    /// The first write error of the log's life.
    pub async fn close(self) -> Result<(), StoreError> {
        let queue = &self.owner.queue;
        queue.close();
        // An error would mean that the queue is gone, and we hold it.
        drop(queue.watch().wait_for(|now| now.closed).await);
        self.owner.join();
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
        let folder = &self.owner.folder;
        if self.owner.start != Start::Created || self.owner.queue.progress().closed {
            return self.close().await;
        }
        let (from, hidden) = (folder.path.clone(), folder.hidden().path);
        let to = hidden.clone();
        // First, so that nobody finds it when the lease is released.
        let moved =
            blocking(move || std::fs::rename(&from, to).map_err(|e| StoreError::io(&from, e)));
        let moved = moved.await;
        drop(self.close().await);
        moved?;
        blocking(move || std::fs::remove_dir_all(&hidden).map_err(|e| StoreError::io(&hidden, e)))
            .await
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("folder", &self.owner.folder.path).finish_non_exhaustive()
    }
}
