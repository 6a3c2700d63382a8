//! The script as it is written, and as it is read.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use reins_kernel::nearest;
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ScriptError;
use super::placeholder;

/// Longest script, in bytes.
pub const MAX_SCRIPT_BYTES: usize = 16 * 1024 * 1024;

/// How long a single wait may be, in milliseconds.
const DELAY_MS_MAX: u64 = 3_600_000;

const ANSWER_KEYS: [&str; 10] = [
    "reasoning",
    "text",
    "call",
    "usage",
    "finish",
    "delay_ms",
    "chunk_bytes",
    "chunk_delay_ms",
    "when",
    "repeat",
];
const CALL_KEYS: [&str; 3] = ["name", "arguments", "id"];
const USAGE_KEYS: [&str; 3] = ["input", "output", "cached"];
const FINISHES: [&str; 4] = ["stop", "tool_calls", "length", "content_filter"];

/// A file of answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// For messages: the file's path, as a rule.
    pub name: String,
    /// In the order of the file.
    pub answers: Vec<Answer>,
}

/// One answer of the scripted model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Comes first.
    pub reasoning: String,
    /// Comes after the reasoning.
    pub text: String,
    /// Come last.
    pub calls: Vec<Call>,
    /// What the server says it cost; absent = it says nothing.
    pub usage: Option<CallUsage>,
    /// The finish reason; absent = `tool_calls` when there are calls, else `stop`.
    pub finish: Option<String>,
    /// Wait before the head of the response.
    pub delay: Duration,
    /// Texts are cut into pieces of at most so many bytes; absent = one piece each.
    pub chunk_bytes: Option<usize>,
    /// Wait between two pieces.
    pub chunk_delay: Duration,
    /// Only for requests whose last message contains this; such an answer is out of order.
    pub when: Option<String>,
    /// How often it is played.
    pub repeat: Repeat,
    /// Keys that the caller of [`Script::parse_with`] asked for.
    pub extra: BTreeMap<String, toml::Value>,
    /// Where it stands; 0 = not in a text.
    pub line: usize,
}

/// A tool call of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Arguments,
    /// Absent = `call_N_I` with the request's and the call's number.
    pub id: Option<String>,
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Arguments {
    /// A table: placeholders stand inside its texts.
    Json(serde_json::Value),
    /// The text itself, which need not be JSON; what replaces a placeholder is escaped for a JSON
    /// text.
    Raw(String),
}

/// What an answer is said to cost, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct CallUsage {
    /// The whole input, with what was cached.
    #[serde(default)]
    pub input: u64,
    /// The output.
    #[serde(default)]
    pub output: u64,
    /// How much of the input was cached.
    #[serde(default)]
    pub cached: u64,
}

/// How often an answer is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// So many times.
    Times(u64),
    /// Without end.
    Forever,
}

impl Default for Repeat {
    fn default() -> Self {
        Self::Times(1)
    }
}

impl Script {
    /// Reads a script; `name` is for messages.
    ///
    /// # Errors
    /// [`ScriptError::Format`] with the line, and the nearest known name for a misspelt one.
    pub fn parse(text: &str, name: &str) -> Result<Self, ScriptError> {
        Self::parse_with(text, name, &[])
    }

    /// The same, with keys of an answer that the caller reads itself from [`Answer::extra`].
    ///
    /// # Errors
    /// As [`Script::parse`].
    pub fn parse_with(text: &str, name: &str, extra: &[&str]) -> Result<Self, ScriptError> {
        let reader = Reader { text, name, extra };
        if text.len() > MAX_SCRIPT_BYTES {
            let problem = format!("the script is longer than {MAX_SCRIPT_BYTES} bytes");
            return Err(reader.error(1, problem));
        }
        let document = DeTable::parse(text).map_err(|error| reader.toml_error(&error))?;
        let mut answers = Vec::new();
        for (key, value) in document.into_inner() {
            reader.known(&key, "a script", &["answer"])?;
            for answer in reader.tables(value, "answer")? {
                answers.push(reader.answer(answer)?);
            }
        }
        if answers.is_empty() {
            return Err(reader.error(1, "the script has no `[[answer]]`".to_owned()));
        }
        Ok(Self { name: name.to_owned(), answers })
    }
}

