//! The payloads that the pure core folds. Every other event belongs to the feature that writes it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{
    CallId, Draft, Failure, Message, MessageId, Purpose, RequestHeader, SourceRange, SurfaceOp,
};

/// `turn/start`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStart {
    /// 1-based, consecutive over the whole log.
    pub turn: u64,
}

/// `turn/end`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// The open turn.
    pub turn: u64,
    /// How it ended.
    pub reason: TurnEndReason,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TurnEndReason {
    /// Nothing is owed any more.
    Completed,
    /// A pre-step layer rejected the input.
    Blocked {
        /// What the layer said.
        #[serde(default)]
        reason: String,
    },
    /// The answer was cut at the output limit and the one continuation was used.
    MaxTokens,
    /// Cancelled.
    Aborted {
        /// By whom; the first cause wins.
        cause: CancelCause,
    },
    /// The model call failed for good, or the harness could not go on.
    Error {
        /// What failed.
        failure: Failure,
    },
    /// Written by repair: the process ended in the middle.
    Interrupted,
    /// A configured limit was reached and nobody extended it.
    Limit {
        /// `steps`, `tool-calls`, `time`, …
        name: String,
    },
}

impl TurnEndReason {
    /// The word that stands in `kind`.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Blocked { .. } => "blocked",
            Self::MaxTokens => "max-tokens",
            Self::Aborted { .. } => "aborted",
            Self::Error { .. } => "error",
            Self::Interrupted => "interrupted",
            Self::Limit { .. } => "limit",
        }
    }
}

/// Who cancelled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CancelCause {
    /// A person.
    User,
    /// The session that delegated to this one.
    Parent,
    /// A hook or another plugin.
    Hook {
        /// Its words.
        reason: String,
    },
    /// The agent is being taken down.
    Disposed,
}

/// `step/start`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepStart {
    /// The open turn.
    pub turn: u64,
    /// 1-based in its turn.
    pub step: u64,
}

/// `step/end`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEnd {
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
}

/// `user/message` (surface)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserMessage {
    /// What the model reads.
    pub message: Message,
    /// The inbox entries that this message takes out durably; usually its own id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inbox: Vec<MessageId>,
}

/// What one part of an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    /// Text for the person.
    Text,
    /// Reasoning.
    Reasoning,
    /// A tool call; the texts are pieces of its arguments.
    Call,
    /// Something the dialect does not know; the texts are raw payloads.
    Unknown,
}

/// Consecutive deltas of one part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkRun {
    /// The part's number, in order of first appearance in this attempt.
    pub index: u32,
    /// What the part is.
    pub kind: PartKind,
    /// The call's id, when these deltas brought one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The call's name, when these deltas brought one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Milliseconds of each delta since the record's first delta.
    pub dt: Vec<u32>,
    /// The deltas, as many as `dt`.
    pub text: Vec<String>,
}

/// `assistant/chunk`: deltas packed by the driver (50 ms or 4 KiB).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantChunk {
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// 1-based in its step.
    pub attempt: u32,
    /// The deltas in order of arrival.
    pub runs: Vec<ChunkRun>,
}

/// Tokens of one attempt. The counts are disjoint, except that reasoning is part of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Input tokens that were not served from a cache.
    pub input_tokens: u64,
    /// Output tokens, reasoning included.
    pub output_tokens: u64,
    /// Input tokens read from the provider's cache.
    #[serde(default)]
    pub cache_read_tokens: u64,
    /// Input tokens written to the provider's cache.
    #[serde(default)]
    pub cache_write_tokens: u64,
    /// Part of `output_tokens`.
    #[serde(default)]
    pub reasoning_tokens: u64,
}

impl Usage {
    /// The sums of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_add(other.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_add(other.cache_write_tokens),
            reasoning_tokens: self.reasoning_tokens.saturating_add(other.reasoning_tokens),
        }
    }

    /// All input tokens, cached or not.
    pub fn total_input(&self) -> u64 {
        self.input_tokens
            .saturating_add(self.cache_read_tokens)
            .saturating_add(self.cache_write_tokens)
    }
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It waits for tools.
    ToolCalls,
    /// It was cut at the output limit.
    MaxTokens,
    /// We cancelled; what had arrived was kept.
    Aborted,
}

