//! The pure core of Reins. See `face` for inputs and effects.

mod face;

pub use face::{
    AttemptOutcome, Effect, Entering, Input, LimitAnswer, Limits, Op, PreStepDecision, Prepared,
    QueueEdit, Refusal, RenderedFacts, RequestPlan, RetryDecision, Status, Time, ToolOutcome,
};
mod surface;
pub use surface::{Node, NodeKind, Surface};
