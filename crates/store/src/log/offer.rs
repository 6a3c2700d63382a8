//! Snapshots that were offered and wait until everything in them is durable.

use reins_schema::Position;

/// A fold as text.
#[derive(Debug)]
pub(crate) struct Offer {
    /// The number of the event that comes after it.
    pub(crate) next: u64,
    pub(crate) fold: String,
}

/// Where an event stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stands {
    pub(crate) at: Position,
    pub(crate) segment: u32,
    pub(crate) offset: u64,
}

/// The newest offer, and where the last event is.
#[derive(Debug)]
pub(super) struct Offers {
    waiting: Option<Offer>,
    /// Where the last event of the offer that waits stands, once it is written.
    stands: Option<Stands>,
    /// The last event that was written since the log was opened.
    last: Option<Stands>,
    /// Events before this number are in the stored snapshot.
    stored: u64,
    /// The same of the one that is being stored.
    storing: Option<u64>,
}

impl Offers {
    /// `last` is where the last event stands, when that is known.
    pub(super) fn new(stored: u64, last: Option<Stands>) -> Self {
        Self { waiting: None, stands: None, last, stored, storing: None }
    }

    /// Up to which number there is a snapshot, stored or on its way.
    pub(super) fn newest(&self) -> u64 {
        let coming = self.waiting.as_ref().map(|offer| offer.next).max(self.storing);
        self.stored.max(coming.unwrap_or(0))
    }

    /// Takes a new offer in place of the one that waits. One that is older than what is written is
    /// of no use: where its last event stands was not kept.
    pub(super) fn take(&mut self, offer: Offer, written: u64) {
        if offer.next < written || offer.next <= self.newest() {
            return;
        }
        self.stands = self.last.filter(|last| last.at.seq + 1 == offer.next);
        if offer.next > written || self.stands.is_some() {
            self.waiting = Some(offer);
        }
    }

    /// An event was written.
    pub(super) fn written(&mut self, stands: Stands) {
        self.last = Some(stands);
        let next = stands.at.seq + 1;
        if self.waiting.as_ref().is_some_and(|offer| offer.next == next) {
            self.stands = Some(stands);
        }
    }

    /// Whether the offer that waits can be stored.
    pub(super) fn is_ready(&self, durable: u64) -> bool {
        self.stands.is_some_and(|stands| stands.at.seq < durable) && self.waiting.is_some()
    }

    /// The offer that waits, when everything in it is durable.
    pub(super) fn ready(&mut self, durable: u64) -> Option<(Offer, Stands)> {
        if !self.is_ready(durable) {
            return None;
        }
        let offer = self.waiting.take()?;
        self.storing = Some(offer.next);
        Some((offer, self.stands.take()?))
    }

    /// What became of the offer that was ready.
    pub(super) fn stored(&mut self, is_stored: bool) {
        if let Some(next) = self.storing.take().filter(|_| is_stored) {
            self.stored = next;
        }
    }
}
