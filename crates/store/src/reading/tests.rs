//! Logs of every kind of damage, on a medium in memory that can also refuse to read or write.

mod branches;
mod folding;
mod header;
mod memory;
mod reader;

use std::sync::Arc;

use reins_schema::{Draft, Event, FORMAT, Header, SessionId};
use reins_session::{Fold, KnownTypes};
use serde_json::value::RawValue;

use crate::Progress;

use super::{Folded, Found, Reader, Source, Start, fold_log};
use memory::Memory;

const ID: &str = "0198c0de-0000-7000-8000-000000000001";

fn header() -> Header {
    Header {
        format: FORMAT,
        id: SessionId::new(ID),
        created_at: 1,
        cwd: "/project".into(),
        parent: None,
        origin: None,
        delegation_depth: 0,
        agent_preset: None,
    }
}

fn event(seq: u64, kind: &str, data: &str) -> Event {
    let body = Draft {
        kind: kind.to_owned(),
        v: None,
        data: RawValue::from_string(data.to_owned()).unwrap(),
        surface: None,
        sources: Vec::new(),
        ignorable: !matches!(kind.split_once('/').unwrap().0, "turn" | "session"),
    };
    Event { seq, time: 1000 + i64::try_from(seq).unwrap(), body }
}

fn line(seq: u64, kind: &str, data: &str) -> Vec<u8> {
    event(seq, kind, data).encode().unwrap().0
}

/// An event that always fits.
fn note(seq: u64, text: &str) -> Vec<u8> {
    line(seq, "test/note", &format!("{{\"text\":{text:?}}}"))
}

/// Notes of these numbers.
fn notes(seqs: impl IntoIterator<Item = u64>, text: &str) -> Vec<u8> {
    seqs.into_iter().flat_map(|seq| note(seq, text)).collect()
}

fn start(seq: u64, turn: u64) -> Vec<u8> {
    line(seq, "turn/start", &format!("{{\"turn\":{turn}}}"))
}

fn end(seq: u64, turn: u64) -> Vec<u8> {
    line(seq, "turn/end", &format!("{{\"turn\":{turn},\"reason\":{{\"kind\":\"completed\"}}}}"))
}

fn source(medium: &Arc<Memory>) -> Source {
    let medium = Arc::clone(medium) as Arc<dyn crate::medium::Medium>;
    Source { medium, id: SessionId::new(ID), bounds: Vec::new() }
}

/// A log of plain segments from 0 on.
fn log(segments: &[&[u8]]) -> Arc<Memory> {
    let medium = Memory::default();
    for (number, bytes) in segments.iter().enumerate() {
        medium.put(u32::try_from(number).unwrap(), bytes);
    }
    Arc::new(medium)
}

fn empty() -> Fold {
    Fold::new(header(), KnownTypes::default())
}

fn fold(source: &Source) -> Folded {
    fold_log(source, Start::Whole { fold: empty(), reached: None }, &quiet()).unwrap()
}

fn quiet() -> Progress {
    Arc::new(|_, _| {})
}

fn all(mut reader: Reader) -> Vec<Found> {
    std::iter::from_fn(|| reader.next().unwrap()).collect()
}

/// Numbers of the events, in the order in which they are found.
fn seqs(found: &[Found]) -> Vec<u64> {
    let seq = |found: &Found| match found {
        Found::Event { event, .. } => Some(event.seq),
        Found::Damaged { .. } => None,
    };
    found.iter().filter_map(seq).collect()
}
