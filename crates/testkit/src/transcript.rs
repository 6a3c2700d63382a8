//! A session's log as text that people can compare.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;

use reins_schema::{Event, LineError};
use serde_json::Value;

/// Longest text of one field, in characters; the middle of a longer one is left out.
const TEXT_MAX: usize = 160;

/// Keys whose values differ from run to run, and the tag that stands for them.
const TAGGED: [(&str, &str); 11] = [
    ("id", "id"),
    ("callId", "id"),
    ("toolCallId", "id"),
    ("inbox", "id"),
    ("removed", "id"),
    ("outcomeUnknown", "id"),
    ("notStarted", "id"),
    ("hash", "hash"),
    ("blob", "hash"),
    ("delayMs", "ms"),
    ("dt", "ms"),
];

/// Keys whose numbers are the run's own: they become `#`.
const NUMBERS: [&str; 6] = ["bytes", "time", "durationMs", "duration_ms", "pid", "elapsedMs"];

/// One numbered line per event. Ids and hashes are replaced by tags in order of appearance
/// (`id1`, `hash1`), so equal ones stay equal; times and waits by `#`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript(String);

/// A log that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TranscriptError {
    /// The operating system refuses.
    #[error("{path}: {source}")]
    Read {
        /// The log.
        path: String,
        /// Its words.
        source: std::io::Error,
    },
    /// A line is no event.
    #[error("{path}:{line}: {source}")]
    Line {
        /// The log.
        path: String,
        /// From 1.
        line: usize,
        /// What is wrong with it.
        source: LineError,
    },
    /// An event's number does not follow.
    #[error("{path}:{line}: the event has number {found}, but {expected} follows")]
    Order {
        /// The log.
        path: String,
        /// From 1.
        line: usize,
        /// In the event.
        found: u64,
        /// After the event before.
        expected: u64,
    },
}

impl Transcript {
    /// Reads a log file. What a kill has left behind the last line break is shown as such.
    ///
    /// # Errors
    /// It cannot be read, a line is damaged, or the numbers have a gap.
    pub fn read(log: &Path) -> Result<Self, TranscriptError> {
        let (events, torn) = read(log)?;
        let mut text = Self::of(&events).0;
        if torn > 0 {
            text.push_str(&format!("(torn line of {torn} bytes)\n"));
        }
        Ok(Self(text))
    }

    /// The transcript of these events.
    pub fn of(events: &[Event]) -> Self {
        let mut tags = Tags::default();
        let lines = events.iter().map(|event| {
            let data: Value = serde_json::from_str(event.body.data.get()).unwrap_or_default();
            let data = shown(&tags.replaced("", data));
            let mark = match event.body.surface {
                None => String::new(),
                Some(reins_schema::SurfaceOp::Append) => " +".to_owned(),
                Some(reins_schema::SurfaceOp::Replace(a, b)) => format!(" replace {a}-{b}"),
            };
            format!("{:03} {}{mark} {data}\n", event.seq, event.body.kind)
        });
        Self(lines.collect())
    }

    /// Only the lines of these event types, their numbers left out.
    #[must_use]
    pub fn only(&self, kinds: &[&str]) -> Self {
        let lines = self.0.lines().filter_map(|line| line.split_once(' ')).map(|(_, rest)| rest);
        let kept = lines.filter(|rest| kinds.contains(&rest.split(' ').next().unwrap_or("")));
        Self(kept.map(|rest| format!("{rest}\n")).collect())
    }

    /// With a text of this run, for example the project's path, replaced by a tag.
    #[must_use]
    pub fn replaced(&self, text: &str, tag: &str) -> Self {
        Self(self.0.replace(text, tag))
    }

    /// The event types, in order; with or without numbers in front of them.
    pub fn kinds(&self) -> Vec<&str> {
        self.0.lines().filter_map(|line| line.split(' ').find(|word| word.contains('/'))).collect()
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The events of a log file; what a kill has left behind the last line break is none.
///
/// # Errors
/// As [`Transcript::read`].
pub fn read_events(log: &Path) -> Result<Vec<Event>, TranscriptError> {
    read(log).map(|(events, _)| events)
}

fn read(log: &Path) -> Result<(Vec<Event>, usize), TranscriptError> {
    let path = log.display().to_string();
    let bytes = std::fs::read(log)
        .map_err(|source| TranscriptError::Read { path: path.clone(), source })?;
    events_of(&bytes, &path)
}

/// The events of a log, and how many bytes follow the last line break.
fn events_of(bytes: &[u8], path: &str) -> Result<(Vec<Event>, usize), TranscriptError> {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let (whole, torn) = bytes.split_at(end);
    let mut events: Vec<Event> = Vec::new();
    let lines = whole.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
    for (index, line) in lines.enumerate() {
        let line_number = index + 1;
        let (event, _) = Event::decode(line).map_err(|source| TranscriptError::Line {
            path: path.to_owned(),
            line: line_number,
            source,
        })?;
        let expected = events.last().map_or(event.seq, |last| last.seq + 1);
        if event.seq != expected {
            return Err(TranscriptError::Order {
                path: path.to_owned(),
                line: line_number,
                found: event.seq,
                expected,
            });
        }
        events.push(event);
    }
    Ok((events, torn.len()))
}

/// Tags by kind and original.
#[derive(Default)]
struct Tags {
    known: HashMap<(&'static str, String), usize>,
    counts: HashMap<&'static str, usize>,
}

impl Tags {
    fn replaced(&mut self, key: &str, value: Value) -> Value {
        if NUMBERS.contains(&key) && value.is_number() {
            return Value::from("#");
        }
        let tag = TAGGED.iter().find(|(tagged, _)| *tagged == key).map(|(_, tag)| *tag);
        match (value, tag) {
            (Value::Array(items), _) => {
                Value::Array(items.into_iter().map(|item| self.replaced(key, item)).collect())
            }
            (Value::Object(fields), _) => Value::Object(
                fields
                    .into_iter()
                    .map(|(name, field)| {
                        let field = self.replaced(&name, field);
                        (name, field)
                    })
                    .collect(),
            ),
            (Value::Number(_), Some("ms")) => Value::from("#"),
            (Value::String(text), Some(tag)) => Value::from(self.tag(tag, text)),
            (value, _) => value,
        }
    }

    fn tag(&mut self, kind: &'static str, text: String) -> String {
        let count = self.counts.entry(kind).or_default();
        let number = *self.known.entry((kind, text)).or_insert_with(|| {
            *count += 1;
            *count
        });
        format!("{kind}{number}")
    }
}

/// A value on one line: `{turn: 1, reason: {kind: "completed"}}`.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| format!("{name}: {}", shown(field)));
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => format!("{:?}", shortened(text)),
        other => other.to_string(),
    }
}

fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= TEXT_MAX {
        return text.to_owned();
    }
    let half = TEXT_MAX / 2;
    let start: String = text.chars().take(half).collect();
    let end: String = text.chars().skip(count - half).collect();
    format!("{start} …{} characters… {end}", count - 2 * half)
}
