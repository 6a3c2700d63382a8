//! What Reins writes to disk or sends over a wire, and what the pure core folds.
//!
//! Plain data with serde. No I/O, no clock, no behaviour beyond encoding, decoding and checks of
//! shape. Field names inside `data` are camelCase, as in the reference format.

mod block;
mod envelope;
mod failure;
mod header;
mod ids;
mod message;
mod payload;
mod request;

pub use block::{Block, Image, ToolCallBlock, ToolResultBlock};
pub use envelope::{Draft, Event, LineError, MAX_LINE_BYTES, Position, SourceRange, SurfaceOp};
pub use failure::{Failure, FailureCode};
pub use header::{FORMAT, Header, OLDEST_FORMAT, ParentPosition};
pub use ids::{CallId, MessageId, SessionId};
pub use message::{Message, Role, Source};
pub use payload::{
    AssistantAttempt, AssistantChunk, AssistantMessage, CancelCause, ChunkRun, EndSeed,
    FinishReason, InboxSpliced, InboxTarget, LimitReached, LlmRetry, LlmRetryStarted, PartKind,
    Payload, PayloadError, RequestContext, RequestSent, SessionMoved, SessionRecovered,
    SessionRepaired, SpliceOutcome, StepEnd, StepStart, ToolCall, ToolError, ToolResult, ToolStart,
    TurnEnd, TurnEndReason, TurnStart, Usage, UserMessage,
};
pub use request::{AdapterDefaults, CallConfig, HeaderReason, Purpose, RequestHeader, ToolSchema};
