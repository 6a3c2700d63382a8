//! The face of the pure core: what goes in, what comes out.
//!
//! Every wait of the loop is an effect that carries an [`Op`] and is answered by the input that
//! names the same `Op`. An answer to an op that is no longer awaited is ignored, so that a cancel
//! never races with the work it cancels.

use std::sync::Arc;

use reins_schema::{
    Block, CallId, CancelCause, ChunkRun, Draft, Event, Failure, FinishReason, InboxTarget,
    Message, MessageId, RequestContext, RequestHeader, SessionRecovered, ToolCallBlock, ToolError,
    Usage,
};
use serde_json::value::RawValue;

use crate::fold::KnownTypes;

/// Names one outstanding wait of one core; never used twice.
pub type Op = u64;

/// Unix milliseconds.
pub type Time = i64;

/// What the driver tells the core.
#[derive(Debug)]
pub enum Input {
    /// The log was opened or created. First input of every core, exactly once: repairs what an
    /// ended process left open.
    Opened {
        /// What the store found damaged, and what it did: one `session/recovered` for each.
        recovered: Vec<SessionRecovered>,
    },
    /// New input. Its id must not be in the inbox or the log.
    Send {
        /// The message.
        message: Message,
        /// The queue.
        target: InboxTarget,
        /// Whether an idle agent starts a turn.
        wake: bool,
    },
    /// A change of waiting input.
    EditQueue(QueueEdit),
    /// Stop what runs. First cause wins.
    Cancel {
        /// By whom.
        cause: CancelCause,
        /// Keep waiting input (it stays parked) instead of removing it.
        keep_inbox: bool,
    },
    /// A contribution's own event. Answered by [`Effect::CommitAnswered`].
    Commit {
        /// Chosen by the driver to match the answer.
        ticket: u64,
        /// The event.
        draft: Draft,
    },
    /// The limits of turns from here on; taken at any time, also before `Opened`. A turn whose
    /// first step is still being assembled takes them instead of its own, whatever it was granted
    /// on top: its clock starts again from now, and a question about its time is abandoned. That
    /// first step itself is under way and is not asked about. A turn that has gone on keeps its own
    /// limits until it ends.
    UseLimits(TurnLimits),
    /// The event types that contributions may write from here on; taken at any time. What stands in
    /// the log stays as it is; when it may not be skipped and its type is not among these, the
    /// session is read-only until it is again.
    UseTypes(KnownTypes),
    /// Answers [`Effect::Assemble`].
    Assembled {
        /// The wait.
        op: Op,
        /// A snapshot of runtime facts to append to history, when it changed; or why there is no
        /// prompt.
        result: Result<Option<Message>, Failure>,
    },
    /// Answers [`Effect::AskPreStep`].
    PreStepDecided {
        /// The wait.
        op: Op,
        /// What the chain decided.
        decision: PreStepDecision,
    },
    /// Answers [`Effect::AskConfig`].
    ConfigDecided {
        /// The wait.
        op: Op,
        /// The resolved request, or why there is none.
        result: Result<Box<RequestPlan>, Failure>,
    },
    /// Answers [`Effect::Render`].
    Rendered {
        /// The wait.
        op: Op,
        /// Facts of the rendered request, or why it may not leave.
        result: Result<RenderedFacts, Failure>,
    },
    /// Answers [`Effect::Flush`].
    Flushed {
        /// The wait.
        op: Op,
        /// The store's words when the events are not durable.
        result: Result<(), String>,
    },
    /// Packed deltas of the running attempt.
    Chunk {
        /// The attempt's op.
        op: Op,
        /// In order of arrival.
        runs: Vec<ChunkRun>,
    },
    /// Ends the running attempt.
    AttemptEnded {
        /// The attempt's op.
        op: Op,
        /// How.
        outcome: AttemptOutcome,
    },
    /// Answers [`Effect::AskRetry`].
    RetryDecided {
        /// The wait.
        op: Op,
        /// What the chain decided.
        decision: RetryDecision,
    },
    /// Answers [`Effect::PrepareTool`].
    ToolPrepared {
        /// The wait.
        op: Op,
        /// What validation, chain, approval and guards decided.
        decision: Prepared,
    },
    /// Answers [`Effect::StartTool`].
    ToolFinished {
        /// The wait.
        op: Op,
        /// The final, capped result.
        outcome: ToolOutcome,
    },
    /// Answers [`Effect::AskStop`]. A layer that wants another step sent next-step input before.
    StopDecided {
        /// The wait.
        op: Op,
    },
    /// Answers [`Effect::AskLimit`].
    LimitAnswered {
        /// The wait.
        op: Op,
        /// Go on, or end the turn.
        answer: LimitAnswer,
    },
    /// Answers [`Effect::WakeAt`].
    Woke {
        /// The wait.
        op: Op,
    },
    /// An append did not reach the disk. The agent ends; the next open continues from what is
    /// durable.
    StoreFailed {
        /// The store's words.
        message: String,
    },
}

