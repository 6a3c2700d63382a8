//! From header and surface to the body of a request, at the cost of what is new.
//!
//! The body is `{"model":…, <config>, "tools":[…], "stream":true, "stream_options":{…},
//! "messages":[…]}`: messages stand last, so the next body is this one with more appended.
//!
//! Items, for the hash chain: the system message (if any), the tools array (if any), then every
//! message. An item is its exact JSON bytes without the comma between items.
//! `h(1) = SHA-256(item 1)`, `h(n) = SHA-256(h(n-1) || item n)` with the 32 raw bytes of
//! `h(n-1)`.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use reins_agent::{Rendered, Renderer};
use reins_schema::{
    Block, CallConfig, Failure, FailureCode, Message, RequestHeader, RequestSent, Role, Source,
    ToolCallBlock, ToolSchema,
};
use reins_session::{RenderedFacts, Surface};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::check::{self, Fault, Faults, History, Rules};
use crate::vendor::{EffortStyle, Quirks, ReasoningEcho};

/// The dialect's name in `request/sent`.
pub const DIALECT: &str = "chat";

/// Grows whenever the same log would render to other bytes.
pub const RENDERER_VERSION: u32 = 1;

/// What a tool that said nothing is rendered as: servers refuse empty results.
const NO_OUTPUT: &str = "(no output)";
/// What stands for a tool name with no character that servers take.
const NO_NAME: &str = "unnamed";

type Hash = [u8; 32];

/// Renders the requests of one agent; fastest when one renderer sees one growing surface.
pub struct ChatRenderer {
    provider: String,
    aliases: Vec<String>,
    quirks: Quirks,
    rolled: Option<Rolled>,
}

impl ChatRenderer {
    /// A renderer of the provider with this id and these other ids.
    pub fn new(provider: &str, aliases: &[String], quirks: Quirks) -> Self {
        Self { provider: provider.to_owned(), aliases: aliases.to_vec(), quirks, rolled: None }
    }

    /// The nodes are pairs of event number and message.
    pub(super) fn render_nodes<'a>(
        &mut self,
        header: &RequestHeader,
        nodes: impl Iterator<Item = (u64, &'a Arc<Message>)> + Clone,
        previous: Option<&RequestSent>,
    ) -> Result<Rendered, Failure> {
        // Taken, so that a refused request leaves nothing half rolled behind.
        let (mut rolled, before) = match self.rolled.take() {
            Some(old) if old.has_header(header) && old.is_prefix_of(nodes.clone()) => (old, None),
            Some(old) => {
                let cause = if old.has_header(header) { "surface" } else { "header" };
                (self.start(header)?, Some((old.chain, cause)))
            }
            None => (self.start(header)?, None),
        };
        let mut faults = Faults::default();
        for (seq, message) in nodes.skip(rolled.nodes.len()) {
            self.node(message, &mut rolled, &mut faults)?;
            rolled.nodes.push((seq, Arc::clone(message)));
        }
        rolled.history.end(&mut faults);
        let head = head(&header.config, self.quirks)?;
        check::check_head(&parsed_head(&head)?, Rules::of(self.quirks), &mut faults);
        faults.result().map_err(|faults| refuse(&faults))?;

        let body = rolled.body(head);
        let (shared, cause) = share(previous, &rolled.chain, before.as_ref());
        let facts = RenderedFacts {
            dialect: DIALECT.to_owned(),
            renderer: RENDERER_VERSION,
            items: rolled.chain.len() as u64,
            bytes: body.len() as u64,
            hash: rolled.chain.last().map(hex).unwrap_or_default(),
            shared,
            cause,
        };
        self.rolled = Some(rolled);
        Ok(Rendered { body, facts })
    }

