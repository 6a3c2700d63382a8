//! The state of a session from the end of its log alone.

use reins_schema::Position;

use super::{Found, Place, Reader, Source};
use crate::StoreError;

/// What the last events say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recent {
    /// The last event, and its time.
    pub(crate) last: Option<(Position, i64)>,
    /// Whether a turn is open; `None` when no turn begins or ends there.
    pub(crate) in_turn: Option<bool>,
}

/// Looks at about the last `bytes` of a log. Never reads more, and passes over what is damaged.
pub(crate) fn last_events(source: &Source, bytes: u64) -> Result<Recent, StoreError> {
    let (mut left, mut start) = (bytes, None);
    for info in source.medium.segments(&source.id)?.iter().rev() {
        let Some(segment) = source.segment(info.number)? else { continue };
        let length = segment.length();
        let offset = length.saturating_sub(left);
        start = Some(Place { segment: info.number, offset, bytes: 0, line: None });
        left = left.saturating_sub(length);
        if left == 0 {
            break;
        }
    }
    let mut recent = Recent::default();
    let Some(start) = start else { return Ok(recent) };
    let mut reader = Reader::from_place(source, start, 0)?;
    while let Some(found) = reader.next()? {
        if let Found::Event { event, sum, .. } = found {
            recent.last = Some((Position { seq: event.seq, sum }, event.time));
            match event.body.kind.as_str() {
                "turn/start" => recent.in_turn = Some(true),
                "turn/end" => recent.in_turn = Some(false),
                _ => {}
            }
        }
    }
    Ok(recent)
}
