//! Event types that plugins register, and the agent's own.

use reins_schema::{CallId, Draft, Event};
use serde::{Deserialize, Serialize};

use crate::commands::CommandRun;

pub use reins_session::EventType;

/// The event types of this crate.
pub const EVENT_TYPES: [(&str, EventType); 6] = [
    (ApprovalAsked::TYPE, PASSING),
    (ApprovalDecided::TYPE, PASSING),
    (SandboxMode::TYPE, EventType { version: 1, ignorable: false, keep_last: true }),
    (CompositionChanged::TYPE, PASSING),
    (PresetSelected::TYPE, EventType { version: 1, ignorable: true, keep_last: true }),
    (CommandRun::TYPE, PASSING),
];

/// Nobody needs it to go on with the session.
const PASSING: EventType = EventType { version: 1, ignorable: true, keep_last: false };

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

/// `composition/changed`: the agent goes on in another generation, where rows that it sees differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompositionChanged {
    /// The generation's number in its process.
    pub generation: u64,
    /// The rows that differ.
    pub rows: Vec<ChangedRow>,
    /// Why the agent stays in the generation it was in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A row of [`CompositionChanged`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedRow {
    /// Its id.
    pub row: String,
    /// `added`, `removed`, `enabled`, `disabled`, `changed` or `moved`.
    pub what: String,
    /// `file:line`, or the layer's name.
    pub place: String,
}

impl CompositionChanged {
    /// The event's type.
    pub const TYPE: &'static str = "composition/changed";
}

/// `agent-preset/selected`: overrides the preset that the session's header names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PresetSelected {
    /// The preset's name.
    pub agent_preset: String,
}

impl PresetSelected {
    /// The event's type.
    pub const TYPE: &'static str = "agent-preset/selected";

    /// The preset that an event selects; `None` for every other event.
    pub fn of(event: &Event) -> Option<String> {
        let is_this = event.body.kind == Self::TYPE;
        let read = || serde_json::from_str::<Self>(event.body.data.get()).ok();
        is_this.then(read).flatten().map(|selected| selected.agent_preset)
    }
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
    let required = EventType { version: 1, ignorable: false, keep_last: false };
    draft(kind, known.map_or(required, |(_, of)| *of), payload)
}
