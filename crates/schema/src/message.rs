//! Messages as the log keeps them, independent of any provider's wire form.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{Block, CallId, MessageId};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Instructions of the harness.
    System,
    /// A person, a plugin, or a tool's answer.
    User,
    /// The model.
    Assistant,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Given before the message enters the inbox; never changed.
    pub id: MessageId,
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Vec<Block>,
    /// Where it came from.
    pub source: Source,
}

impl Message {
    /// A person's text.
    pub fn user(id: MessageId, text: impl Into<String>) -> Self {
        let content = vec![Block::Text(text.into())];
        Self { id, role: Role::User, content, source: Source::User }
    }

    /// A short text that the harness itself adds for the model.
    pub fn notice(id: MessageId, plugin: &str, text: impl Into<String>) -> Self {
        Self {
            id,
            role: Role::User,
            content: vec![Block::Text(text.into())],
            source: Source::Plugin { plugin: plugin.to_owned(), form: Some("notice".to_owned()) },
        }
    }

    /// All text blocks joined without a separator.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The calls in this message, in the model's order.
    pub fn calls(&self) -> impl Iterator<Item = &crate::ToolCallBlock> {
        self.content.iter().filter_map(|block| match block {
            Block::ToolCall(call) => Some(call),
            _ => None,
        })
    }
}

/// Where a message came from. Kinds that this version does not know are carried unread.
#[derive(Clone, Debug)]
pub enum Source {
    /// A person.
    User,
    /// A plugin of the harness; `form` is a hint for presentation.
    Plugin {
        /// The plugin's name.
        plugin: String,
        /// `notice`, `snapshot`, `instructions`, …
        form: Option<String>,
    },
    /// A model's answer.
    Model {
        /// The provider's id.
        provider: String,
        /// The model's id.
        model: String,
        /// What this provider needs to see again (signatures, ids); left out for others.
        replay: Option<Box<RawValue>>,
    },
    /// A tool's answer.
    Tool {
        /// The call that is answered.
        call_id: CallId,
    },
    /// A kind this version does not know.
    Unknown(Box<RawValue>),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Flat<'a> {
    kind: std::borrow::Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    plugin: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    form: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    provider: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<std::borrow::Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    call_id: Option<CallId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    replay: Option<Box<RawValue>>,
}

impl Flat<'_> {
    fn of(kind: &'static str) -> Flat<'static> {
        Flat {
            kind: kind.into(),
            plugin: None,
            form: None,
            provider: None,
            model: None,
            call_id: None,
            replay: None,
        }
    }
}

impl PartialEq for Source {
    fn eq(&self, other: &Self) -> bool {
        serde_json::to_string(self).ok() == serde_json::to_string(other).ok()
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let flat = match self {
            Self::User => Flat::of("user"),
            Self::Plugin { plugin, form } => Flat {
                plugin: Some(plugin.as_str().into()),
                form: form.as_deref().map(Into::into),
                ..Flat::of("plugin")
            },
            Self::Model { provider, model, replay } => Flat {
                provider: Some(provider.as_str().into()),
                model: Some(model.as_str().into()),
                replay: replay.clone(),
                ..Flat::of("model")
            },
            Self::Tool { call_id } => Flat { call_id: Some(call_id.clone()), ..Flat::of("tool") },
            Self::Unknown(raw) => return raw.serialize(serializer),
        };
        flat.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let flat: Flat<'_> = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        let text = |value: Option<std::borrow::Cow<'_, str>>, name: &'static str| {
            value.map(std::borrow::Cow::into_owned).ok_or_else(|| D::Error::missing_field(name))
        };
        match flat.kind.as_ref() {
            "user" => Ok(Self::User),
            "plugin" => Ok(Self::Plugin {
                plugin: text(flat.plugin, "plugin")?,
                form: flat.form.map(std::borrow::Cow::into_owned),
            }),
            "model" => Ok(Self::Model {
                provider: text(flat.provider, "provider")?,
                model: text(flat.model, "model")?,
                replay: flat.replay,
            }),
            "tool" => {
                let call_id = flat.call_id.ok_or_else(|| D::Error::missing_field("callId"))?;
                Ok(Self::Tool { call_id })
            }
            _ => Ok(Self::Unknown(raw)),
        }
    }
}
