//! The header of a session, and what stands in for it when it is lost.

use std::path::PathBuf;

use reins_schema::{
    FORMAT, Header, OLDEST_FORMAT, ParentPosition, Payload, Position, SessionId, SessionRecovered,
};

use super::{Found, Reader, Source};
use crate::medium::{Held, Medium};
use crate::{Damage, DamageKind, StoreError};

/// The parent of a fork whose header is lost.
const UNKNOWN_PARENT: &str = "unknown";

/// More segments than any fork shares.
const SHARED_MAX: usize = 1 << 20;

/// A header as it can be known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredHeader {
    pub(crate) header: Header,
    /// What is wrong with the stored one, when this one stands in for it.
    pub(crate) damage: Option<Damage>,
}

/// Reads the header of a session. When it is damaged, missing, or another session's, `copy` (what
/// the snapshot or the index remembers) stands in for it, else what the log says.
///
/// # Errors
/// Absent; unreadable; a newer version wrote it.
pub(crate) fn read_header(
    source: &Source,
    copy: impl FnOnce() -> Option<Header>,
) -> Result<StoredHeader, StoreError> {
    let (medium, id) = (&*source.medium, &source.id);
    let stored = medium.header(id)?;
    let problem = match stored.as_deref().map(|bytes| parse(medium, id, bytes)) {
        Some(Ok(header)) if header.id == *id => {
            return Ok(StoredHeader { header, damage: None });
        }
        Some(Ok(other)) => {
            // A copied folder: everything else holds.
            let problem = format!("the header is that of session `{}`", other.id);
            let header = Header { id: id.clone(), ..other };
            return Ok(stand_in(source, header, &stored, problem));
        }
        Some(Err(Unusable::Newer(error))) => return Err(error),
        Some(Err(Unusable::Damaged(problem))) => problem,
        None => "the header is missing".to_owned(),
    };
    let header = match copy().filter(|header| header.id == *id) {
        Some(header) => header,
        None => from_log(source)?,
    };
    Ok(stand_in(source, header, &stored, problem))
}

fn stand_in(
    source: &Source,
    header: Header,
    stored: &Option<Vec<u8>>,
    problem: String,
) -> StoredHeader {
    let damage = Damage {
        path: source.medium.path(&source.id).join("header.json"),
        offset: 0,
        bytes: stored.as_ref().map_or(0, |bytes| bytes.len() as u64),
        line: None,
        problem,
        kind: DamageKind::Header,
    };
    StoredHeader { header, damage: Some(damage) }
}

/// Writes the header that stands in for a damaged one, and says so. `None` when nothing is damaged.
///
/// # Errors
/// The disk refuses.
pub(crate) fn mend_header(
    stored: &StoredHeader,
    held: &mut dyn Held,
) -> Result<Option<SessionRecovered>, StoreError> {
    let Some(damage) = &stored.damage else { return Ok(None) };
    let mut text = serde_json::to_vec_pretty(&stored.header)
        .map_err(|e| StoreError::io(&damage.path, e.into()))?;
    text.push(b'\n');
    let name = held.put_header(&text, "original-header.json")?;
    let kept_in = if damage.bytes > 0 { name } else { String::new() };
    Ok(Some(SessionRecovered {
        damage: format!("the header: {}; it was made up from what is known", damage.problem),
        cut_bytes: damage.bytes,
        kept_in,
        ..SessionRecovered::default()
    }))
}

enum Unusable {
    Newer(StoreError),
    Damaged(String),
}

fn parse(medium: &dyn Medium, id: &SessionId, bytes: &[u8]) -> Result<Header, Unusable> {
    let damaged = |problem: String| Unusable::Damaged(problem);
    let value: serde_json::Value = serde_json::from_slice(bytes)
        .map_err(|e| damaged(format!("the header is not JSON ({e})")))?;
    // The number first: a newer version may have changed everything else.
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(found) if found > u64::from(FORMAT) => {
            let path = medium.path(id);
            return Err(Unusable::Newer(StoreError::NewerFormat { found, path }));
        }
        Some(found) if found >= u64::from(OLDEST_FORMAT) => {}
        Some(found) => return Err(damaged(format!("format {found} never existed"))),
        None => return Err(damaged("the header has no format number".to_owned())),
    }
    serde_json::from_value(value)
        .map_err(|e| damaged(format!("the header has another shape ({e})")))
}

/// What the log says of its session.
fn from_log(source: &Source) -> Result<Header, StoreError> {
    let bounds = find_bounds(source)?;
    let (mut created_at, mut cwd, mut parent) = (None, PathBuf::new(), None);
    let mut before: Option<Position> = None;
    let mut reader = Reader::whole(&Source { bounds: bounds.clone(), ..source.clone() })?;
    while let Some(found) = reader.next()? {
        let Found::Event { event, sum, .. } = found else { continue };
        created_at.get_or_insert(event.time);
        match Payload::read(&event.body) {
            Ok(Payload::SessionMoved(moved)) => cwd = moved.to,
            Ok(Payload::EndSeed(_)) if !bounds.is_empty() => {
                created_at = Some(event.time);
                parent = before;
            }
            _ => {}
        }
        before = Some(Position { seq: event.seq, sum });
    }
    let session = SessionId::new(UNKNOWN_PARENT);
    let parent = parent.map(|at| ParentPosition { session, at, segments: bounds });
    Ok(Header {
        format: FORMAT,
        id: source.id.clone(),
        created_at: created_at.unwrap_or(0),
        cwd,
        parent,
        origin: None,
        delegation_depth: 0,
        agent_preset: None,
    })
}

/// What a fork shares with its parent: its own part begins a segment, with `session/end-seed`, and
/// nothing from that number on counts in the segments before.
fn find_bounds(source: &Source) -> Result<Vec<u64>, StoreError> {
    let mut bounds: Vec<u64> = Vec::new();
    let mut segment = None;
    let mut reader = Reader::whole(&Source { bounds: Vec::new(), ..source.clone() })?;
    while let Some(found) = reader.next()? {
        let Found::Event { event, place, .. } = found else { continue };
        let is_first = segment.replace(place.segment) != Some(place.segment);
        let is_seed = is_first && matches!(Payload::read(&event.body), Ok(Payload::EndSeed(_)));
        let Some(last) = event.seq.checked_sub(1).filter(|_| is_seed) else { continue };
        let shared = usize::try_from(place.segment).unwrap_or(usize::MAX);
        if shared > SHARED_MAX {
            continue;
        }
        bounds.resize(shared, u64::MAX);
        for bound in &mut bounds {
            *bound = last.min(*bound);
        }
    }
    Ok(bounds)
}
