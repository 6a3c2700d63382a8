//! Putting sessions away.

use reins_schema::SessionId;
use reins_session::KnownTypes;

use super::tell::writable;
use super::{Sessions, blocking};
use crate::{StoreError, check_id};

impl Sessions {
    pub(super) async fn archived(&self, id: &SessionId, archived: bool) -> Result<(), StoreError> {
        let (sessions, wanted) = (self.clone(), id.clone());
        if archived {
            // What is damaged is mended before it is put away, unless nothing may be written to it
            // or its turn is still to be ended: then it is put away as it is.
            let prepared =
                blocking(move || sessions.prepare_now(&wanted, KnownTypes::default())).await?;
            let may_write = writable(&prepared).is_ok() && prepared.fold().open_turn().is_none();
            if may_write && !prepared.damage().is_empty() {
                let mut open = prepared.publish().await?;
                let told = open.tell([]).await;
                let closed = open.log.close().await;
                told.and(closed)?;
            }
        }
        let (sessions, wanted) = (self.clone(), id.clone());
        blocking(move || sessions.put_away(&wanted, archived)).await
    }

    fn put_away(&self, id: &SessionId, archived: bool) -> Result<(), StoreError> {
        check_id(id)?;
        let mut held = self.medium().take(id)?;
        if archived {
            let segments = self.medium().segments(id)?;
            if let Some(last) = segments.last().filter(|last| !last.is_sealed && last.stored > 0) {
                held.begin_segment(last.number.saturating_add(1))?;
            }
            let mut sealer = held.sealer();
            for info in segments.iter().filter(|info| !info.is_sealed && info.stored > 0) {
                sealer.seal(info.number)?;
            }
        }
        held.set_archived(archived)?;
        self.index().forget(id);
        Ok(())
    }
}