    fn start(&self, header: &RequestHeader) -> Result<Rolled, Failure> {
        let mut rolled = Rolled {
            system: header.system.clone(),
            tools: header.tools.clone(),
            tools_json: Vec::new(),
            nodes: Vec::new(),
            messages: Vec::new(),
            chain: Vec::new(),
            history: History::new(Rules::of(self.quirks)),
        };
        let mut faults = Faults::default();
        if !header.system.is_empty() {
            rolled.add(&WireMessage::of("system", &header.system), &mut faults)?;
        }
        if !header.tools.is_empty() {
            let tools: Vec<WireTool<'_>> = header.tools.iter().map(WireTool::of).collect();
            rolled.tools_json = json(&tools)?;
            let value = serde_json::from_slice::<Value>(&rolled.tools_json).map_err(no_json)?;
            check::check_tools(&value, &mut faults);
            rolled.chain.push(link(rolled.chain.last(), &rolled.tools_json));
        }
        faults.result().map_err(|faults| refuse(&faults))?;
        Ok(rolled)
    }

    fn node(
        &self,
        message: &Message,
        rolled: &mut Rolled,
        faults: &mut Faults,
    ) -> Result<(), Failure> {
        match message.role {
            Role::Assistant => self.assistant(message, rolled, faults),
            // Strict servers take a system message in the first place only, which is the header's.
            Role::User | Role::System => user(message, rolled, faults),
        }
    }

    fn assistant(
        &self,
        message: &Message,
        rolled: &mut Rolled,
        faults: &mut Faults,
    ) -> Result<(), Failure> {
        let content = text_of(&message.content)?;
        let calls: Vec<WireCall<'_>> = message.calls().map(wire_call).collect();
        if content.is_empty() && calls.is_empty() {
            // Reasoning alone: servers refuse an assistant message without content and calls.
            return Ok(());
        }
        let reasoning = self.echo(message, !calls.is_empty());
        let wire = WireMessage {
            reasoning_content: reasoning.as_deref(),
            tool_calls: calls,
            ..WireMessage::of("assistant", &content)
        };
        rolled.add(&wire, faults)
    }

    /// The reasoning that goes back: only the provider's own, only where it asks for it.
    fn echo(&self, message: &Message, has_calls: bool) -> Option<String> {
        let Source::Model { provider, .. } = &message.source else { return None };
        let own = *provider == self.provider || self.aliases.contains(provider);
        if !own || !has_calls || self.quirks.reasoning_echo == ReasoningEcho::Never {
            return None;
        }
        let texts = message.content.iter().filter_map(|block| match block {
            Block::Reasoning(text) => Some(text.as_str()),
            _ => None,
        });
        Some(texts.collect::<String>()).filter(|text| !text.is_empty())
    }
}

impl Renderer for ChatRenderer {
    fn render(
        &mut self,
        header: &RequestHeader,
        surface: &Surface,
        previous: Option<&RequestSent>,
    ) -> Result<Rendered, Failure> {
        let nodes = surface.nodes().iter().map(|node| (node.seq, &node.message));
        self.render_nodes(header, nodes, previous)
    }
}

/// Tool results stand directly after their calls, so they come before the message's own text.
fn user(message: &Message, rolled: &mut Rolled, faults: &mut Faults) -> Result<(), Failure> {
    let mut has_results = false;
    for block in &message.content {
        let Block::ToolResult(result) = block else { continue };
        has_results = true;
        let mut text = text_of(&result.content)?;
        if text.is_empty() {
            NO_OUTPUT.clone_into(&mut text);
        }
        let id = wire_id(result.tool_call_id.as_str());
        let wire = WireMessage { tool_call_id: Some(&id), ..WireMessage::of("tool", &text) };
        rolled.add(&wire, faults)?;
    }
    let text = text_of(&message.content)?;
    if has_results && text.is_empty() {
        return Ok(());
    }
    rolled.add(&WireMessage::of("user", &text), faults)
}

/// All text, joined without separator. Kinds that this version does not know are left out.
fn text_of(content: &[Block]) -> Result<String, Failure> {
    let mut joined = String::new();
    for block in content {
        match block {
            Block::Text(text) => joined.push_str(text),
            Block::Image(image) => {
                let message = format!(
                    "the conversation holds a picture ({}), which this model cannot see; \
                     choose a model that can, or compact the conversation",
                    image.media_type
                );
                return Err(Failure::new(FailureCode::UnsupportedContent, message));
            }
            _ => {}
        }
    }
    Ok(joined)
}

