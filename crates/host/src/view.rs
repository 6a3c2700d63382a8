//! Sessions as people read them.

use reins_schema::{Event, Payload, SessionId, Usage};
use reins_session::KnownTypes;
use reins_store::{Inspected, Store, StoreError};

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
    /// Why it is not all of the session, or why the session cannot be opened.
    pub problem: Option<StoreError>,
}

/// Why a session cannot be shown.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ViewError(#[from] pub StoreError);

/// Events read at once.
const PAGE: usize = 512;

impl SessionView {
    /// Reads a session from its start and hands every event that can be read to `each`.
    ///
    /// # Errors
    /// No such session. Whatever else is wrong is [`SessionView::problem`].
    pub async fn read(
        store: &dyn Store,
        session: &SessionId,
        each: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Self, ViewError> {
        let (turns, usage) = (0, Usage::default());
        let mut view = Self { session: session.clone(), turns, usage, events: 0, problem: None };
        let inspected = store.inspect(session, KnownTypes::default()).await;
        view.problem = match inspected {
            Ok(Inspected { damage, .. }) => damage.into_iter().next().map(StoreError::Damaged),
            Err(error @ (StoreError::NotFound { .. } | StoreError::InvalidId { .. })) => {
                return Err(error.into());
            }
            Err(error) => Some(error),
        };
        let mut next = 0;
        while let Ok(page) = store.read(session, next, PAGE).await {
            let Some(last) = page.last() else { break };
            next = last.seq.saturating_add(1);
            for event in &page {
                view.count(event);
                each(event);
            }
        }
        Ok(view)
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
