//! The envelope of an event and its line on disk.
//!
//! A line is one JSON object with the fields in a fixed order; the last one, `sum`, is CRC-32C
//! (Castagnoli, RFC 3720 appendix B.4) over the bytes from `{` up to but not including `,"sum"`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Longest line that is written or read, in bytes. What is larger is refused.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// Length of `,"sum":"xxxxxxxx"}`.
const SUM_SUFFIX_BYTES: usize = 18;

/// A place in a log that may be handed out. A mismatch of `sum` means: read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// The event's number.
    pub seq: u64,
    /// The event's checksum.
    #[serde(with = "hex_sum")]
    pub sum: u32,
}

/// How a message-producing event joins the surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SurfaceOp {
    /// At the end.
    Append,
    /// In place of the inclusive span between two current nodes, named by their numbers.
    Replace(u64, u64),
}

/// Numbers that an event derives from: one, or an inclusive range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum SourceRange {
    /// One event.
    One(u64),
    /// First and last of consecutive events.
    Range(u64, u64),
}

impl SourceRange {
    /// First and last number.
    pub fn bounds(self) -> (u64, u64) {
        match self {
            Self::One(seq) => (seq, seq),
            Self::Range(first, last) => (first, last),
        }
    }

    /// Whether `seq` is named.
    pub fn contains(self, seq: u64) -> bool {
        let (first, last) = self.bounds();
        (first..=last).contains(&seq)
    }
}

/// An event that is not yet committed: everything but its number and time.
#[derive(Clone, Debug)]
pub struct Draft {
    /// The event's type, for example `user/message`.
    pub kind: String,
    /// The payload's version, for types that the pure core does not fold.
    pub v: Option<u32>,
    /// The payload.
    pub data: Box<RawValue>,
    /// Only on surface types.
    pub surface: Option<SurfaceOp>,
    /// What it derives from; empty = nothing.
    pub sources: Vec<SourceRange>,
    /// A reader that does not know the type may skip it.
    pub ignorable: bool,
}

/// One committed fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Contiguous from 0.
    pub seq: u64,
    /// Unix milliseconds; the wall clock may step back.
    pub time: i64,
    /// Everything else.
    pub body: Draft,
}

/// Why a line is not an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// Shorter than any event, or without the `sum` field at its end.
    #[error("the line does not end in a `sum` field")]
    NoSum,
    /// The bytes are not what was written.
    #[error("checksum {found:08x} does not match the content's {computed:08x}")]
    WrongSum {
        /// In the line.
        found: u32,
        /// Of the bytes.
        computed: u32,
    },
    /// The checksum is right but the content is not an event.
    #[error("not an event: {0}")]
    Shape(String),
    /// Longer than [`MAX_LINE_BYTES`].
    #[error("the line has {0} bytes, more than {MAX_LINE_BYTES}")]
    TooLong(usize),
}

/// Byte for byte.
impl PartialEq for Draft {
    fn eq(&self, other: &Self) -> bool {
        let rest = |of: &Self| (of.v, of.surface, of.ignorable);
        self.kind == other.kind
            && rest(self) == rest(other)
            && self.sources == other.sources
            && self.data.get() == other.data.get()
    }
}

#[derive(Serialize)]
struct LineOut<'a> {
    seq: u64,
    time: i64,
    r#type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    v: Option<u32>,
    data: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    surface: Option<SurfaceOut>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    sources: &'a [SourceRange],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    ignorable: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SurfaceOut {
    Word(String),
    Replace { replace: (u64, u64) },
}

#[derive(Deserialize)]
struct LineIn {
    seq: u64,
    time: i64,
    r#type: String,
    v: Option<u32>,
    data: Box<RawValue>,
    surface: Option<SurfaceOut>,
    #[serde(default)]
    sources: Vec<SourceRange>,
    #[serde(default)]
    ignorable: bool,
}

impl Event {
    /// The line on disk, with its line feed, and its checksum.
    ///
    /// # Errors
    /// [`LineError::TooLong`], or a payload that does not serialise.
    pub fn encode(&self) -> Result<(Vec<u8>, u32), LineError> {
        let surface = self.body.surface.map(|op| match op {
            SurfaceOp::Append => SurfaceOut::Word("append".to_owned()),
            SurfaceOp::Replace(first, last) => SurfaceOut::Replace { replace: (first, last) },
        });
        let out = LineOut {
            seq: self.seq,
            time: self.time,
            r#type: &self.body.kind,
            v: self.body.v,
            data: &self.body.data,
            surface,
            sources: &self.body.sources,
            ignorable: self.body.ignorable,
        };
        let mut line = Vec::with_capacity(self.body.data.get().len() + 160);
        serde_json::to_writer(&mut line, &out).map_err(|e| LineError::Shape(e.to_string()))?;
        line.pop();
        // A payload may carry foreign JSON with line breaks between its tokens; inside strings
        // JSON allows none, so this changes no value.
        for byte in &mut line {
            if matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        let sum = crc32c::crc32c(&line);
        line.extend_from_slice(format!(",\"sum\":\"{sum:08x}\"}}\n").as_bytes());
        if line.len() > MAX_LINE_BYTES {
            return Err(LineError::TooLong(line.len()));
        }
        Ok((line, sum))
    }

    /// Reads one line, without its line feed, and returns the event with its checksum.
    ///
    /// # Errors
    /// Every way in which the bytes are not what [`Event::encode`] wrote.
    pub fn decode(line: &[u8]) -> Result<(Self, u32), LineError> {
        if line.len() > MAX_LINE_BYTES {
            return Err(LineError::TooLong(line.len()));
        }
        let sum = checked_sum(line)?;
        let parsed: LineIn =
            serde_json::from_slice(line).map_err(|e| LineError::Shape(e.to_string()))?;
        let surface = match parsed.surface {
            None => None,
            Some(SurfaceOut::Word(word)) if word == "append" => Some(SurfaceOp::Append),
            Some(SurfaceOut::Word(word)) => {
                return Err(LineError::Shape(format!("surface `{word}` is not known")));
            }
            Some(SurfaceOut::Replace { replace: (first, last) }) => {
                Some(SurfaceOp::Replace(first, last))
            }
        };
        let body = Draft {
            kind: parsed.r#type,
            v: parsed.v,
            data: parsed.data,
            surface,
            sources: parsed.sources,
            ignorable: parsed.ignorable,
        };
        Ok((Self { seq: parsed.seq, time: parsed.time, body }, sum))
    }
}

fn checked_sum(line: &[u8]) -> Result<u32, LineError> {
    let at = line.len().checked_sub(SUM_SUFFIX_BYTES).ok_or(LineError::NoSum)?;
    let (content, suffix) = line.split_at(at);
    let hex = suffix
        .strip_prefix(b",\"sum\":\"")
        .and_then(|rest| rest.strip_suffix(b"\"}"))
        .and_then(|hex| std::str::from_utf8(hex).ok())
        .filter(|hex| hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)))
        .ok_or(LineError::NoSum)?;
    let found = u32::from_str_radix(hex, 16).map_err(|_| LineError::NoSum)?;
    let computed = crc32c::crc32c(content);
    if found == computed { Ok(found) } else { Err(LineError::WrongSum { found, computed }) }
}

mod hex_sum {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(sum: &u32, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{sum:08x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
        let text = String::deserialize(deserializer)?;
        u32::from_str_radix(&text, 16).map_err(D::Error::custom)
    }
}