/// A name that servers take: models invent names with dots or spaces, and history keeps them.
fn wire_name(name: &str) -> String {
    if check::is_tool_name(name) {
        return name.to_owned();
    }
    let taken = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().take(64).map(taken).collect();
    if name.is_empty() { NO_NAME.to_owned() } else { name }
}

/// An id that servers take; a longer one becomes its hash, in the call and in its result.
fn wire_id(id: &str) -> Cow<'_, str> {
    if id.len() <= check::MAX_ID_BYTES {
        return id.into();
    }
    let hash = hex(&Sha256::digest(id).into());
    format!("c_{}", &hash[..32]).into()
}

/// A call as servers take it: many parse the arguments, and refuse a history for ever in which
/// they are no JSON object.
fn wire_call(call: &ToolCallBlock) -> WireCall<'_> {
    let arguments = if call.arguments.trim().is_empty() {
        "{}".into()
    } else if check::is_object(&call.arguments) {
        call.arguments.as_str().into()
    } else {
        serde_json::json!({ "invalid_arguments": call.arguments }).to_string().into()
    };
    let function = WireFunction { name: wire_name(&call.name), arguments };
    WireCall { id: wire_id(call.id.as_str()), kind: "function", function }
}

/// What is kept between requests.
struct Rolled {
    system: String,
    tools: Vec<ToolSchema>,
    tools_json: Vec<u8>,
    /// The nodes that `messages` holds.
    nodes: Vec<(u64, Arc<Message>)>,
    /// All messages, with commas between them.
    messages: Vec<u8>,
    /// The hash chain after each item.
    chain: Vec<Hash>,
    history: History,
}

impl Rolled {
    fn has_header(&self, header: &RequestHeader) -> bool {
        self.system == header.system && self.tools == header.tools
    }

    /// Compares identities, not contents: a message never changes.
    fn is_prefix_of<'a>(&self, mut nodes: impl Iterator<Item = (u64, &'a Arc<Message>)>) -> bool {
        self.nodes.iter().all(|(seq, message)| {
            nodes.next().is_some_and(|(other, node)| *seq == other && Arc::ptr_eq(message, node))
        })
    }

    fn add(&mut self, message: &WireMessage<'_>, faults: &mut Faults) -> Result<(), Failure> {
        if !self.messages.is_empty() {
            self.messages.push(b',');
        }
        let start = self.messages.len();
        serde_json::to_writer(&mut self.messages, message).map_err(no_json)?;
        let item = &self.messages[start..];
        let value: Value = serde_json::from_slice(item).map_err(no_json)?;
        self.history.message(&value, faults);
        self.chain.push(link(self.chain.last(), item));
        Ok(())
    }

    fn body(&self, head: Vec<u8>) -> Bytes {
        const TAIL: &[u8] =
            br#","stream":true,"stream_options":{"include_usage":true},"messages":["#;
        let mut body = head;
        body.reserve_exact(self.tools_json.len() + self.messages.len() + TAIL.len() + 16);
        if !self.tools_json.is_empty() {
            body.extend_from_slice(br#","tools":"#);
            body.extend_from_slice(&self.tools_json);
        }
        body.extend_from_slice(TAIL);
        body.extend_from_slice(&self.messages);
        body.extend_from_slice(b"]}");
        body.into()
    }
}

