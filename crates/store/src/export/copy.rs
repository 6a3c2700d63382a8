//! The lines of a log, exactly as they are stored.

use std::io::{self, Read, Write};

use reins_schema::Event;
use sha2::{Digest, Sha256};

use super::{AboutSession, hex};
use crate::StoreError;
use crate::medium::Segment;
use crate::reading::{Found, Place, Reader, Source};

/// Why a copy ended early: the session cannot be read, or the copy not be written.
#[derive(Debug)]
pub(super) enum Stop {
    Store(StoreError),
    Write(io::Error),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Writes the lines of all events that continue the log, and says what is left out. `passed` hears
/// how many stored bytes were read so far.
pub(super) fn copy_log(
    source: &Source,
    out: &mut dyn Write,
    passed: &mut dyn FnMut(u64),
) -> Result<AboutSession, Stop> {
    let mut about = AboutSession {
        id: source.id.clone(),
        events: 0,
        sha256: String::new(),
        blobs: 0,
        left_out: Vec::new(),
        left_out_more: 0,
    };
    let mut lines = Lines { source, open: None };
    let mut reader = Reader::whole(source)?;
    let (mut hash, mut next) = (Sha256::new(), 0);
    let mut held_back = None;
    while let Some(found) = reader.next()? {
        if let Some((place, problem)) = held_back.take() {
            leave_out(&mut about, place, problem);
        }
        match found {
            Found::Damaged { place, problem } if place.bytes > 0 => {
                held_back = Some((place, problem));
            }
            Found::Damaged { .. } => {}
            Found::Event { event, place, .. } if event.seq < next => {
                let problem = format!("event {} stands there, after event {}", event.seq, next - 1);
                leave_out(&mut about, place, problem);
            }
            Found::Event { event, place, .. } => {
                let line = lines.read(place, event.seq)?;
                hash.update(&line);
                out.write_all(&line)?;
                about.events += 1;
                next = event.seq + 1;
            }
        }
        passed(reader.progress().0);
    }
    // What a live writer has not yet written to its end is no damage.
    if let Some((place, problem)) = held_back
        && source.medium.holder(&source.id).is_none()
    {
        leave_out(&mut about, place, problem);
    }
    about.sha256 = hex(&hash.finalize());
    Ok(about)
}

fn leave_out(about: &mut AboutSession, place: Place, problem: String) {
    let at = format!("segment {}, byte {}", place.segment, place.offset);
    about.leave_out(at, place.bytes, problem);
}

/// Reads lines again as they are stored: an event may have been written by another version, with
/// fields that this one does not know.
struct Lines<'a> {
    source: &'a Source,
    open: Option<(u32, Box<dyn Segment>)>,
}

impl Lines<'_> {
    fn read(&mut self, place: Place, seq: u64) -> Result<Vec<u8>, StoreError> {
        let segment = match &mut self.open {
            Some((number, segment)) if *number == place.segment => segment,
            open => {
                let segment = self.source.medium.segment(&self.source.id, place.segment)?;
                &mut open.insert((place.segment, segment)).1
            }
        };
        let mut line = Vec::new();
        let mut part = At { segment: segment.as_mut(), offset: place.offset }.take(place.bytes);
        part.read_to_end(&mut line).map_err(|e| StoreError::io(&segment.place(), e))?;
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        if Event::decode(&line).is_ok_and(|(event, _)| event.seq == seq) {
            line.push(b'\n');
            return Ok(line);
        }
        let problem = format!("event {seq} is not there any more");
        let advice = "somebody repairs the session; try again";
        Err(StoreError::unreadable(&segment.place(), problem, advice))
    }
}

struct At<'a> {
    segment: &'a mut dyn Segment,
    offset: u64,
}

impl Read for At<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.segment.read_at(self.offset, buffer)?;
        self.offset += read as u64;
        Ok(read)
    }
}
