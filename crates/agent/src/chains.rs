//! The points where plugins may step in. Each event is an owned struct; the layer that a plugin
//! wraps around it may change what flows in, what flows out, or answer instead of the rest.

use std::path::PathBuf;

use reins_kernel::{Chain, Scope};
use reins_schema::{CallConfig, CallId, Failure, Message, SessionId};
use reins_session::{LimitAnswer, PreStepDecision, RetryDecision};
use serde_json::Value;

use crate::provider::RetryPolicy;
use crate::tool::{ToolContext, ToolEffect, ToolReply};

/// Before a step starts: let the claimed input in, change it, add to it, or reject it.
/// The end of the chain enters with `claimed`, then `facts`.
#[derive(Debug)]
pub struct PreStep {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: u64,
    /// The step to come.
    pub step: u64,
    /// Claimed input.
    pub claimed: Vec<Message>,
    /// Runtime facts, when they changed.
    pub facts: Option<Message>,
}

impl Chain for PreStep {
    const NAME: &'static str = "pre-step";
    type Out = PreStepDecision;
}

/// Before each attempt: the call's configuration. The end returns it unchanged.
#[derive(Debug)]
pub struct RequestConfig {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: u64,
    /// The step.
    pub step: u64,
    /// What the call will use.
    pub config: CallConfig,
}

impl Chain for RequestConfig {
    const NAME: &'static str = "request";
    type Out = Result<CallConfig, Failure>;
}

/// After a failed attempt: repeat it or not. The end gives up.
#[derive(Debug)]
pub struct RequestError {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: u64,
    /// The step.
    pub step: u64,
    /// Retries made in this step so far.
    pub retries: u32,
    /// Why the attempt failed.
    pub failure: Failure,
    /// The provider's policy.
    pub policy: RetryPolicy,
}

impl Chain for RequestError {
    const NAME: &'static str = "request-error";
    type Out = RetryDecision;
}

/// A checked call before anything of it happens.
#[derive(Clone, Debug)]
pub struct PreExecute {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call_id: CallId,
    /// The tool.
    pub tool: String,
    /// Its arguments; they cannot be changed.
    pub arguments: Value,
    /// What the tool says of these arguments.
    pub effect: ToolEffect,
    /// The session's directory.
    pub cwd: PathBuf,
}

/// What a layer decides about a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permission {
    /// It may run, unless a guard says no.
    Allow,
    /// It may not.
    Deny {
        /// What the model reads.
        reason: String,
    },
    /// Somebody has to be asked.
    Ask {
        /// What the person reads.
        reason: String,
    },
}

impl Chain for PreExecute {
    const NAME: &'static str = "tool-pre-execute";
    type Out = Permission;
}

/// Asked at the end of the pre-execute chain; any "no" wins and nothing can undo it.
pub trait Guard: Send + Sync {
    /// The reason why this call may not run, or `None`. Quick, no I/O.
    fn refuses(&self, call: &PreExecute) -> Option<String>;
}

/// Around a body, for time limits and the like. The end runs the body.
pub struct Execute {
    /// The tool's name.
    pub tool: String,
    /// Checked arguments.
    pub arguments: Value,
    /// The call's context; a layer may replace the cancel token by a child of it.
    pub ctx: ToolContext,
}

impl Chain for Execute {
    const NAME: &'static str = "tool-execute";
    type Out = ToolReply;
}

/// After a body: accept, replace or block its reply. The end returns it unchanged.
#[derive(Debug)]
pub struct PostExecute {
    /// The session.
    pub session: SessionId,
    /// The call.
    pub call_id: CallId,
    /// The tool's name.
    pub tool: String,
    /// What the body answered.
    pub reply: ToolReply,
}

impl Chain for PostExecute {
    const NAME: &'static str = "tool-post-execute";
    type Out = ToolReply;
}

/// The turn would stop now. A layer that wants another step sends next-step input and returns.
#[derive(Debug)]
pub struct TurnStopping {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: u64,
}

impl Chain for TurnStopping {
    const NAME: &'static str = "turn-stopping";
    type Out = ();
}

/// Somebody has to answer. The end answers [`Approval::Unavailable`].
#[derive(Clone, Debug)]
pub struct ApprovalRequest {
    /// Names this question in the log.
    pub id: String,
    /// What is asked for.
    pub call: PreExecute,
    /// Why it is asked.
    pub reason: String,
    /// The agent's scope.
    pub scope: Scope,
}

/// The answer to an approval request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// This one call may run.
    AllowedOnce,
    /// It may not; the text goes to the model.
    Rejected {
        /// What the person said; may be empty.
        message: String,
    },
    /// The turn was cancelled meanwhile.
    Cancelled,
    /// There is nobody to ask.
    Unavailable,
}

impl Chain for ApprovalRequest {
    const NAME: &'static str = "approval";
    type Out = Approval;
}

/// A limit is reached. The end answers [`LimitAnswer::Stop`]: nobody is there to extend it.
#[derive(Debug)]
pub struct LimitQuestion {
    /// The session.
    pub session: SessionId,
    /// `steps`, `tool-calls`, `time`.
    pub name: String,
    /// The configured value.
    pub value: u64,
}

impl Chain for LimitQuestion {
    const NAME: &'static str = "limit";
    type Out = LimitAnswer;
}