/// A change of waiting input. What a turn has already claimed is out of reach.
#[derive(Debug, Clone)]
pub enum QueueEdit {
    /// Take one message out.
    Remove(MessageId),
    /// Put another message in its place.
    Replace(MessageId, Box<Message>),
    /// Move a message to a queue and position.
    Move {
        /// Which message.
        id: MessageId,
        /// To which queue.
        target: InboxTarget,
        /// Before which index; past the end = last.
        at: u64,
    },
    /// Take everything out.
    Clear,
}

/// What the pre-step chain decided.
#[derive(Debug)]
pub enum PreStepDecision {
    /// The claimed input may not enter; the turn ends `blocked`.
    Reject {
        /// For people and the log.
        reason: String,
    },
    /// The step starts with these messages. Claimed input that no entry names is dropped.
    Enter(Vec<Entering>),
}

/// One message that enters a step.
#[derive(Debug, Clone)]
pub struct Entering {
    /// What the model reads.
    pub message: Message,
    /// The inbox entries that it takes out; empty for additions.
    pub inbox: Vec<MessageId>,
}

/// A resolved request.
#[derive(Debug, Clone)]
pub struct RequestPlan {
    /// Compared with the last header; appended when it differs.
    pub header: RequestHeader,
    /// Appended when it differs.
    pub context: RequestContext,
}

/// What the renderer says of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedFacts {
    /// The dialect.
    pub dialect: String,
    /// The renderer's version.
    pub renderer: u32,
    /// Number of items.
    pub items: u64,
    /// Bytes of the body.
    pub bytes: u64,
    /// The hash chain after the last item, lower-case hex.
    pub hash: String,
    /// How many items are the first items of the previous request.
    pub shared: u64,
    /// Why fewer than all of the previous request's items are shared.
    pub cause: Option<String>,
}

/// How an attempt ended.
#[derive(Debug)]
pub enum AttemptOutcome {
    /// The answer is complete.
    Finished {
        /// Why the model stopped.
        finish: FinishReason,
        /// What it cost.
        usage: Option<Usage>,
        /// What the provider needs to see again.
        replay: Option<Box<RawValue>>,
    },
    /// It failed, or was stopped.
    Failed {
        /// Why.
        failure: Failure,
        /// What it cost.
        usage: Option<Usage>,
    },
}

/// What the request-error chain decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryDecision {
    /// Another attempt in the same step, after a wait.
    Retry {
        /// The wait in milliseconds.
        delay_ms: u64,
        /// The policy's limit, for the log.
        max_retries: Option<u32>,
    },
    /// The turn ends with the failure.
    GiveUp,
}

/// What preparation decided about one call.
#[derive(Debug)]
pub enum Prepared {
    /// The body may start.
    Run {
        /// May overlap with other such calls.
        parallel: bool,
        /// Has no effect outside, so it needs no barrier.
        read_only: bool,
    },
    /// Must run with nothing else in flight: ask again with `alone` once that holds. Only in
    /// answer to a question with `alone: false`.
    NeedsAlone,
    /// No body: unknown, invalid, denied. The outcome is the result.
    Refused(Box<ToolOutcome>),
}

/// The final result of a call.
#[derive(Debug, Clone)]
pub struct ToolOutcome {
    /// What the model reads; capped by the pipeline.
    pub content: Vec<Block>,
    /// Failed or refused.
    pub is_error: bool,
    /// Its code.
    pub error: Option<ToolError>,
    /// Facts for people and programs.
    pub meta: Option<Box<RawValue>>,
    /// Input for the next step that goes with this result.
    pub contexts: Vec<Message>,
    /// The turn needs no further answer because of this result.
    pub concludes: bool,
}

/// What to do at a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitAnswer {
    /// Go on with this much more, in the limit's unit.
    Extend(u64),
    /// End the turn with `limit{name}`.
    Stop,
}

/// The points that wait until all earlier events are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Barrier {
    /// A request is about to leave.
    BeforeRequest,
    /// The bodies of a batch are about to start.
    BeforeTools,
    /// A turn has ended.
    TurnEnd,
}

