//! The JSON of chat completion chunks, tolerant where servers differ.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// `Option<Cow<str>>` would always copy; this borrows.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

/// One event's data, or a whole answer.
#[derive(Deserialize)]
pub(super) struct Chunk<'a> {
    #[serde(borrow, default)]
    pub(super) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) object: Option<Text<'a>>,
}

/// One of the answers; only the first is asked for.
#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) delta: Option<Delta<'a>>,
    /// What a server sends that does not stream.
    #[serde(borrow, default)]
    pub(super) message: Option<Delta<'a>>,
    #[serde(borrow, default)]
    pub(super) finish_reason: Option<Text<'a>>,
}

/// A piece of the answer.
#[derive(Default)]
pub(super) struct Delta<'a> {
    pub(super) reasoning: Option<String>,
    pub(super) content: Option<String>,
    pub(super) calls: Vec<CallDelta<'a>>,
    /// Fields that this dialect does not know, or known ones of an unknown shape.
    pub(super) unknown: Vec<(Cow<'a, str>, &'a RawValue)>,
}

/// A piece of a tool call.
#[derive(Deserialize)]
pub(super) struct CallDelta<'a> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) id: Option<Text<'a>>,
    #[serde(borrow, default)]
    pub(super) function: Option<FunctionDelta<'a>>,
}

/// Name and arguments.
#[derive(Deserialize)]
pub(super) struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<Text<'a>>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

impl FunctionDelta<'_> {
    /// The arguments' text; those that came as a JSON value instead of a text become its JSON.
    pub(super) fn arguments(&self) -> Result<String, serde_json::Error> {
        match self.arguments {
            None => Ok(String::new()),
            Some(raw) if raw.get().starts_with('"') => serde_json::from_str(raw.get()),
            Some(raw) => Ok(raw.get().to_owned()),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Delta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(DeltaVisitor)
    }
}

struct DeltaVisitor;

impl<'de> Visitor<'de> for DeltaVisitor {
    type Value = Delta<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a delta object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut delta = Delta::default();
        let mut other_reasoning = None;
        while let Some(Text(key)) = map.next_key::<Text<'de>>()? {
            match key.as_ref() {
                "role" => drop(map.next_value::<IgnoredAny>()?),
                "content" => delta.content = delta.take_text(key, map.next_value()?)?,
                "reasoning_content" => delta.reasoning = delta.take_text(key, map.next_value()?)?,
                // Some servers send both names with one text.
                "reasoning" => other_reasoning = delta.take_text(key, map.next_value()?)?,
                "tool_calls" => {
                    delta.calls = map.next_value::<Option<_>>()?.unwrap_or_default();
                }
                _ => delta.keep(key, map.next_value()?),
            }
        }
        delta.reasoning = delta.reasoning.or(other_reasoning);
        Ok(delta)
    }
}

impl<'a> Delta<'a> {
    /// A non-empty text; another shape is kept as unknown.
    fn take_text<E: serde::de::Error>(
        &mut self,
        key: Cow<'a, str>,
        raw: &'a RawValue,
    ) -> Result<Option<String>, E> {
        if !raw.get().starts_with('"') {
            self.keep(key, raw);
            return Ok(None);
        }
        let text: String = serde_json::from_str(raw.get()).map_err(E::custom)?;
        Ok(Some(text).filter(|text| !text.is_empty()))
    }

    fn keep(&mut self, key: Cow<'a, str>, raw: &'a RawValue) {
        let empty = matches!(raw.get(), "null" | "\"\"" | "[]" | "{}" | "false");
        if !empty {
            self.unknown.push((key, raw));
        }
    }
}
