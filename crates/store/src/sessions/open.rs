//! Making a session, and opening one: first looked at, then mended and written to.

use reins_schema::{FORMAT, Header, SessionId, SessionRecovered};
use reins_session::{Fold, KnownTypes};

use super::{Sessions, blocking, silent, snapshot};
use crate::log::{Beginning, Stands};
use crate::medium::{Active, Held, NewSession};
use crate::reading::{Folded, Source, Start, StoredHeader, fold_log, mend_header};
use crate::{Damage, Log, OpenSession, Progress, StoreError, check_id};

/// A session whose lease is held and whose log is folded. Nothing was written yet; dropping it
/// releases the lease.
#[derive(Debug)]
pub struct Prepared {
    sessions: Sessions,
    held: Box<dyn Held>,
    stored: StoredHeader,
    source: Source,
    folded: Folded,
    /// Events before this number came from the snapshot.
    snapshot: u64,
    damage: Vec<Damage>,
}

impl Prepared {
    /// Its immutable facts.
    pub fn header(&self) -> &Header {
        &self.stored.header
    }

    /// The folded log.
    pub fn fold(&self) -> &Fold {
        &self.folded.fold
    }

    /// What is damaged, in the order of the log. What is before the snapshot was not looked at.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Mends what is damaged, keeping what was there, and starts the log.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn publish(self) -> Result<OpenSession, StoreError> {
        blocking(move || self.publish_now()).await
    }

    /// Lets go of the session, which stays as it was.
    pub fn release(self) {}

    pub(super) fn drop_snapshot(&mut self) -> Result<(), StoreError> {
        self.held.drop_snapshot()
    }

    pub(super) fn publish_now(self) -> Result<OpenSession, StoreError> {
        let Self { sessions, mut held, stored, source, folded, snapshot, .. } = self;
        let Folded { fold, plan, mut end, last, folded, .. } = folded;
        let is_sound = plan.is_empty() && stored.damage.is_none();
        let mut recovered: Vec<SessionRecovered> =
            mend_header(&stored, &mut *held)?.into_iter().collect();
        if !plan.is_empty() {
            forget_snapshot(&mut *held)?;
            let (told, mended) = plan.carry_out(&mut *held)?;
            recovered.extend(told);
            end = mended;
        }
        // What is written into a segment that a fork shares would not count.
        let own = u32::try_from(source.bounds.len()).unwrap_or(u32::MAX);
        let (active, number): (Box<dyn Active>, u32) = match end {
            Some(end) if !end.is_sealed && end.segment >= own => {
                (held.active(end.segment, end.length)?, end.segment)
            }
            end => {
                let next = end.map_or(0, |end| end.segment.saturating_add(1)).max(own);
                (held.begin_segment(next)?, next)
            }
        };
        let segments = source.medium.segments(held.id())?;
        let unsealed = segments.iter().filter(|info| !info.is_sealed && info.number < number);
        let stands = |(at, place): (_, crate::reading::Place)| Stands {
            at,
            segment: place.segment,
            offset: place.offset,
        };
        let begin = Beginning {
            unsealed: unsealed.map(|info| info.number).collect(),
            header: stored.header.clone(),
            source,
            held,
            active,
            number,
            is_new: false,
            next: fold.next_seq(),
            // What was mended moved it.
            last: last.filter(|_| is_sound).map(stands),
            snapshot: if is_sound { snapshot } else { 0 },
        };
        let config = sessions.config();
        let log = Log::start(begin, config)?;
        if config.snapshot_events > 0 && folded >= config.snapshot_events {
            log.offer_snapshot(&fold);
        }
        Ok(OpenSession { header: stored.header, fold, log, recovered })
    }
}

/// A snapshot says nothing of what is mended before it. One that cannot be dropped is made
/// useless.
fn forget_snapshot(held: &mut dyn Held) -> Result<(), StoreError> {
    held.drop_snapshot().or_else(|error| {
        log::warn!("session {}: an old snapshot stays: {error}", held.id());
        held.put_snapshot(b"")
    })
}