/// `assistant/attempt`: a request whose answer has nothing left.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssistantAttempt {
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// 1-based in its step.
    pub attempt: u32,
    /// Why nothing is left.
    pub failure: Failure,
    /// What it cost, when the provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// `assistant/message` (surface), never empty. Sources are the chunks of the attempt that counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// Which attempt it came from.
    pub attempt: u32,
    /// The answer.
    pub message: Message,
    /// Why it stopped.
    pub finish: FinishReason,
    /// What it cost, when the provider said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// `tool/call`: the model asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// The call.
    pub call_id: CallId,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// The raw argument text.
    pub arguments: String,
}

/// `tool/start`: the body begins. From here on a crash leaves the outcome unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolStart {
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// The call.
    pub call_id: CallId,
}

/// What kind of tool failure, beside the text that the model reads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolError {
    /// For example `INVALID_ARGS`, `UNKNOWN_TOOL`, `TOOL_TIMEOUT`, `FS_NOT_FOUND`.
    pub code: String,
}

/// `tool/result` (surface), committed in the model's order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToolResult {
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// A user message with exactly one `tool-result` block.
    pub message: Message,
    /// Set when the call failed with a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolError>,
    /// Facts for people and programs (exit code, diff, …); the model never sees them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

/// Which of the inbox's two queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InboxTarget {
    /// One message a turn.
    NextTurn,
    /// All of it joins the next step.
    NextStep,
}

/// Why input left the inbox without becoming a `user/message`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpliceOutcome {
    /// A pre-step layer rejected it.
    Rejected,
    /// A pre-step layer left it out.
    Dropped,
    /// Cancelled or edited away by its owner.
    Canceled,
}

/// `agent/inbox/spliced`: input was put into or taken out of the inbox. A claim writes nothing:
/// what removes input is the `user/message` that names it, or a splice with an outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboxSpliced {
    /// The queue.
    pub target: InboxTarget,
    /// Where `inserted` goes; absent = at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// New input, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inserted: Vec<Message>,
    /// Input that leaves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<MessageId>,
    /// Why it leaves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<SpliceOutcome>,
}

/// `request/context`: the route and its window, when changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestContext {
    /// The provider's id.
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// In tokens; absent = unknown, which clears an earlier figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
}

/// `request/sent`: what leaves, and how much of it the provider has seen before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestSent {
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// 1-based in its step.
    pub attempt: u32,
    /// What the request is for.
    pub purpose: Purpose,
    /// The dialect that rendered it.
    pub dialect: String,
    /// The renderer's version: the same log and version give the same bytes.
    pub renderer: u32,
    /// How many items: header, tools, messages.
    pub items: u64,
    /// Bytes of the body.
    pub bytes: u64,
    /// The hash chain after the last item, lower-case hex: `h(n) = SHA-256(h(n-1) || item(n))`.
    pub hash: String,
    /// How many items are the first items of the previous request of this purpose.
    pub shared: u64,
    /// Why fewer than all of the previous request's items are shared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// `llm/retry`: a failed attempt will be repeated after a wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmRetry {
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// The attempt that failed.
    pub attempt: u32,
    /// The provider.
    pub provider: String,
    /// 1-based count of retries in this step.
    pub retry: u32,
    /// The policy's limit; absent = unbounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// The wait.
    pub delay_ms: u64,
    /// What failed.
    pub failure: Failure,
}

/// `llm/retry-started`: the wait is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LlmRetryStarted {
    /// The open turn.
    pub turn: u64,
    /// The open step.
    pub step: u64,
    /// As in the `llm/retry` before.
    pub retry: u32,
}

/// `session/end-seed`: end of what a fork inherits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndSeed {}

/// `limit/reached`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitReached {
    /// The open turn.
    pub turn: u64,
    /// `steps`, `tool-calls`, `time`, …
    pub name: String,
    /// The configured value, in the limit's own unit (count or milliseconds).
    pub value: u64,
}

/// `session/recovered`: the store found damage when it opened the log and says what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRecovered {
    /// What was damaged, in words.
    pub damage: String,
    /// Bytes that were taken out of the log.
    pub cut_bytes: u64,
    /// What keeps the original bytes, beside the log; empty when nothing was taken out.
    pub kept_in: String,
    /// Numbers of events that are lost: a hole in the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<SourceRange>,
    /// Numbers of events that are in the log and mean nothing, because what they refer to is lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aside: Vec<SourceRange>,
    /// Numbers of the events of another branch, which `kept_in` holds as a log of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<SourceRange>,
}

/// `session/moved`: the session belongs to another directory from here on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionMoved {
    /// The directory before.
    pub from: PathBuf,
    /// The directory from here on.
    pub to: PathBuf,
}

