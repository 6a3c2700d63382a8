//! Checking all of a session, and mending all of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reins_schema::{SessionId, SessionRecovered, SourceRange};
use reins_session::KnownTypes;

use super::tell::writable;
use super::{Sessions, blobs, blocking};
use crate::reading::Source;
use crate::{Damage, DamageKind, Progress, Repaired, StoreError, Verified, check_id};

impl Sessions {
    /// Reads and checks everything. Never writes.
    pub(super) fn check(
        &self,
        id: &SessionId,
        known: KnownTypes,
        progress: &Progress,
    ) -> Result<Verified, StoreError> {
        let (stored, source) = self.facts(id)?;
        let start = || self.whole(&source, &stored.header, known.clone());
        let listed = self.medium().blobs(id)?;
        let blob_bytes: u64 = listed.iter().map(|(_, size)| size).sum();
        let mut log_bytes = 0;
        let log_total = Arc::new(AtomicU64::new(0));
        let (heard, inner) = (Arc::clone(&log_total), Arc::clone(progress));
        let tell: Progress = Arc::new(move |done, total| {
            heard.store(total, Ordering::Relaxed);
            inner(done, total.saturating_add(blob_bytes));
        });
        let (folded, _) = self.fold_beside(&source, &start, &tell)?;
        let mut damage: Vec<Damage> = stored.damage.into_iter().chain(folded.damage).collect();
        let segments = self.medium().segments(id)?;
        for info in &segments {
            log_bytes += self.medium().segment(id, info.number).map_or(0, |s| s.length());
        }
        let mut done = log_total.load(Ordering::Relaxed);
        let total = done.saturating_add(blob_bytes);
        for (name, size) in &listed {
            damage.extend(self.check_blob(&source, name, *size));
            done = done.saturating_add(*size);
            progress(done, total);
        }
        let fold = folded.fold;
        Ok(Verified {
            events: folded.folded,
            bytes: log_bytes,
            segments: u32::try_from(segments.len()).unwrap_or(u32::MAX),
            blobs: listed.len() as u64,
            damage,
            read_only: fold.read_only().map(str::to_owned),
        })
    }

    fn check_blob(&self, source: &Source, name: &str, size: u64) -> Option<Damage> {
        let limit = usize::try_from(size).unwrap_or(usize::MAX);
        let problem = match self.medium().blob(&source.id, name, limit) {
            Ok(Some(bytes)) if blobs::hash(&bytes) == name => return None,
            Ok(Some(_)) => "the blob does not contain what its name says".to_owned(),
            Ok(None) => "the blob is gone".to_owned(),
            Err(error) => error.to_string(),
        };
        let path = self.medium().path(&source.id).join("blobs").join(name);
        let kind = DamageKind::Blob;
        Some(Damage { path, offset: 0, bytes: size, line: None, problem, kind })
    }

    /// Mends all of a session and logs what was done.
    pub(super) async fn mend(
        &self,
        id: &SessionId,
        known: KnownTypes,
        dry_run: bool,
        progress: Progress,
    ) -> Result<Repaired, StoreError> {
        let (sessions, id) = (self.clone(), id.clone());
        let prepared = blocking(move || {
            check_id(&id)?;
            let held = sessions.medium().take(&id)?;
            let mut prepared = sessions.fold_held(held, known, false, &progress)?;
            if !dry_run {
                if !prepared.damage().is_empty() {
                    writable(&prepared)?;
                }
                // It would be believed, and may know events that the mended log has not.
                prepared.drop_snapshot()?;
            }
            Ok(prepared)
        })
        .await?;
        if dry_run {
            return Ok(Repaired { done: prepared.damage().iter().map(would).collect(), dry_run });
        }
        let mut open = prepared.publish().await?;
        let done = open.recovered.clone();
        let told = open.tell([]).await;
        let closed = open.log.close().await;
        told.and(closed)?;
        Ok(Repaired { done, dry_run })
    }
}

/// What mending would say of a damage.
fn would(damage: &Damage) -> SessionRecovered {
    let range = |first: u64, last: u64| {
        if first == last { SourceRange::One(first) } else { SourceRange::Range(first, last) }
    };
    let mut told = SessionRecovered {
        damage: damage.to_string(),
        cut_bytes: damage.bytes,
        ..SessionRecovered::default()
    };
    match damage.kind {
        DamageKind::Hole { first, last } => told.lost.push(range(first, last)),
        DamageKind::Refused { seq } => {
            told.cut_bytes = 0;
            told.aside.push(range(seq, seq));
        }
        DamageKind::Branch { first, last } => told.branch = Some(range(first, last)),
        DamageKind::Torn
        | DamageKind::Stray
        | DamageKind::Repeated { .. }
        | DamageKind::Header
        | DamageKind::Blob => {}
    }
    told
}
