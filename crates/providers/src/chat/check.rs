//! The strict checker: what a server may refuse is refused here, before it leaves.
//!
//! A refused history would be refused for ever, so the words name the place and the rule.

use std::collections::BTreeSet;
use std::fmt;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::vendor::{EffortStyle, Quirks, ReasoningEcho};

/// The most faults that are collected.
const FAULTS_MAX: usize = 20;
/// Some servers keep a call's id in so many bytes.
pub(super) const MAX_ID_BYTES: usize = 64;
const BODY_KEYS: [&str; 10] = [
    "model",
    "thinking",
    "reasoning_effort",
    "temperature",
    "max_tokens",
    "stop",
    "tools",
    "stream",
    "stream_options",
    "messages",
];

/// What differs between servers of this dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whether assistant messages with calls may hold `reasoning_content`.
    pub reasoning_content: bool,
    /// Whether `thinking` may be there.
    pub thinking: bool,
}

impl Rules {
    /// The rules of servers with these quirks.
    pub fn of(quirks: Quirks) -> Self {
        Self {
            reasoning_content: quirks.reasoning_echo == ReasoningEcho::WithCalls,
            thinking: quirks.effort_style == EffortStyle::Thinking,
        }
    }
}

/// One broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path in the body: `messages[3].tool_calls[0].id`.
    pub at: String,
    /// What is wrong there.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.problem)
    }
}

/// Checks a whole request body.
///
/// # Errors
/// Every fault, up to 20, in order.
pub fn check_body(body: &[u8], rules: Rules) -> Result<(), Vec<Fault>> {
    let mut faults = Faults::default();
    let body: Map<String, Value> = match serde_json::from_slice(body) {
        Ok(body) => body,
        Err(error) => {
            faults.add("", format!("the body is no JSON object: {error}"));
            return Err(faults.0);
        }
    };
    check_head(&body, rules, &mut faults);
    if let Some(tools) = body.get("tools") {
        check_tools(tools, &mut faults);
    }
    match body.get("messages").and_then(Value::as_array) {
        None => faults.add("messages", "must be an array"),
        Some(messages) => {
            let mut history = History::new(rules);
            for message in messages {
                history.message(message, &mut faults);
            }
            history.end(&mut faults);
        }
    }
    faults.result()
}

/// The faults found so far.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    fn add(&mut self, at: impl Into<String>, problem: impl Into<String>) {
        if self.0.len() < FAULTS_MAX {
            self.0.push(Fault { at: at.into(), problem: problem.into() });
        }
    }

    pub(super) fn result(self) -> Result<(), Vec<Fault>> {
        if self.0.is_empty() { Ok(()) } else { Err(self.0) }
    }
}

/// Everything but tools and messages.
pub(super) fn check_head(body: &Map<String, Value>, rules: Rules, faults: &mut Faults) {
    for (key, value) in body {
        if !BODY_KEYS.contains(&key.as_str()) {
            faults.add(key, "is no field of a request");
        } else if value.is_null() {
            faults.add(key, "must be left out instead of null");
        }
    }
    let text = |key: &str| body.get(key).map(|value| value.as_str().unwrap_or(""));
    if text("model").is_none_or(str::is_empty) {
        faults.add("model", "must be a text that is not empty");
    }
    if text("reasoning_effort").is_some_and(str::is_empty) {
        faults.add("reasoning_effort", "must be a text that is not empty");
    }
    if body.get("stream").and_then(Value::as_bool) != Some(true) {
        faults.add("stream", "must be true");
    }
    if let Some(thinking) = body.get("thinking") {
        let kind = thinking.get("type").and_then(Value::as_str);
        if !rules.thinking {
            faults.add("thinking", "is not known to this server");
        } else if !matches!(kind, Some("enabled" | "disabled")) {
            faults.add("thinking.type", "must be `enabled` or `disabled`");
        } else if kind == Some("disabled") && body.contains_key("reasoning_effort") {
            faults.add("reasoning_effort", "contradicts disabled thinking");
        }
    }
    let temperature = body.get("temperature").map(|value| value.as_f64().unwrap_or(-1.0));
    if temperature.is_some_and(|number| !(0.0..=2.0).contains(&number)) {
        faults.add("temperature", "must be a number from 0 to 2");
    }
    if body.get("max_tokens").is_some_and(|value| value.as_u64().unwrap_or(0) == 0) {
        faults.add("max_tokens", "must be a whole number above 0");
    }
    if let Some(stop) = body.get("stop") {
        let texts = stop.as_array().is_some_and(|list| {
            (1..=16).contains(&list.len())
                && list.iter().all(|text| text.as_str().is_some_and(|text| !text.is_empty()))
        });
        if !texts {
            faults.add("stop", "must be 1 to 16 texts that are not empty");
        }
    }
}

/// The `tools` array.
pub(super) fn check_tools(tools: &Value, faults: &mut Faults) {
    let Some(tools) = tools.as_array().filter(|tools| !tools.is_empty()) else {
        faults.add("tools", "must be an array with at least one tool, or be left out");
        return;
    };
    let mut names = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let at = |field: &str| format!("tools[{index}].{field}");
        if tool.get("type").and_then(Value::as_str) != Some("function") {
            faults.add(at("type"), "must be `function`");
        }
        let function = tool.get("function");
        let name = function.and_then(|f| f.get("name")).and_then(Value::as_str).unwrap_or("");
        if !is_tool_name(name) {
            let problem = format!("`{name}` is not 1 to 64 letters, digits, `_` or `-`");
            faults.add(at("function.name"), problem);
        } else if !names.insert(name) {
            faults.add(at("function.name"), format!("`{name}` is there twice"));
        }
        let parameters = function.and_then(|f| f.get("parameters"));
        if parameters.is_some_and(|schema| !is_object_schema(schema)) {
            let problem = format!("the schema of `{name}` must be an object of type `object`");
            faults.add(at("function.parameters"), problem);
        }
        if function.and_then(|f| f.get("description")).is_some_and(|text| !text.is_string()) {
            faults.add(at("function.description"), "must be a text");
        }
    }
}

