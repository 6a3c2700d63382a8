//! Every text that the core itself gives to the model.

use reins_schema::{Block, ToolError};

use crate::face::ToolOutcome;

/// The name under which the core's own notices stand.
pub(crate) const PLUGIN: &str = "reins";

pub(crate) const INTERRUPTED: &str = "The user interrupted the previous turn before it was finished. Results of calls that were \
     stopped may be incomplete.";

pub(crate) const CUT: &str = "Your last answer was cut off at the output limit. Tool calls in it were dropped and not run. \
     Continue in smaller parts.";

pub(crate) const OUTCOME_UNKNOWN: (&str, &str) = (
    "TOOL_OUTCOME_UNKNOWN",
    "The process ended while this call was running. Its effects may have happened, in full or in \
     part. Check the current state before you repeat it.",
);

pub(crate) const NOT_STARTED: (&str, &str) = (
    "TOOL_NOT_STARTED",
    "The process ended before this call was started. It had no effect and may be repeated.",
);

pub(crate) const ABORTED: (&str, &str) = (
    "ABORTED_BEFORE_DISPATCH",
    "The turn was cancelled before this call was started. It had no effect.",
);

pub(crate) const LIMIT: (&str, &str) = (
    "LIMIT_REACHED",
    "A limit of the turn was reached before this call was started. It had no effect.",
);

pub(crate) const DUPLICATE: (&str, &str) = (
    "DUPLICATE_CALL_ID",
    "An earlier call of the same answer has the same id. This call was not run; repeat it with an \
     id of its own if it is needed.",
);

pub(crate) const UNSCHEDULED: (&str, &str) = (
    "TOOL_UNSCHEDULED",
    "The call asked to run alone when nothing else was running. It was not run.",
);

/// A result that no tool gave.
pub(crate) fn synthetic((code, text): (&str, &str)) -> ToolOutcome {
    ToolOutcome {
        content: vec![Block::Text(text.to_owned())],
        is_error: true,
        error: Some(ToolError { code: code.to_owned() }),
        meta: None,
        contexts: Vec::new(),
        concludes: false,
    }
}