impl Sessions {
    pub(super) fn create_new(
        &self,
        header: Header,
        known: KnownTypes,
    ) -> Result<OpenSession, StoreError> {
        check_new(&header)?;
        let id = &header.id;
        let text =
            header_text(&header).map_err(|e| StoreError::io(&self.medium().path(id), e.into()))?;
        let mut held = self.medium().create(NewSession {
            id,
            header: &text,
            inherit: None,
            sealed: Vec::new(),
            lines: b"",
            snapshot: None,
        })?;
        let active = match held.active(0, 0) {
            Ok(active) => active,
            Err(error) => {
                // Nobody has got it. The first error is the one to tell.
                drop(held.remove());
                return Err(error);
            }
        };
        let begin = Beginning {
            source: Source { bounds: super::bounds(&header), ..self.unbounded(id) },
            header: header.clone(),
            held,
            active,
            number: 0,
            is_new: true,
            next: 0,
            last: None,
            snapshot: 0,
            unsealed: Vec::new(),
        };
        let log = Log::start(begin, self.config())?;
        let fold = Fold::new(header.clone(), known);
        Ok(OpenSession { header, fold, log, recovered: Vec::new() })
    }

    pub(super) fn prepare_now(
        &self,
        id: &SessionId,
        known: KnownTypes,
    ) -> Result<Prepared, StoreError> {
        check_id(id)?;
        let held = self.medium().take(id)?;
        self.fold_held(held, known, true, &silent())
    }

    /// Folds a session whose lease is held: what follows the snapshot, or everything.
    pub(super) fn fold_held(
        &self,
        held: Box<dyn Held>,
        known: KnownTypes,
        from_snapshot: bool,
        progress: &Progress,
    ) -> Result<Prepared, StoreError> {
        let (stored, source) = self.facts(held.id())?;
        let (start, snapshot) = if from_snapshot {
            self.start(&source, &stored.header, known)
        } else {
            (self.whole(&source, &stored.header, known), 0)
        };
        let folded = fold_log(&source, start, progress)?;
        let damage = stored.damage.iter().chain(&folded.damage).cloned().collect();
        Ok(Prepared { sessions: self.clone(), held, stored, source, folded, snapshot, damage })
    }

    /// All of a log, and how far it went when its snapshot was made.
    pub(super) fn whole(&self, source: &Source, header: &Header, known: KnownTypes) -> Start {
        let (start, next) = self.start(source, header, known.clone());
        let fold = match start {
            Start::Whole { fold, .. } => fold,
            Start::After { .. } => Fold::new(header.clone(), known),
        };
        Start::Whole { fold, reached: next.checked_sub(1) }
    }

    /// Where folding begins, and up to which number the snapshot goes.
    pub(super) fn start(
        &self,
        source: &Source,
        header: &Header,
        known: KnownTypes,
    ) -> (Start, u64) {
        let text = source.medium.snapshot(&source.id);
        let usable = text.and_then(|text| snapshot::restore(&text, header, header, known.clone()));
        match usable {
            Some(usable) => {
                let next = usable.fold.next_seq();
                (usable.into(), next)
            }
            None => (Start::Whole { fold: Fold::new(header.clone(), known), reached: None }, 0),
        }
    }
}

/// What a header must be for this version to write it.
fn check_new(header: &Header) -> Result<(), StoreError> {
    check_id(&header.id)?;
    let invalid = |problem: String| Err(StoreError::InvalidHeader { problem });
    if header.format != FORMAT {
        return invalid(format!("format {} instead of {FORMAT}", header.format));
    }
    if header.created_at < 0 {
        return invalid(format!("the creation time {}", header.created_at));
    }
    Ok(())
}

/// A header as it is stored.
pub(super) fn header_text(header: &Header) -> Result<Vec<u8>, serde_json::Error> {
    let mut text = serde_json::to_vec_pretty(header)?;
    text.push(b'\n');
    Ok(text)
}
