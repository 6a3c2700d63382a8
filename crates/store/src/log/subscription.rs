//! Reading a live log: what is recent from memory, what is older from the file.

use std::collections::VecDeque;
use std::sync::Arc;

use reins_schema::Event;
use tokio::sync::watch;

use super::queue::{Progress, Queue, Recent};
use crate::StoreError;
use crate::jsonl::{Folder, Scanner};

const BATCH_EVENTS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;

/// Committed events in order, none left out, none twice. Holds a bounded number of them.
#[derive(Debug)]
pub struct Subscription {
    queue: Arc<Queue>,
    folder: Folder,
    progress: watch::Receiver<Progress>,
    next: u64,
    ready: VecDeque<Arc<Event>>,
    failure: Option<StoreError>,
}

impl Subscription {
    pub(super) fn new(queue: Arc<Queue>, folder: Folder, from: u64) -> Self {
        let progress = queue.watch();
        Self { queue, folder, progress, next: from, ready: VecDeque::new(), failure: None }
    }

    /// The next event; waits for it. `None` when the log is closed and everything was delivered,
    /// or when the file could not be read: [`Subscription::failure`] tells. May be dropped while
    /// it waits; nothing is lost.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        loop {
            if self.failure.is_some() {
                return None;
            }
            if let Some(event) = self.ready.pop_front() {
                self.next = event.seq + 1;
                return Some(event);
            }
            self.progress.mark_unchanged();
            match self.queue.recent(self.next, BATCH_EVENTS) {
                Recent::Events(events) => self.ready.extend(events),
                Recent::InFile(until) => match self.read_file(until).await {
                    Ok(events) => self.ready.extend(events),
                    Err(error) => self.failure = Some(error),
                },
                // The queue outlives this subscription, so the sender cannot be gone.
                Recent::NotYet => self.progress.changed().await.ok()?,
                Recent::Closed => return None,
            }
        }
    }

    /// Why [`Subscription::next`] ended before the log did.
    pub fn failure(&self) -> Option<&StoreError> {
        self.failure.as_ref()
    }

    async fn read_file(&self, until: u64) -> Result<Vec<Arc<Event>>, StoreError> {
        let (folder, from) = (self.folder.clone(), self.next);
        let wanted = usize::try_from(until - from).unwrap_or(usize::MAX).min(BATCH_EVENTS);
        let events = crate::jsonl::blocking(move || {
            let mut scanner = Scanner::from(folder.segments()?, from)?;
            Ok(scanner.batch(wanted, BATCH_BYTES)?)
        })
        .await?;
        if events.is_empty() {
            let problem = format!("event {from} was written and is no longer there");
            let advice = "end what else writes there and open the session again";
            return Err(StoreError::unreadable(&self.folder.path, problem, advice));
        }
        Ok(events.into_iter().map(Arc::new).collect())
    }
}
