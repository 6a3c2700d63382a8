//! The points where plugins may step in. Each event is an owned struct; the layer that a plugin
//! wraps around it may change what flows in, what flows out, or answer instead of the rest.

use std::path::PathBuf;

use reins_kernel::{Chain, LayerInfo, Scope};
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

/// A chain of the agent, for people.
#[derive(Clone, Copy, Debug)]
pub struct ChainInfo {
    /// Its name.
    pub name: &'static str,
    /// What its layers are for.
    pub doc: &'static str,
    /// When it runs in a turn.
    pub when: &'static str,
    /// What happens when the last layer passes on.
    pub end: &'static str,
    /// Whether it runs for a single tool call.
    pub around_call: bool,
    layers: fn(&Scope) -> Vec<LayerInfo>,
}

impl ChainInfo {
    /// The layers that a run from this scope would pass, outermost first.
    pub fn layers(&self, scope: &Scope) -> Vec<LayerInfo> {
        (self.layers)(scope)
    }
}

/// Every chain of the agent, in the order in which a turn meets them first.
pub const CHAINS: &[ChainInfo] = &[
    ChainInfo {
        name: PreStep::NAME,
        doc: "Lets the input of a step in, changes it, adds to it, or rejects it.",
        when: "Once for each step: after prompt, tools and facts were gathered, before `step/start` \
               is written and before the chain `request`.",
        end: "The claimed input enters, then the facts, when they changed.",
        around_call: false,
        layers: Scope::layers::<PreStep>,
    },
    ChainInfo {
        name: RequestConfig::NAME,
        doc: "Chooses model and call settings of a request.",
        when: "Before each attempt, also a repeated one: after `step/start`, before \
               `request/header` is written and the request is rendered.",
        end: "The configuration is taken as it is then, and the provider resolves it.",
        around_call: false,
        layers: Scope::layers::<RequestConfig>,
    },
    ChainInfo {
        name: RequestError::NAME,
        doc: "Decides whether a failed request is repeated, and after which wait.",
        when: "After each failed attempt: after `assistant/attempt` is written, before `llm/retry` \
               or the end of the turn.",
        end: "Gives up: the turn ends with the failure.",
        around_call: false,
        layers: Scope::layers::<RequestError>,
    },
    ChainInfo {
        name: PreExecute::NAME,
        doc: "Allows a tool call, denies it, or has somebody asked.",
        when: "Once for each call of a known tool with valid arguments: after `tool/call` is \
               written, before the guards and before `tool/start`.",
        end: "The call is allowed. Then the guards are asked, and any \"no\" wins.",
        around_call: true,
        layers: Scope::layers::<PreExecute>,
    },
    ChainInfo {
        name: ApprovalRequest::NAME,
        doc: "Asks a person, or whoever answers for one, about a call.",
        when: "When the chain `tool-pre-execute` wants somebody asked: between `approval/asked` and \
               `approval/decided`, before the guards.",
        end: "Nobody is there to ask: the call is denied.",
        around_call: true,
        layers: Scope::layers::<ApprovalRequest>,
    },
    ChainInfo {
        name: Execute::NAME,
        doc: "Stands around the body of a tool, for time limits and the like.",
        when: "Once for each call that may run: after `tool/start`, before the chain \
               `tool-post-execute`.",
        end: "The tool's body runs.",
        around_call: true,
        layers: Scope::layers::<Execute>,
    },
    ChainInfo {
        name: PostExecute::NAME,
        doc: "Accepts, replaces or blocks what a tool answered.",
        when: "After the chain `tool-execute`, before the answer is cut to its limit and \
               `tool/result` is written.",
        end: "The answer is taken as it is then.",
        around_call: true,
        layers: Scope::layers::<PostExecute>,
    },
    ChainInfo {
        name: LimitQuestion::NAME,
        doc: "Decides whether a turn goes on beyond a limit of steps, tool calls or time.",
        when: "When a limit of the turn is reached: after `limit/reached` is written.",
        end: "Nobody is there to extend it: the turn ends.",
        around_call: false,
        layers: Scope::layers::<LimitQuestion>,
    },
    ChainInfo {
        name: TurnStopping::NAME,
        doc: "Has a last look before a turn ends; whoever wants another step sends input.",
        when: "When nothing is owed any more: after `step/end`, before `turn/end`.",
        end: "The turn ends, unless input for another step was sent.",
        around_call: false,
        layers: Scope::layers::<TurnStopping>,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_chain_is_listed_for_people() {
        let source = include_str!("chains.rs");
        let defined = source.lines().filter(|line| line.starts_with("impl Chain for ")).count();
        assert_eq!(CHAINS.len(), defined);
        let mut names: Vec<&str> = CHAINS.iter().map(|chain| chain.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), defined, "one name, one chain");
    }
}
