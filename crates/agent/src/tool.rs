//! What a tool is.

use std::path::PathBuf;
use std::sync::Arc;

use reins_kernel::{BoxFuture, Scope};
use reins_schema::{Block, CallId, Message, SessionId, ToolError, ToolSchema};
use reins_world::CancelToken;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::observations::Observations;

/// A tool as its author writes it. The input's doc comments are what the model reads of its
/// parameters. Register it with [`crate::erase`].
pub trait Tool: Send + Sync + 'static {
    /// The parameters. Unknown keys are refused, also in objects inside.
    type Input: DeserializeOwned + JsonSchema + Send;

    /// What the model calls it: lower case, digits, underscore.
    const NAME: &'static str;

    /// What the model reads.
    fn description(&self) -> String;

    /// How it may run for these arguments. Called often; no I/O. The default is the strictest.
    fn effect(&self, _input: &Self::Input) -> ToolEffect {
        ToolEffect::Exclusive
    }

    /// Does the work. Called once per call, on any task. When `ctx.cancel` fires the body must end
    /// soon; after the grace its future is dropped, which must leave no process and no half file.
    fn run(&self, input: Self::Input, ctx: ToolContext) -> BoxFuture<'_, ToolReply>;
}

/// How a call may run beside others, and whether it needs a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolEffect {
    /// Nothing outside changes: may overlap, needs no barrier.
    ReadOnly,
    /// May overlap with other such calls, but changes something: behind a barrier.
    Parallel,
    /// Alone, behind a barrier.
    Exclusive,
}

/// What a body knows of its call.
#[derive(Clone)]
pub struct ToolContext {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call_id: CallId,
    /// The session's directory; relative paths start here.
    pub cwd: PathBuf,
    /// Fires when the call is to end.
    pub cancel: CancelToken,
    /// Which files this session has seen, with which content.
    pub observations: Observations,
    /// The agent's scope.
    pub scope: Scope,
}

/// A body's answer.
pub type ToolReply = Result<ToolSuccess, ToolFailure>;

/// A result that is not an error.
#[derive(Debug, Default)]
pub struct ToolSuccess {
    /// What the model reads.
    pub content: Vec<Block>,
    /// Facts for people and programs.
    pub meta: Option<Box<RawValue>>,
    /// Input for the next step that goes with the result.
    pub contexts: Vec<Message>,
    /// The turn needs no further answer.
    pub concludes: bool,
}

impl ToolSuccess {
    /// A text and nothing else.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::Text(text.into())], ..Self::default() }
    }

    /// Adds facts for people and programs; what does not serialise is left out.
    #[must_use]
    pub fn with_meta(mut self, meta: &impl serde::Serialize) -> Self {
        self.meta = serde_json::value::to_raw_value(meta).ok();
        self
    }
}

/// A failed call. The model reads the message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// For example `INVALID_ARGS`, `FS_NOT_FOUND`, `TOOL_TIMEOUT`.
    pub code: String,
    /// What was expected, what was got, what to do next.
    pub message: String,
}

impl ToolFailure {
    /// A failure with its code.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into() }
    }

    /// As it stands in the log.
    pub fn error(&self) -> ToolError {
        ToolError { code: self.code.clone() }
    }
}

/// A tool with its types erased; the kind of entry that registries hold.
pub trait AnyTool: Send + Sync {
    /// What the model is told.
    fn schema(&self) -> &ToolSchema;

    /// Checks the arguments.
    ///
    /// # Errors
    /// `INVALID_ARGS`, naming the key and what was expected.
    fn check(&self, arguments: &Value) -> Result<ToolEffect, ToolFailure>;

    /// Runs the body with checked arguments.
    fn call(self: Arc<Self>, arguments: Value, ctx: ToolContext) -> BoxFuture<'static, ToolReply>;
}
