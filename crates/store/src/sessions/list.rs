//! What a list says about a session.

use std::path::PathBuf;

use reins_schema::{Event, Payload, SessionId, Source as Author};
use reins_session::KnownTypes;

use super::{Sessions, silent};
use crate::index::SummaryRow;
use crate::reading::{Found, Reader, Source, last_events, last_move};
use crate::{ListFilter, Listing, StoreError};

/// How much of a log is searched for the first prompt.
const PROMPT_WITHIN: u64 = 256 << 10;

/// A longer log without a snapshot is not folded for a list.
const FOLDED_MAX: u64 = 4 << 20;

/// Of such a log so much of the end is read, and so much when no turn begins or ends there.
const END_BYTES: u64 = 256 << 10;
const END_BYTES_MAX: u64 = 16 << 20;

const PROMPT_BYTES: usize = 400;

/// What the log says at its end.
struct State {
    cwd: PathBuf,
    events: u64,
    in_turn: bool,
    problem: Option<String>,
}

impl Sessions {
    pub(super) fn listed(&self, wanted: &ListFilter) -> Result<Listing, StoreError> {
        let summarise = |id: &SessionId| self.summary(id);
        self.index().list(&**self.medium(), wanted, &summarise, &|_, _| {})
    }

    fn summary(&self, id: &SessionId) -> Result<SummaryRow, StoreError> {
        let medium = self.medium();
        let segments = medium.segments(id)?;
        let active = segments.last().map_or(0, |info| info.number);
        let stamp = medium.stamp(id, active);
        let (stored, source) = self.facts(id)?;
        let header = stored.header;
        let stored_bytes = segments.iter().map(|info| info.stored).sum();
        let state = if stored_bytes > FOLDED_MAX && medium.snapshot(id).is_none() {
            glance(&source, header.cwd.clone())?
        } else {
            let start = || self.start(&source, &header, KnownTypes::default()).0;
            let (folded, _) = self.fold_beside(&source, &start, &silent())?;
            State {
                cwd: folded.fold.cwd().to_owned(),
                events: folded.fold.next_seq(),
                in_turn: folded.fold.open_turn().is_some(),
                problem: folded.damage.first().map(ToString::to_string),
            }
        };
        Ok(SummaryRow {
            active,
            stamp,
            modified: stamp.map_or(header.created_at, |stamp| stamp.changed_ns / 1_000_000),
            cwd: state.cwd,
            bytes: stored_bytes,
            events: state.events,
            in_turn: state.in_turn,
            archived: medium.is_archived(id),
            first_prompt: first_prompt(&source)?,
            problem: stored.damage.map(|damage| damage.to_string()).or(state.problem),
            header,
        })
    }
}

/// The state as the end of the log shows it, and its bytes.
fn glance(source: &Source, cwd: PathBuf) -> Result<State, StoreError> {
    let mut recent = last_events(source, END_BYTES)?;
    if recent.in_turn.is_none() {
        recent = last_events(source, END_BYTES_MAX)?;
    }
    Ok(State {
        cwd: last_move(source)?.map_or(cwd, |moved| moved.to),
        events: recent.last.map_or(0, |(at, _)| at.seq.saturating_add(1)),
        // A turn that began before is still going on.
        in_turn: recent.in_turn.unwrap_or(true),
        problem: None,
    })
}

/// The first words of a person near the log's start.
fn first_prompt(source: &Source) -> Result<Option<String>, StoreError> {
    let mut reader = Reader::whole(source)?;
    let mut seen = 0;
    while seen < PROMPT_WITHIN {
        let Some(found) = reader.next()? else { break };
        match found {
            Found::Event { event, place, .. } => {
                seen += place.bytes;
                if let Some(prompt) = prompt(&event) {
                    return Ok(Some(prompt));
                }
            }
            Found::Damaged { place, .. } => seen += place.bytes,
        }
    }
    Ok(None)
}

/// A person's words, whether they wait in the inbox or have entered a step.
fn prompt(event: &Event) -> Option<String> {
    let messages = match Payload::read(&event.body).ok()? {
        Payload::UserMessage(payload) => vec![payload.message],
        Payload::InboxSpliced(payload) => payload.inserted,
        _ => return None,
    };
    let message = messages.into_iter().find(|m| matches!(m.source, Author::User))?;
    let mut text = message.text();
    if text.trim().is_empty() {
        return None;
    }
    let end = (0..=PROMPT_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    Some(text)
}