fn is_object_schema(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

/// Whether a call's arguments are what servers parse them as; the test that tools apply, too.
pub(super) fn is_object(arguments: &str) -> bool {
    serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object())
}

/// Whether servers take it as a tool's name.
pub(super) fn is_tool_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[derive(Deserialize)]
struct WireCall {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    function: WireFunction,
}

#[derive(Deserialize)]
struct WireFunction {
    name: String,
    arguments: String,
}

/// The checker's rolling state over messages; it costs only the messages that are new.
#[derive(Clone, Debug)]
pub(super) struct History {
    rules: Rules,
    count: usize,
    /// Calls of the last assistant message without an answer yet.
    open: Vec<String>,
    has_user: bool,
    last_is_assistant: bool,
}

impl History {
    pub(super) fn new(rules: Rules) -> Self {
        Self { rules, count: 0, open: Vec::new(), has_user: false, last_is_assistant: false }
    }

    /// The next message.
    pub(super) fn message(&mut self, message: &Value, faults: &mut Faults) {
        let at = format!("messages[{}]", self.count);
        let role = message.get("role").and_then(Value::as_str).unwrap_or("");
        if role != "tool" && !self.open.is_empty() {
            let open = self.open.join("`, `");
            let problem = format!("the calls `{open}` before it have no answer");
            faults.add(&at, problem);
            self.open.clear();
        }
        match role {
            "system" if self.count > 0 => {
                faults.add(format!("{at}.role"), "a system message must be the first");
            }
            "system" => text_content(message, &at, faults),
            "user" => {
                self.has_user = true;
                text_content(message, &at, faults);
            }
            "assistant" => self.assistant(message, &at, faults),
            "tool" => self.tool(message, &at, faults),
            other => faults.add(format!("{at}.role"), format!("`{other}` is no role")),
        }
        self.last_is_assistant = role == "assistant";
        self.count += 1;
    }

    /// What must hold when no message follows; the state stays as it is.
    pub(super) fn end(&self, faults: &mut Faults) {
        if !self.open.is_empty() {
            let problem = format!("the calls `{}` have no answer", self.open.join("`, `"));
            faults.add("messages", problem);
        }
        if !self.has_user {
            faults.add("messages", "at least one user message is needed");
        }
        if self.last_is_assistant {
            faults.add("messages", "the last message must not be the model's own");
        }
    }

    fn assistant(&mut self, message: &Value, at: &str, faults: &mut Faults) {
        text_content(message, at, faults);
        let calls = match message.get("tool_calls").map(Vec::<WireCall>::deserialize) {
            None => Vec::new(),
            Some(Ok(calls)) if !calls.is_empty() => calls,
            Some(Ok(_)) => {
                faults.add(format!("{at}.tool_calls"), "must be left out instead of empty");
                return;
            }
            Some(Err(error)) => {
                faults.add(format!("{at}.tool_calls"), error.to_string());
                return;
            }
        };
        if calls.is_empty() && message.get("content").and_then(Value::as_str) == Some("") {
            faults.add(at, "an assistant message needs content or calls");
        }
        if let Some(reasoning) = message.get("reasoning_content") {
            if !self.rules.reasoning_content || calls.is_empty() {
                faults.add(format!("{at}.reasoning_content"), "is not taken here");
            } else if reasoning.as_str().is_none_or(str::is_empty) {
                faults.add(format!("{at}.reasoning_content"), "must be a text that is not empty");
            }
        }
        for (index, call) in calls.into_iter().enumerate() {
            let at = format!("{at}.tool_calls[{index}]");
            if call.kind != "function" {
                faults.add(format!("{at}.type"), "must be `function`");
            }
            if !is_tool_name(&call.function.name) {
                let problem = format!("`{}` is no tool name", call.function.name);
                faults.add(format!("{at}.function.name"), problem);
            }
            if !is_object(&call.function.arguments) {
                faults.add(format!("{at}.function.arguments"), "must be a JSON object");
            }
            if call.id.len() > MAX_ID_BYTES {
                let problem = format!("is longer than {MAX_ID_BYTES} bytes");
                faults.add(format!("{at}.id"), problem);
            }
            if call.id.is_empty() {
                faults.add(format!("{at}.id"), "must not be empty");
            } else if self.open.contains(&call.id) {
                faults.add(format!("{at}.id"), format!("`{}` is there twice", call.id));
            } else {
                self.open.push(call.id);
            }
        }
    }

    fn tool(&mut self, message: &Value, at: &str, faults: &mut Faults) {
        text_content(message, at, faults);
        let id = message.get("tool_call_id").and_then(Value::as_str).unwrap_or("");
        match self.open.iter().position(|open| open == id) {
            Some(index) => drop(self.open.remove(index)),
            None => {
                let problem = format!("`{id}` is no open call of the message before the results");
                faults.add(format!("{at}.tool_call_id"), problem);
            }
        }
    }
}

fn text_content(message: &Value, at: &str, faults: &mut Faults) {
    if message.get("content").is_none_or(|content| !content.is_string()) {
        faults.add(format!("{at}.content"), "must be a text");
    }
}
