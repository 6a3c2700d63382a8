//! Sessions as people read them.

use reins_schema::{Event, Payload, SessionId, Usage};
use reins_store::{Store, StoreError};

/// A session's events, decoded page by page.
pub struct SessionView {
    /// The session.
    pub session: SessionId,
    /// Turns that ended.
    pub turns: u64,
    /// Of all attempts.
    pub usage: Usage,
    /// All events in order.
    pub events: u64,
}

/// Why a session cannot be shown.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ViewError(#[from] pub StoreError);

/// Events read at once.
const PAGE: usize = 512;

impl SessionView {
    /// Reads a session from its start and hands every event to `each`.
    ///
    /// # Errors
    /// Absent, or unreadable at some place; what came before was handed over.
    pub async fn read(
        store: &dyn Store,
        session: &SessionId,
        each: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Self, ViewError> {
        let mut view =
            Self { session: session.clone(), turns: 0, usage: Usage::default(), events: 0 };
        loop {
            let page = store.read(session, view.events, PAGE).await?;
            if page.is_empty() {
                return Ok(view);
            }
            for event in &page {
                view.count(event);
                each(event);
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
