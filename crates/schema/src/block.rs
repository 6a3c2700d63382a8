//! The parts of a message. Kinds that this version does not know are carried byte for byte.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::CallId;

/// One part of a message's content.
#[derive(Clone, Debug)]
pub enum Block {
    /// Plain text.
    Text(String),
    /// The model's reasoning.
    Reasoning(String),
    /// A picture kept as a blob of the session.
    Image(Image),
    /// The model asks for a tool.
    ToolCall(ToolCallBlock),
    /// The answer to one call.
    ToolResult(ToolResultBlock),
    /// A kind this version does not know, byte for byte as it was read.
    Unknown(Box<RawValue>),
}

/// A reference to a picture in `blobs/`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// SHA-256 of the bytes, lower-case hex; the blob's name.
    pub blob: String,
    /// For example `image/png`.
    pub media_type: String,
}

/// A call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCallBlock {
    /// Unique within its message.
    pub id: CallId,
    /// The tool's name; may be one that does not exist.
    pub name: String,
    /// The raw argument text, never parsed here and never changed.
    pub arguments: String,
}

/// The answer to one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResultBlock {
    /// The call that is answered.
    pub tool_call_id: CallId,
    /// What the model reads.
    pub content: Vec<Block>,
    /// Whether the call failed or was refused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Known {
    Text { text: String },
    Reasoning { text: String },
    Image(Image),
    ToolCall(ToolCallBlock),
    ToolResult(ToolResultBlock),
}

const KNOWN_TYPES: [&str; 5] = ["text", "reasoning", "image", "tool-call", "tool-result"];

impl PartialEq for Block {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) | (Self::Reasoning(a), Self::Reasoning(b)) => a == b,
            (Self::Image(a), Self::Image(b)) => a == b,
            (Self::ToolCall(a), Self::ToolCall(b)) => a == b,
            (Self::ToolResult(a), Self::ToolResult(b)) => a == b,
            (Self::Unknown(a), Self::Unknown(b)) => a.get() == b.get(),
            _ => false,
        }
    }
}

impl Serialize for Block {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(tag = "type", rename_all = "kebab-case")]
        enum Borrowed<'a> {
            Text { text: &'a str },
            Reasoning { text: &'a str },
            Image(&'a Image),
            ToolCall(&'a ToolCallBlock),
            ToolResult(&'a ToolResultBlock),
        }
        let known = match self {
            Self::Text(text) => Borrowed::Text { text },
            Self::Reasoning(text) => Borrowed::Reasoning { text },
            Self::Image(image) => Borrowed::Image(image),
            Self::ToolCall(call) => Borrowed::ToolCall(call),
            Self::ToolResult(result) => Borrowed::ToolResult(result),
            Self::Unknown(raw) => return raw.serialize(serializer),
        };
        known.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Tag {
            #[serde(rename = "type")]
            kind: String,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let tag: Tag = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        if !KNOWN_TYPES.contains(&tag.kind.as_str()) {
            return Ok(Self::Unknown(raw));
        }
        if tag.kind == "tool-result" {
            // Parsed directly: serde's tagged enums would buffer and lose unknown inner blocks.
            return serde_json::from_str(raw.get()).map(Self::ToolResult).map_err(D::Error::custom);
        }
        match serde_json::from_str(raw.get()).map_err(D::Error::custom)? {
            Known::Text { text } => Ok(Self::Text(text)),
            Known::Reasoning { text } => Ok(Self::Reasoning(text)),
            Known::Image(image) => Ok(Self::Image(image)),
            Known::ToolCall(call) => Ok(Self::ToolCall(call)),
            Known::ToolResult(result) => Ok(Self::ToolResult(result)),
        }
    }
}