/// What the core tells the driver to do. The driver does it, in order, and adds nothing.
#[derive(Debug)]
pub enum Effect {
    /// Hand this event to the store. It is committed now; observers may see it.
    Append(Arc<Event>),
    /// Answer with `Flushed` when all earlier events are on disk; at once where this barrier is
    /// turned off.
    Flush {
        /// The wait.
        op: Op,
        /// Which barrier it is.
        point: Barrier,
    },
    /// Take tools (at a turn's first step), assemble prompt and runtime facts.
    Assemble {
        /// The wait.
        op: Op,
        /// The turn.
        turn: u64,
        /// The step to come.
        step: u64,
    },
    /// Run the pre-step chain. The default is to enter with `claimed`, then `facts`.
    AskPreStep {
        /// The wait.
        op: Op,
        /// The turn.
        turn: u64,
        /// The step to come.
        step: u64,
        /// Claimed input. After a cut answer the core's own notice comes first; an entry may name
        /// it like an inbox entry.
        claimed: Vec<Message>,
        /// The snapshot from `Assembled`.
        facts: Option<Message>,
    },
    /// Run the request chain and resolve the provider.
    AskConfig {
        /// The wait.
        op: Op,
        /// The turn.
        turn: u64,
        /// The step.
        step: u64,
        /// 1-based in its step.
        attempt: u32,
    },
    /// Render header and surface, check strictly, keep the body for `StartAttempt`.
    Render {
        /// The wait.
        op: Op,
        /// The turn.
        turn: u64,
        /// The step.
        step: u64,
        /// 1-based in its step.
        attempt: u32,
    },
    /// Send the rendered request. Answered by `Chunk`* and one `AttemptEnded`.
    StartAttempt {
        /// The attempt's op.
        op: Op,
        /// The turn.
        turn: u64,
        /// The step.
        step: u64,
        /// 1-based in its step.
        attempt: u32,
    },
    /// Drop the connection. No answer is awaited any more.
    StopAttempt {
        /// The attempt's op.
        op: Op,
    },
    /// Run the request-error chain.
    AskRetry {
        /// The wait.
        op: Op,
        /// The turn.
        turn: u64,
        /// The step.
        step: u64,
        /// The attempt that failed.
        attempt: u32,
        /// Retries made in this step so far.
        retries: u32,
        /// Why it failed.
        failure: Failure,
    },
    /// Validate, look up, run pre-execute, approval and guards.
    PrepareTool {
        /// The wait.
        op: Op,
        /// The turn.
        turn: u64,
        /// The step.
        step: u64,
        /// The call.
        call: ToolCallBlock,
        /// Nothing else is in flight.
        alone: bool,
    },
    /// Run the body of a prepared call through the execute and post-execute chains. Unless it is
    /// read-only its `tool/start` is on disk by now.
    StartTool {
        /// The wait.
        op: Op,
        /// The turn.
        turn: u64,
        /// The step.
        step: u64,
        /// The call.
        call: ToolCallBlock,
    },
    /// Cancel a started body; `ToolFinished` still follows, at the latest after the grace.
    StopTool {
        /// The body's op.
        op: Op,
        /// The call.
        call_id: CallId,
    },
    /// Run the turn-stopping chain.
    AskStop {
        /// The wait.
        op: Op,
        /// The turn.
        turn: u64,
    },
    /// A limit is reached: ask, or answer `Stop` where nobody can be asked.
    AskLimit {
        /// The wait.
        op: Op,
        /// The turn.
        turn: u64,
        /// `steps`, `tool-calls`, `time`.
        name: String,
        /// The configured value.
        value: u64,
    },
    /// Answer with `Woke` at this time.
    WakeAt {
        /// The wait.
        op: Op,
        /// When.
        time: Time,
    },
    /// Drop the work for a wait; its answer would be ignored.
    Abandon {
        /// The wait.
        op: Op,
    },
    /// The public state changed.
    Status(Status),
    /// Answers [`Input::Send`].
    SendAnswered {
        /// The message.
        id: MessageId,
        /// The number of the insertion (await its durability for a receipt), or why not.
        result: Result<u64, Refusal>,
    },
    /// Answers [`Input::EditQueue`].
    EditAnswered {
        /// Whether the edit was made.
        result: Result<(), Refusal>,
    },
    /// Answers [`Input::Commit`].
    CommitAnswered {
        /// As in the input.
        ticket: u64,
        /// The event's number, or why it was refused.
        result: Result<u64, Refusal>,
    },
}

/// Why the core does not take something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// What people see of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// No turn is open. Waiting input may be parked.
    Idle,
    /// A turn is open.
    Running,
    /// A turn is being cancelled.
    Cancelling,
    /// The store failed; only a new open goes on.
    Dead,
}

/// How much one turn may take. [`Input::UseLimits`] says from when new ones hold. A turn that a
/// limit ends before its first step leaves its prompt in the inbox, for the turn that the next wake
/// begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TurnLimits {
    /// Steps; `None` = no limit.
    pub steps: Option<u64>,
    /// Tool calls; `None` = no limit.
    pub tool_calls: Option<u64>,
    /// Wall time in milliseconds; `None` = no limit.
    pub time_ms: Option<u64>,
}

impl TurnLimits {
    /// These where they say something, `other` elsewhere.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            steps: self.steps.or(other.steps),
            tool_calls: self.tool_calls.or(other.tool_calls),
            time_ms: self.time_ms.or(other.time_ms),
        }
    }
}

/// Limits of a core. All but those of turns are the same for its whole life.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Of each turn.
    pub turn: TurnLimits,
    /// Bodies that run at once; at least 1. Reference: 10.
    pub parallel_tools: usize,
    /// Messages that may wait in both queues together.
    pub inbox: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { turn: TurnLimits::default(), parallel_tools: 10, inbox: 1000 }
    }
}
