//! The pure core of Reins: what a log means, and what happens next.
//!
//! [`Fold`] gives a log its meaning, one event at a time. [`Core`] is the machine of one live
//! session: an [`Input`] goes in, [`Effect`]s come out. No runtime, no clock, no file, no chance:
//! the same inputs give the same effects.

mod face;
mod fold;
mod invariants;
mod machine;
mod notices;
mod repair;
mod sabotage;

pub use face::{
    AttemptOutcome, Barrier, Effect, Entering, Input, LimitAnswer, Limits, Op, PreStepDecision,
    Prepared, QueueEdit, Refusal, RenderedFacts, RequestPlan, RetryDecision, Status, Time,
    ToolOutcome, TurnLimits,
};
pub use fold::{
    Applied, EventType, Fold, FoldError, Inbox, KnownTypes, Node, NodeKind, OpenCall, OpenStep,
    OpenTurn, SnapshotError, Surface, Untold,
};
pub use invariants::check;
pub use machine::Core;
#[cfg(feature = "sabotage")]
pub use sabotage::Sabotage;
