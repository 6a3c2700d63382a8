//! What the store itself writes into a log.

use std::path::Path;
use std::sync::Arc;

use reins_schema::{Event, Payload, PayloadError, SessionId, SessionMoved};
use reins_session::KnownTypes;

use super::{Prepared, Sessions, blocking, now};
use crate::{OpenSession, StoreError};

impl OpenSession {
    /// Logs what was recovered, then these; all is on disk afterwards.
    pub(super) async fn tell(
        &mut self,
        then: impl IntoIterator<Item = Payload>,
    ) -> Result<(), StoreError> {
        let told = std::mem::take(&mut self.recovered).into_iter().map(Payload::SessionRecovered);
        for payload in told.chain(then) {
            let event = event(self.fold.next_seq(), &payload)?;
            // The fold takes every event of these types.
            if let Err(error) = self.fold.apply_or_set_aside(&event) {
                return Err(StoreError::Writer { problem: error.to_string() });
            }
            self.log.append(Arc::new(event)).await?;
        }
        self.log.flush().await
    }
}

/// An event that the store commits itself.
pub(super) fn event(seq: u64, payload: &Payload) -> Result<Event, StoreError> {
    let body = payload.draft(Vec::new()).map_err(|PayloadError { kind, problem }| {
        StoreError::Writer { problem: format!("{kind} cannot be written: {problem}") }
    })?;
    Ok(Event { seq, time: now(), body })
}

/// Whether the store may write events of its own into the session.
pub(super) fn writable(prepared: &Prepared) -> Result<(), StoreError> {
    match prepared.fold().read_only() {
        Some(reason) => Err(StoreError::OnlyReadable {
            id: prepared.header().id.clone(),
            reason: reason.to_owned(),
        }),
        None => Ok(()),
    }
}

impl Sessions {
    pub(super) async fn moved(
        &self,
        id: &SessionId,
        dir: &Path,
        known: KnownTypes,
    ) -> Result<(), StoreError> {
        let (sessions, wanted) = (self.clone(), id.clone());
        let prepared = blocking(move || sessions.prepare_now(&wanted, known)).await?;
        writable(&prepared)?;
        let fold = prepared.fold();
        if fold.open_turn().is_some() {
            return Err(StoreError::TurnOpen { id: id.clone() });
        }
        if fold.cwd() == dir {
            return Ok(());
        }
        let moved = SessionMoved { from: fold.cwd().to_owned(), to: dir.to_owned() };
        let mut open = prepared.publish().await?;
        let told = open.tell([Payload::SessionMoved(moved)]).await;
        // A list need not read all of the log to know the directory.
        open.log.offer_snapshot(&open.fold);
        let closed = open.log.close().await;
        told.and(closed)
    }
}
