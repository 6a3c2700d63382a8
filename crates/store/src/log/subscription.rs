//! Reading a live log: what is recent from memory, what is older from the medium.

use std::collections::VecDeque;
use std::sync::Arc;

use reins_schema::Event;
use tokio::sync::watch;

use super::queue::{Progress, Queue, Recent};
use crate::StoreError;
use crate::reading::{Found, Reader, Source};
use crate::sessions::blocking;

const BATCH_EVENTS: usize = 256;
const BATCH_BYTES: u64 = 1 << 20;

/// Committed events in order, none left out but those that are lost, none twice. Holds a bounded
/// number of them.
#[derive(Debug)]
pub struct Subscription {
    queue: Arc<Queue>,
    source: Source,
    progress: watch::Receiver<Progress>,
    next: u64,
    ready: VecDeque<Arc<Event>>,
    failure: Option<StoreError>,
}

impl Subscription {
    pub(super) fn new(queue: Arc<Queue>, source: Source, from: u64) -> Self {
        let progress = queue.watch();
        Self { queue, source, progress, next: from, ready: VecDeque::new(), failure: None }
    }

    /// The next event; waits for it. `None` when the log is closed and everything was delivered,
    /// or when it could not be read: [`Subscription::failure`] tells. May be dropped while it
    /// waits; nothing is lost.
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
                Recent::Written(until) => match self.read(until).await {
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

    async fn read(&self, until: u64) -> Result<Vec<Arc<Event>>, StoreError> {
        let (source, from) = (self.source.clone(), self.next);
        let wanted = usize::try_from(until - from).unwrap_or(usize::MAX).min(BATCH_EVENTS);
        let events = blocking(move || {
            let found = Reader::from_seq(&source, from)?.batch(wanted, BATCH_BYTES)?;
            let mut next = from;
            let mut events = Vec::with_capacity(found.len());
            for found in found {
                match found {
                    Found::Event { event, .. } if event.seq >= next && event.seq < until => {
                        next = event.seq + 1;
                        events.push(Arc::new(event));
                    }
                    Found::Event { .. } | Found::Damaged { .. } => {}
                }
            }
            Ok(events)
        })
        .await?;
        // What is lost is followed by something that is there.
        if events.is_empty() {
            let problem = format!("event {from} was written and is no longer there");
            let advice = "end what else writes there and open the session again";
            let path = self.source.medium.path(&self.source.id);
            return Err(StoreError::unreadable(&path, problem, advice));
        }
        Ok(events)
    }
}
