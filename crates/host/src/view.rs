//! Sessions as people read them.

use reins_schema::{Event, Payload, SessionId, Usage};
use reins_session::KnownTypes;
use reins_store::{Inspected, Store, StoreError};

/// A session that is looked at; nothing is written, and somebody else may write it meanwhile.
pub struct SessionView {
    /// What it is now.
    pub inspected: Inspected,
    /// Turns that ended, of the events that were read.
    pub turns: u64,
    /// Of all attempts that were read.
    pub usage: Usage,
    /// Events that were read.
    pub events: u64,
}

/// Events read at once.
const PAGE: usize = 512;

impl SessionView {
    /// Looks at a session.
    ///
    /// # Errors
    /// Absent, written by a newer version, unreadable. Damage is no error.
    pub async fn open(
        store: &dyn Store,
        id: &SessionId,
        known: KnownTypes,
    ) -> Result<Self, StoreError> {
        let inspected = store.inspect(id, known).await?;
        Ok(Self { inspected, turns: 0, usage: Usage::default(), events: 0 })
    }

    /// Hands every event from number `from` on to `each`, in order. Lost numbers are passed over.
    ///
    /// # Errors
    /// Of the store, and the first one of `each`.
    pub async fn read<E: From<StoreError>>(
        &mut self,
        store: &dyn Store,
        from: u64,
        mut each: impl FnMut(&Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut next = from;
        loop {
            let page = store.read(&self.inspected.header.id, next, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            next = last.seq + 1;
            for event in &page {
                self.count(event);
                each(event)?;
            }
        }
    }

    fn count(&mut self, event: &Event) {
        self.events += 1;
        match Payload::read(&event.body) {
            Ok(Payload::TurnEnd(_)) => self.turns += 1,
            Ok(Payload::AssistantAttempt(attempt)) => {
                self.usage = self.usage.plus(attempt.usage.unwrap_or_default());
            }
            Ok(Payload::AssistantMessage(answer)) => {
                self.usage = self.usage.plus(answer.usage.unwrap_or_default());
            }
            _ => {}
        }
    }
}
