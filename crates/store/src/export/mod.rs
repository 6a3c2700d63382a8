//! Sessions in one zip file, to be kept elsewhere, sent, read by people and taken over again.
//!
//! ```text
//! about.json             what is in the file, and what could not be
//! header.json            the session's immutable facts
//! session.jsonl          its events, line by line as they were logged; all of them, of a fork, too
//! session.md             a page for people, when the caller has one
//! blobs/<sha256>
//! children/<id>/…        the same for each descendant
//! ```

mod check;
mod copy;
mod import;
mod target;
mod write;

#[cfg(test)]
mod tests;

use reins_schema::SessionId;
use serde::{Deserialize, Serialize};

pub(crate) use import::{Limits, import};
pub(crate) use write::export;

use crate::reading::StoredHeader;
use crate::{Progress, StoreError};

/// Reads the header of a session, or what stands in for a lost one.
pub(crate) type HeaderOf<'a> = dyn Fn(&SessionId) -> Result<StoredHeader, StoreError> + 'a;

/// The number of the layout above. A higher one is refused.
const LAYOUT: u32 = 1;

const ABOUT: &str = "about.json";
const HEADER: &str = "header.json";
const LOG: &str = "session.jsonl";
const PAGE: &str = "session.md";
const BLOBS: &str = "blobs/";
const CHILDREN: &str = "children/";

/// Progress is told after so many bytes.
const TOLD_BYTES: u64 = 256 << 10;

/// What is named at most of what was left out of a session.
const LEFT_OUT_MAX: usize = 1000;

/// `about.json`
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct About {
    /// [`LAYOUT`] of the writer.
    export: u32,
    /// The version that wrote the file.
    reins: String,
    /// The session at the top.
    session: SessionId,
    /// All sessions, that one first.
    sessions: Vec<AboutSession>,
}

/// What `about.json` says of a session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AboutSession {
    id: SessionId,
    /// Lines of its log.
    events: u64,
    /// Hash of its log.
    sha256: String,
    /// How many blobs it has.
    blobs: u64,
    /// What of it is not in the file, because it is damaged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LeftOut>,
    /// How much more of it is not in the file.
    #[serde(default)]
    left_out_more: u64,
}

/// A part of a session that is not in the file.
#[derive(Debug, Serialize, Deserialize)]
struct LeftOut {
    /// Where it is in the session.
    place: String,
    bytes: u64,
    problem: String,
}

impl AboutSession {
    fn leave_out(&mut self, place: String, bytes: u64, problem: String) {
        if self.left_out.len() < LEFT_OUT_MAX {
            self.left_out.push(LeftOut { place, bytes, problem });
        } else {
            self.left_out_more += 1;
        }
    }
}

/// Tells progress now and then.
struct Told<'a> {
    progress: &'a Progress,
    done: u64,
    told: u64,
    total: u64,
}

impl<'a> Told<'a> {
    fn new(progress: &'a Progress, total: u64) -> Self {
        Self { progress, done: 0, told: 0, total }
    }

    fn at(&mut self, done: u64) {
        self.done = done;
        if done >= self.told + TOLD_BYTES {
            self.told = done;
            (self.progress)(done.min(self.total), self.total);
        }
    }

    fn end(&mut self) {
        (self.progress)(self.total, self.total);
    }
}

/// Whether it can be the name of a blob.
fn is_blob(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
