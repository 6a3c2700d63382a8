//! The writer: one thread per open log, because writes block. It holds the lease.

use std::sync::Arc;

use reins_schema::Header;

use super::offer::{Offer, Stands};
use super::queue::Queue;
use super::sealing::Sealing;
use crate::StoreError;
use crate::medium::{Active, Held};
use crate::sessions::snapshot;

/// What the writer thread works with. The lease is released last.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) active: Box<dyn Active>,
    /// The number of the active segment.
    pub(super) number: u32,
    /// At which length the next segment begins.
    pub(super) full_at: u64,
    pub(super) segment_bytes: u64,
    pub(super) header: Header,
    pub(super) sealing: Sealing,
    pub(super) held: Box<dyn Held>,
}

const KEPT_BYTES: usize = 1 << 20;

/// Writes batches until the log is closed, then lets go of the lease.
pub(super) fn run(queue: &Arc<Queue>, writer: Writer) {
    let guard = EndGuard(queue);
    // Taken over behind the guard, so that it is gone before the guard tells so.
    let mut writer = writer;
    let mut lines = Vec::new();
    loop {
        let mut work = queue.next_work(&mut lines);
        if let Some(doing) = &work.announce {
            writer.held.announce(doing);
        }
        let start = (writer.number, writer.active.length());
        // A segment is durable before the next one has anything.
        let is_full = !work.last && start.1 + lines.len() as u64 >= writer.full_at;
        work.sync |= is_full;
        let result = writer.write(&lines, work.sync);
        let failed = result.is_err();
        queue.done(&work, start, result);
        // One huge batch must not be kept for the life of the session.
        if lines.capacity() > KEPT_BYTES {
            lines = Vec::new();
        }
        if failed {
            queue.wait_for_close();
            break;
        }
        if let Some((offer, stands)) = work.snapshot.take() {
            queue.stored(writer.store(&offer, stands));
        }
        if work.last {
            if let Some((offer, stands)) = queue.last_snapshot() {
                queue.stored(writer.store(&offer, stands));
            }
            break;
        }
        if is_full {
            writer.roll_over();
        }
    }
    if queue.is_discarded() {
        let Writer { active, sealing, held, .. } = writer;
        drop((active, sealing));
        if let Err(error) = held.remove() {
            queue.not_removed(error);
        }
    } else {
        drop(writer);
    }
    drop(guard);
}

impl Writer {
    fn write(&mut self, lines: &[u8], sync: bool) -> Result<(), StoreError> {
        if !lines.is_empty() {
            self.active.append(lines)?;
        }
        if sync {
            self.active.sync()?;
        }
        Ok(())
    }

    /// Begins the next segment. When that fails, the one that is there goes on for a while.
    fn roll_over(&mut self) {
        let (full, next) = (self.number, self.number.saturating_add(1));
        match self.held.begin_segment(next) {
            Ok(active) => {
                self.active = active;
                self.number = next;
                self.full_at = self.segment_bytes;
                self.sealing.add([full], &*self.held);
            }
            Err(error) => {
                let session = self.held.id();
                ::log::warn!("session {session}: its segment {full} grows on: {error}");
                self.full_at = self.active.length().saturating_add(self.segment_bytes);
            }
        }
    }

    fn store(&mut self, offer: &Offer, stands: Stands) -> bool {
        let text = match snapshot::encode(&self.header, stands, &offer.fold) {
            Ok(text) => text,
            Err(error) => {
                ::log::warn!("session {}: no snapshot: {error}", self.held.id());
                return false;
            }
        };
        let stored = self.held.put_snapshot(&text);
        if let Err(error) = &stored {
            ::log::warn!("session {}: no snapshot for now: {error}", self.held.id());
        }
        stored.is_ok()
    }
}

/// Tells everyone who waits that the writer is gone, also when it panics.
struct EndGuard<'a>(&'a Arc<Queue>);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.closed();
    }
}