/// `session/repaired`: an open turn of an ended process was closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRepaired {
    /// The turn that was open.
    pub turn: u64,
    /// Calls whose outcome is unknown.
    pub outcome_unknown: Vec<CallId>,
    /// Calls that never started.
    pub not_started: Vec<CallId>,
}

/// Why a payload cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{kind}`: {problem}")]
pub struct PayloadError {
    /// The event's type.
    pub kind: String,
    /// What is wrong with its data.
    pub problem: String,
}

macro_rules! payloads {
    ($($variant:ident($type:ty) = $kind:literal,)*) => {
        /// The payload of an event that the pure core folds, or the mark that it is another's.
        #[derive(Clone, Debug)]
        #[allow(missing_docs, reason = "each variant is its payload type, which is documented")]
        pub enum Payload {
            $($variant($type),)*
            /// Not folded by the core; its data stays as it is.
            Other,
        }

        impl Payload {
            /// All types of events that the core folds.
            pub const KINDS: &'static [&'static str] = &[$($kind),*];

            /// Whether the core folds events of this type.
            pub fn is_core(kind: &str) -> bool {
                matches!(kind, $($kind)|*)
            }

            /// The event type; empty for [`Payload::Other`].
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                    Self::Other => "",
                }
            }

            /// Reads the payload of a draft or event.
            ///
            /// # Errors
            /// The type is the core's and the data does not have its shape.
            pub fn read(body: &Draft) -> Result<Self, PayloadError> {
                let data = body.data.get();
                match body.kind.as_str() {
                    $($kind => serde_json::from_str(data).map(Self::$variant).map_err(|e| {
                        PayloadError { kind: body.kind.clone(), problem: e.to_string() }
                    }),)*
                    _ => Ok(Self::Other),
                }
            }

            fn raw(&self) -> Result<Box<RawValue>, serde_json::Error> {
                match self {
                    $(Self::$variant(payload) => serde_json::value::to_raw_value(payload),)*
                    Self::Other => serde_json::value::to_raw_value(&()),
                }
            }
        }

        $(impl From<$type> for Payload {
            fn from(payload: $type) -> Self {
                Self::$variant(payload)
            }
        })*
    };
}

payloads! {
    TurnStart(TurnStart) = "turn/start",
    TurnEnd(TurnEnd) = "turn/end",
    StepStart(StepStart) = "step/start",
    StepEnd(StepEnd) = "step/end",
    UserMessage(UserMessage) = "user/message",
    AssistantChunk(AssistantChunk) = "assistant/chunk",
    AssistantAttempt(AssistantAttempt) = "assistant/attempt",
    AssistantMessage(AssistantMessage) = "assistant/message",
    ToolCall(ToolCall) = "tool/call",
    ToolStart(ToolStart) = "tool/start",
    ToolResult(ToolResult) = "tool/result",
    InboxSpliced(InboxSpliced) = "agent/inbox/spliced",
    RequestHeader(RequestHeader) = "request/header",
    RequestContext(RequestContext) = "request/context",
    RequestSent(RequestSent) = "request/sent",
    LlmRetry(LlmRetry) = "llm/retry",
    LlmRetryStarted(LlmRetryStarted) = "llm/retry-started",
    EndSeed(EndSeed) = "session/end-seed",
    LimitReached(LimitReached) = "limit/reached",
    SessionRecovered(SessionRecovered) = "session/recovered",
    SessionRepaired(SessionRepaired) = "session/repaired",
    SessionMoved(SessionMoved) = "session/moved",
}

impl Payload {
    /// Whether this type may join the surface.
    pub fn is_surface(kind: &str) -> bool {
        matches!(kind, "user/message" | "assistant/message" | "tool/result")
    }

    /// The uncommitted event with this payload; surface types are appended to the surface.
    ///
    /// # Errors
    /// The payload does not serialise (a non-finite temperature, say), or is [`Payload::Other`].
    pub fn draft(&self, sources: Vec<SourceRange>) -> Result<Draft, PayloadError> {
        let problem = |text: String| PayloadError { kind: self.kind().to_owned(), problem: text };
        if matches!(self, Self::Other) {
            return Err(problem("an event of another owner has no payload here".to_owned()));
        }
        let data = self.raw().map_err(|e| problem(e.to_string()))?;
        let surface = Self::is_surface(self.kind()).then_some(SurfaceOp::Append);
        let kind = self.kind().to_owned();
        Ok(Draft { kind, v: None, data, surface, sources, ignorable: false })
    }
}
