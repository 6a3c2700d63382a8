//! The immutable facts of a session, in `header.json`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::{Position, SessionId};

/// The format number that this version writes. A higher one is refused with advice to upgrade.
///
/// 1: plain segments only. 2: sealed segments and forks.
pub const FORMAT: u32 = 2;

/// The oldest format number that this version reads, and continues.
pub const OLDEST_FORMAT: u32 = 1;

/// Written once when a session is created, never changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// The session.
    pub id: SessionId,
    /// Unix milliseconds.
    pub created_at: i64,
    /// The directory it was started in; a label, not an identity.
    pub cwd: PathBuf,
    /// Where it was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentPosition>,
    /// `subagent` for a delegated session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// How many delegations deep; 0 for a session of a person.
    #[serde(default)]
    pub delegation_depth: u32,
    /// The agent preset it was created with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_preset: Option<String>,
}

/// A place in another session's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ParentPosition {
    /// The parent.
    pub session: SessionId,
    /// The last event that the child shares.
    pub at: Position,
    /// For each segment that the child has in common with the parent, from the first one on: the
    /// last event in it that counts. What follows it there belongs to the parent only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<u64>,
}
