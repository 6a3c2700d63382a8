//! Taking over what an export wrote: first everything is checked, then sessions are published,
//! parents first, each of them whole or not at all.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use reins_schema::{FORMAT, Header, ParentPosition, SessionId};

use super::HeaderOf;
use super::check::{Checked, Session, Zip, check, not_imported};
use super::copy::{Stop, copy_log};
use crate::medium::{Medium, NewSession};
use crate::reading::Source;
use crate::{ImportOrder, Imported, Progress, StoreError};

/// What an import may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of the file, and of everything in it.
    pub(crate) bytes: u64,
    /// Bytes of a blob.
    pub(crate) blob: u64,
    /// Bytes of a segment.
    pub(crate) segment: u64,
}

/// Takes over the sessions of an export.
///
/// # Errors
/// No export, or a damaged one; larger than allowed or than the disk has room for; a session of it
/// is there with other content. Sessions that were published before an error are named in it.
pub(crate) fn import(
    medium: &Arc<dyn Medium>,
    order: &ImportOrder,
    limits: &Limits,
    header: &HeaderOf<'_>,
    progress: &Progress,
) -> Result<Imported, StoreError> {
    let Checked { mut zip, mut sessions } = check(&order.file, limits, progress)?;
    if order.as_new {
        rename(&mut sessions);
    }
    let mut imported = Imported { sessions: Vec::new(), already: Vec::new() };
    let mut new = Vec::new();
    for session in sessions {
        match header(&session.header.id) {
            Err(StoreError::NotFound { .. }) => new.push(session),
            Err(error) => return Err(error),
            Ok(stored) => {
                if !is_same(medium, &stored.header, &session)? {
                    return Err(StoreError::OtherContent { id: session.header.id });
                }
                // Some may be missing, when an import ended in the middle.
                put_blobs(medium, &mut zip, &session)?;
                imported.already.push(session.header.id);
            }
        }
    }
    room(&**medium, &zip, &new)?;
    for session in new {
        publish(medium, &mut zip, &session).map_err(|error| told(error, &zip, &imported))?;
        imported.sessions.push(session.header.id);
    }
    Ok(imported)
}

/// Gives all sessions new ids.
fn rename(sessions: &mut [Session]) {
    let names: BTreeMap<SessionId, SessionId> = sessions
        .iter()
        .map(|it| (it.header.id.clone(), SessionId::new(uuid::Uuid::now_v7().to_string())))
        .collect();
    for session in sessions {
        let header = &mut session.header;
        let renamed = |id: &SessionId| names.get(id).cloned().unwrap_or_else(|| id.clone());
        header.id = renamed(&header.id);
        if let Some(parent) = &mut header.parent {
            parent.session = renamed(&parent.session);
        }
    }
}

/// Whether a session here is the one in the file.
fn is_same(medium: &Arc<dyn Medium>, here: &Header, session: &Session) -> Result<bool, StoreError> {
    if whole(here) != whole(&session.header) {
        return Ok(false);
    }
    let bounds = here.parent.as_ref().map(|it| it.segments.clone()).unwrap_or_default();
    let source = Source { medium: Arc::clone(medium), id: here.id.clone(), bounds };
    match copy_log(&source, &mut io::sink(), &mut |_| {}) {
        Ok(about) => Ok(about.left_out.is_empty() && about.sha256 == session.sha256),
        Err(Stop::Store(error)) => Err(error),
        Err(Stop::Write(error)) => Err(StoreError::io(&medium.path(&here.id), error)),
    }
}

/// The header of a session whose log is all its own.
fn whole(header: &Header) -> Header {
    let parent = header.parent.clone().map(|it| ParentPosition { segments: Vec::new(), ..it });
    Header { format: FORMAT, parent, ..header.clone() }
}

/// Refuses what the disk has no room for. A log is compressed here about as well as in the file.
fn room(medium: &dyn Medium, zip: &Zip, sessions: &[Session]) -> Result<(), StoreError> {
    let Some(first) = sessions.first() else { return Ok(()) };
    let mut wanted = 0_u64;
    for session in sessions {
        wanted = wanted.saturating_add(zip.sizes(session.log)?.0);
        for (_, index) in &session.blobs {
            wanted = wanted.saturating_add(zip.sizes(*index)?.1);
        }
    }
    let place = medium.path(&first.header.id);
    let space = place.ancestors().find_map(|path| rustix::fs::statvfs(path).ok());
    match space {
        Some(space) if space.f_bavail.saturating_mul(space.f_frsize) < wanted => {
            Err(StoreError::Full { path: place })
        }
        _ => Ok(()),
    }
}

/// Publishes a session; after an error nothing of it is left.
fn publish(medium: &Arc<dyn Medium>, zip: &mut Zip, session: &Session) -> Result<(), StoreError> {
    let header = whole(&session.header);
    let place = medium.path(&header.id);
    let mut text =
        serde_json::to_vec_pretty(&header).map_err(|e| StoreError::io(&place, e.into()))?;
    text.push(b'\n');
    let held =
        {
            let log: RefCell<Box<dyn Read + '_>> = RefCell::new(Box::new(zip.entry(session.log)?));
            let segments = session.cuts.iter();
            medium.create(NewSession {
                id: &header.id,
                header: &text,
                inherit: None,
                sealed: (0..)
                    .zip(segments.map(|left| -> Box<dyn Read + '_> {
                        Box::new(Part { of: &log, left: *left })
                    }))
                    .collect(),
                lines: &[],
                snapshot: None,
            })?
        };
    let Err(error) = put_blobs(medium, zip, session) else { return Ok(()) };
    if let Err(second) = held.remove() {
        log::warn!("{}: {second}", place.display());
    }
    Err(error)
}

/// So many bytes of what several segments are read from, one after the other.
struct Part<'a, 'b> {
    of: &'a RefCell<Box<dyn Read + 'b>>,
    left: u64,
}

impl Read for Part<'_, '_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let wanted = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.of.borrow_mut().read(&mut buffer[..wanted])?;
        if read == 0 && wanted > 0 {
            // It was longer when it was checked.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}

fn put_blobs(medium: &Arc<dyn Medium>, zip: &mut Zip, session: &Session) -> Result<(), StoreError> {
    for (name, index) in &session.blobs {
        let (_, size) = zip.sizes(*index)?;
        let bytes = zip.bytes(*index, size)?;
        medium.put_blob(&session.header.id, name, &bytes)?;
    }
    Ok(())
}

/// Names what was published before an error.
fn told(error: StoreError, zip: &Zip, imported: &Imported) -> StoreError {
    if imported.sessions.is_empty() {
        return error;
    }
    let published = imported.sessions.clone();
    match not_imported(&zip.path, error.to_string()) {
        StoreError::NotImported { path, problem, .. } => {
            StoreError::NotImported { path, problem, published }
        }
        other => other,
    }
}
