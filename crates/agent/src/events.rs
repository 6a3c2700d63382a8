//! Event types that plugins register, and the agent's own.

use reins_schema::{CallId, Draft};
use serde::{Deserialize, Serialize};

use crate::commands::CommandRun;

pub use reins_session::EventType;

/// The event types of this crate.
pub const EVENT_TYPES: [(&str, EventType); 5] = [
    (ApprovalAsked::TYPE, EventType { version: 1, ignorable: true }),
    (ApprovalDecided::TYPE, EventType { version: 1, ignorable: true }),
    (SandboxMode::TYPE, EventType { version: 1, ignorable: false }),
    (CommandRun::TYPE, EventType { version: 1, ignorable: true }),
    (COMPOSITION_CHANGED, EventType { version: 1, ignorable: true }),
];

const COMPOSITION_CHANGED: &str = "composition/changed";

/// `approval/asked`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalAsked {
    /// Pairs with `approval/decided`.
    pub id: String,
    /// The tool.
    pub tool_name: String,
    /// The call.
    pub call_id: CallId,
    /// Why it is asked.
    pub reason: String,
}

impl ApprovalAsked {
    /// The event's type.
    pub const TYPE: &'static str = "approval/asked";
}

/// `approval/decided`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalDecided {
    /// Pairs with `approval/asked`.
    pub id: String,
    /// The call.
    pub call_id: CallId,
    /// `allowed-once`, `rejected`, `cancelled`, `unavailable`.
    pub outcome: String,
}

impl ApprovalDecided {
    /// The event's type.
    pub const TYPE: &'static str = "approval/decided";
}

/// `sandbox/mode`: how far tools may reach from here on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxMode {
    /// `read-only`, `workspace-write`, `danger-full-access`.
    pub mode: String,
}

impl SandboxMode {
    /// The event's type.
    pub const TYPE: &'static str = "sandbox/mode";
}

/// The uncommitted event of a registered type.
///
/// # Errors
/// The payload does not serialise.
pub fn draft(
    kind: &str,
    of: EventType,
    payload: &impl Serialize,
) -> Result<Draft, serde_json::Error> {
    Ok(Draft {
        kind: kind.to_owned(),
        v: Some(of.version),
        data: serde_json::value::to_raw_value(payload)?,
        surface: None,
        sources: Vec::new(),
        ignorable: of.ignorable,
    })
}

/// The uncommitted event of one of [`EVENT_TYPES`].
pub(crate) fn own_draft(kind: &str, payload: &impl Serialize) -> Result<Draft, serde_json::Error> {
    let known = EVENT_TYPES.iter().find(|(name, _)| *name == kind);
    draft(kind, known.map_or(EventType { version: 1, ignorable: false }, |(_, of)| *of), payload)
}
