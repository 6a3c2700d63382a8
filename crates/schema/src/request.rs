//! What a model request consists of besides its messages.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// How the model is called.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallConfig {
    /// The provider's id (aliases are resolved before).
    pub provider: String,
    /// The model's id at that provider.
    pub model: String,
    /// Reasoning effort: `off`, `high`, `max`, … as the provider names them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Output limit in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// Stop sequences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stop: Vec<String>,
}

/// Which values of a [`CallConfig`] the provider filled in; a change of route resolves them anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AdapterDefaults {
    /// The effort is the provider's default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reasoning_effort: bool,
    /// The output limit is the provider's default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub max_tokens: bool,
}

/// What the model is told about one tool; nothing else of a tool reaches it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToolSchema {
    /// Unique among the visible tools.
    pub name: String,
    /// What the model reads.
    pub description: String,
    /// JSON Schema, kept as text so that its bytes are stable.
    pub parameters: Box<RawValue>,
}

impl PartialEq for ToolSchema {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.description == other.description
            && self.parameters.get() == other.parameters.get()
    }
}

/// Why a `request/header` was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum HeaderReason {
    /// The session's first request.
    Initial,
    /// Something differs from the last header.
    Change {
        /// What changed, and through which row: `tools (row extra-tools)`, `system`, `model`, …
        cause: String,
    },
}

/// `request/header`: everything of a request that is not a message. Written only when changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestHeader {
    /// How the model is called.
    pub config: CallConfig,
    /// Which of it the provider filled in.
    #[serde(default)]
    pub adapter_defaults: AdapterDefaults,
    /// The rendered system prompt; empty = none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub system: String,
    /// The tools, in the order sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolSchema>,
    /// Why it was written. Not part of equality between headers.
    pub reason: HeaderReason,
}

impl RequestHeader {
    /// Whether both lead to the same request; `reason` does not count.
    pub fn same_request(&self, other: &Self) -> bool {
        self.config == other.config
            && self.adapter_defaults == other.adapter_defaults
            && self.system == other.system
            && self.tools == other.tools
    }
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// A step of a turn.
    Turn,
    /// A summary for compaction.
    Summary,
    /// A title.
    Title,
}