/// A table and where it starts.
type Table<'i> = (Range<usize>, DeTable<'i>);

/// An answer's plain keys.
#[derive(Deserialize)]
struct Plain {
    #[serde(default)]
    reasoning: String,
    #[serde(default)]
    text: String,
    finish: Option<String>,
    #[serde(default)]
    delay_ms: u64,
    chunk_bytes: Option<usize>,
    #[serde(default)]
    chunk_delay_ms: u64,
    when: Option<String>,
    repeat: Option<RepeatKey>,
    usage: Option<CallUsage>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "expected a number or \"forever\"")]
enum RepeatKey {
    Times(u64),
    Word(String),
}

struct Reader<'t> {
    text: &'t str,
    name: &'t str,
    extra: &'t [&'t str],
}

impl Reader<'_> {
    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }

    fn error(&self, line: usize, problem: String) -> ScriptError {
        ScriptError::Format { name: self.name.to_owned(), line, problem }
    }

    fn toml_error(&self, error: &toml::de::Error) -> ScriptError {
        let line = error.span().map_or(1, |span| self.line(span.start));
        self.error(line, error.message().trim_end().to_owned())
    }

    fn known(
        &self,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        owner: &str,
        known: &[&str],
    ) -> Result<(), ScriptError> {
        let name = key.get_ref().as_ref();
        if known.contains(&name) {
            return Ok(());
        }
        let hint = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("its keys are {}", known.join(", ")),
        };
        let problem = format!("`{name}` is no key of {owner}; {hint}");
        Err(self.error(self.line(key.span().start), problem))
    }

    fn tables<'i>(
        &self,
        value: Spanned<DeValue<'i>>,
        key: &str,
    ) -> Result<Vec<Table<'i>>, ScriptError> {
        let line = self.line(value.span().start);
        let wrong = || self.error(line, format!("`{key}` is written as `[[{key}]]` tables"));
        let DeValue::Array(items) = value.into_inner() else { return Err(wrong()) };
        let tables = items.into_iter().map(|item| {
            let span = item.span();
            match item.into_inner() {
                DeValue::Table(table) => Ok((span, table)),
                _ => Err(wrong()),
            }
        });
        tables.collect()
    }

    fn answer(&self, (span, mut table): Table<'_>) -> Result<Answer, ScriptError> {
        let line = self.line(span.start);
        let known: Vec<&str> = ANSWER_KEYS.iter().chain(self.extra).copied().collect();
        for key in table.keys() {
            self.known(key, "an answer", &known)?;
        }
        if let Some(DeValue::Table(usage)) = table.get("usage").map(Spanned::get_ref) {
            for key in usage.keys() {
                self.known(key, "`usage`", &USAGE_KEYS)?;
            }
        }
        let mut extra = BTreeMap::new();
        for key in self.extra {
            if let Some(value) = table.remove(*key) {
                let value = toml::Value::deserialize(value.into_deserializer())
                    .map_err(|error| self.toml_error(&error))?;
                extra.insert((*key).to_owned(), value);
            }
        }
        let mut calls = Vec::new();
        if let Some(value) = table.remove("call") {
            for call in self.tables(value, "answer.call")? {
                calls.push(self.call(call)?);
            }
        }
        let plain = Plain::deserialize(Spanned::new(span, table).into_deserializer())
            .map_err(|error| self.toml_error(&error))?;
        let answer = self.checked(plain, calls, extra, line)?;
        if answer.calls.is_empty() && answer.text.is_empty() && answer.extra.is_empty() {
            let problem = "an answer needs `text` or an `[[answer.call]]`".to_owned();
            return Err(self.error(line, problem));
        }
        Ok(answer)
    }

    fn checked(
        &self,
        plain: Plain,
        calls: Vec<Call>,
        extra: BTreeMap<String, toml::Value>,
        line: usize,
    ) -> Result<Answer, ScriptError> {
        let wrong = |problem: String| Err(self.error(line, problem));
        let repeat = match plain.repeat {
            None => Repeat::default(),
            Some(RepeatKey::Times(0)) => return wrong("`repeat` must be at least 1".to_owned()),
            Some(RepeatKey::Times(times)) => Repeat::Times(times),
            Some(RepeatKey::Word(word)) if word == "forever" => Repeat::Forever,
            Some(RepeatKey::Word(word)) => {
                return wrong(format!("`repeat = \"{word}\"`: a number or \"forever\" is meant"));
            }
        };
        if let Some(finish) = plain.finish.as_deref().filter(|word| !FINISHES.contains(word))
            && let Some(near) = nearest(finish, FINISHES)
        {
            return wrong(format!("`finish = \"{finish}\"`: did you mean \"{near}\"?"));
        }
        if plain.chunk_bytes == Some(0) {
            return wrong("`chunk_bytes` must be at least 1".to_owned());
        }
        if plain.delay_ms.max(plain.chunk_delay_ms) > DELAY_MS_MAX {
            return wrong(format!("a wait must be at most {DELAY_MS_MAX} ms"));
        }
        if plain.when.as_deref() == Some("") {
            return wrong("`when` must not be empty".to_owned());
        }
        for text in [&plain.reasoning, &plain.text] {
            placeholder::check(text).map_err(|problem| self.error(line, problem))?;
        }
        Ok(Answer {
            reasoning: plain.reasoning,
            text: plain.text,
            calls,
            usage: plain.usage,
            finish: plain.finish,
            delay: Duration::from_millis(plain.delay_ms),
            chunk_bytes: plain.chunk_bytes,
            chunk_delay: Duration::from_millis(plain.chunk_delay_ms),
            when: plain.when,
            repeat,
            extra,
            line,
        })
    }

    fn call(&self, (span, table): Table<'_>) -> Result<Call, ScriptError> {
        #[derive(Deserialize)]
        struct Plain {
            name: String,
            arguments: toml::Value,
            id: Option<String>,
        }
        for key in table.keys() {
            self.known(key, "a call", &CALL_KEYS)?;
        }
        let line = self.line(span.start);
        let plain = Plain::deserialize(Spanned::new(span, table).into_deserializer())
            .map_err(|error| self.toml_error(&error))?;
        let arguments = match plain.arguments {
            toml::Value::String(text) => {
                placeholder::check(&text).map_err(|problem| self.error(line, problem))?;
                Arguments::Raw(text)
            }
            table @ toml::Value::Table(_) => {
                Arguments::Json(self.json(table).map_err(|problem| self.error(line, problem))?)
            }
            other => {
                let kind = other.type_str();
                let problem = format!("`arguments` is a table or a text, not of type {kind}");
                return Err(self.error(line, problem));
            }
        };
        Ok(Call { name: plain.name, arguments, id: plain.id })
    }

    fn json(&self, value: toml::Value) -> Result<serde_json::Value, String> {
        Ok(match value {
            toml::Value::String(text) => {
                placeholder::check(&text)?;
                text.into()
            }
            toml::Value::Integer(number) => number.into(),
            toml::Value::Float(number) => number.into(),
            toml::Value::Boolean(flag) => flag.into(),
            toml::Value::Datetime(time) => time.to_string().into(),
            toml::Value::Array(items) => serde_json::Value::Array(
                items.into_iter().map(|item| self.json(item)).collect::<Result<_, _>>()?,
            ),
            toml::Value::Table(table) => serde_json::Value::Object(
                table
                    .into_iter()
                    .map(|(key, value)| Ok((key, self.json(value)?)))
                    .collect::<Result<_, String>>()?,
            ),
        })
    }
}