/// The start of the body: the configuration, still open for what follows.
fn head(config: &CallConfig, quirks: Quirks) -> Result<Vec<u8>, Failure> {
    let effort = config.reasoning_effort.as_deref();
    let (thinking, reasoning_effort) = match (quirks.effort_style, effort) {
        (EffortStyle::Plain, effort) => (None, effort),
        (EffortStyle::Thinking, None) => (None, None),
        (EffortStyle::Thinking, Some("off")) => (Some(Thinking { kind: "disabled" }), None),
        (EffortStyle::Thinking, Some(effort)) => (Some(Thinking { kind: "enabled" }), Some(effort)),
    };
    let mut head = json(&WireHead {
        model: &config.model,
        thinking,
        reasoning_effort,
        temperature: config.temperature,
        max_tokens: config.max_tokens,
        stop: &config.stop,
    })?;
    head.pop();
    Ok(head)
}

/// The head as the checker reads it.
fn parsed_head(head: &[u8]) -> Result<serde_json::Map<String, Value>, Failure> {
    let closed = [head, br#","stream":true}"#].concat();
    serde_json::from_slice(&closed).map_err(no_json)
}

/// How many items of the previous request are the first items of this one, and why not all.
fn share(
    previous: Option<&RequestSent>,
    chain: &[Hash],
    before: Option<&(Vec<Hash>, &'static str)>,
) -> (u64, Option<String>) {
    let Some(previous) = previous else { return (0, None) };
    let last = usize::try_from(previous.items).ok().and_then(|items| items.checked_sub(1));
    let holds = |chain: &[Hash]| {
        last.and_then(|last| chain.get(last)).is_some_and(|hash| hex(hash) == previous.hash)
    };
    if previous.items == 0 || holds(chain) {
        return (previous.items, None);
    }
    // The chain of the previous request is known only if this renderer made it.
    let (common, known_cause) = match before.filter(|(old, _)| holds(old)) {
        Some((old, cause)) => {
            let common = old.iter().zip(chain).take_while(|(a, b)| a == b).count() as u64;
            (common.min(previous.items), *cause)
        }
        None => (0, "surface"),
    };
    let cause = if previous.dialect != DIALECT {
        "dialect"
    } else if previous.renderer != RENDERER_VERSION {
        "renderer"
    } else {
        known_cause
    };
    (common, Some(cause.to_owned()))
}

fn link(last: Option<&Hash>, item: &[u8]) -> Hash {
    let mut hasher = Sha256::new();
    if let Some(last) = last {
        hasher.update(last);
    }
    hasher.update(item);
    hasher.finalize().into()
}

fn hex(hash: &Hash) -> String {
    use std::fmt::Write as _;
    hash.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _infallible = write!(text, "{byte:02x}");
        text
    })
}

fn refuse(faults: &[Fault]) -> Failure {
    let shown: Vec<String> = faults.iter().take(3).map(ToString::to_string).collect();
    let more = faults.len().saturating_sub(shown.len());
    let mut message =
        format!("the request was not sent, the provider would refuse it: {}", shown.join("; "));
    if more > 0 {
        message.push_str(&format!("; and {more} more"));
    }
    Failure::new(FailureCode::InvalidRequest, message)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of map_err")]
fn no_json(error: serde_json::Error) -> Failure {
    let message = format!("the request was not sent, a part of it is no JSON: {error}");
    Failure::new(FailureCode::InvalidRequest, message)
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(value).map_err(no_json)
}

/// A message on the wire; its fields stand in this order.
#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
}

impl<'a> WireMessage<'a> {
    fn of(role: &'static str, content: &'a str) -> Self {
        let tool_calls = Vec::new();
        Self { role, tool_call_id: None, content, reasoning_content: None, tool_calls }
    }
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: Cow<'a, str>,
    #[serde(rename = "type")]
    kind: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: String,
    arguments: Cow<'a, str>,
}

#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: &'a ToolSchema,
}

impl<'a> WireTool<'a> {
    fn of(tool: &'a ToolSchema) -> Self {
        Self { kind: "function", function: tool }
    }
}

/// The configuration on the wire; its fields stand in this order.
#[derive(Serialize)]
struct WireHead<'a> {
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Thinking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    stop: &'a [String],
}

#[derive(Serialize)]
struct Thinking {
    #[serde(rename = "type")]
    kind: &'static str,
}
