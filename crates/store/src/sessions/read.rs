//! Reading sessions that somebody else may be writing.

use reins_schema::{Event, SessionId};
use reins_session::KnownTypes;

use super::{Sessions, silent};
use crate::reading::{Folded, Found, Reader, Source, Start, fold_log};
use crate::{DamageKind, Inspected, Progress, StoreError};

/// One answer of [`crate::Store::read`] is not much larger than this.
const READ_BYTES: u64 = 8 << 20;

/// How often a log is read again that changed while it was read.
const ATTEMPTS: u32 = 3;

impl Sessions {
    pub(super) fn look(&self, id: &SessionId, known: KnownTypes) -> Result<Inspected, StoreError> {
        let (stored, source) = self.facts(id)?;
        let start = || self.start(&source, &stored.header, known.clone()).0;
        let (folded, lease) = self.fold_beside(&source, &start, &silent())?;
        let damage = stored.damage.into_iter().chain(folded.damage).collect();
        Ok(Inspected { header: stored.header, fold: folded.fold, damage, lease })
    }

    /// Folds a log that may be written to meanwhile.
    pub(super) fn fold_beside(
        &self,
        source: &Source,
        start: &dyn Fn() -> Start,
        progress: &Progress,
    ) -> Result<(Folded, Option<crate::LeaseInfo>), StoreError> {
        let mut attempt = 1;
        loop {
            let before = self.medium().holder(&source.id);
            let folded = fold_log(source, start(), progress);
            let lease = self.medium().holder(&source.id);
            let is_live = before.is_some() || lease.is_some();
            match folded {
                Ok(mut folded) => {
                    // Whoever wrote at either moment may have been in the middle of a line.
                    if is_live {
                        folded.damage.retain(|damage| damage.kind != DamageKind::Torn);
                    }
                    return Ok((folded, lease));
                }
                // An opener mends, a writer takes back: what was listed is not what is there.
                Err(_) if is_live && attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub(super) fn events(
        &self,
        id: &SessionId,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let (_, source) = self.facts(id)?;
        let mut reader = Reader::from_seq(&source, from)?;
        let (mut events, mut bytes, mut next) = (Vec::new(), 0, from);
        while events.len() < limit && bytes < READ_BYTES {
            let Some(found) = reader.next()? else { break };
            if let Found::Event { event, place, .. } = found
                && event.seq >= next
            {
                bytes += place.bytes;
                next = event.seq.saturating_add(1);
                events.push(event);
            }
        }
        Ok(events)
    }
}
