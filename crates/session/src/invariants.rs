//! Every rule that a log and the machine keep, in one place. Tests check all of them after every
//! input; debug builds check the cheap ones.

use reins_schema::{Block, TurnEndReason};

use crate::face::Status;
use crate::fold::{Fold, Node, NodeKind};
use crate::machine::{Clock, Core, Phase};

/// A rule with the fact that breaks it.
type Check = Result<(), String>;

fn rule(holds: bool, text: &str) -> Check {
    if holds { Ok(()) } else { Err(text.to_owned()) }
}

/// All rules of a fold. Linear in the surface: for tests.
///
/// # Errors
/// The first rule that is broken, in words.
pub fn check(fold: &Fold) -> Check {
    check_open_step(fold)?;
    check_places(fold)?;
    check_pairs(fold)?;
    check_inbox(fold)
}

/// The rules between the machine and its fold. Constant in the history: for debug builds.
pub(crate) fn check_core(core: &Core) -> Check {
    check_open_step(&core.fold)?;
    check_status(core)?;
    check_phase(core)?;
    check_claims(core)?;
    check_pool(core)
}

/// Calls are announced and answered in the model's order; a body starts after its call.
fn check_open_step(fold: &Fold) -> Check {
    let Some(step) = fold.open_step() else { return Ok(()) };
    let mut announced = true;
    for call in step.calls() {
        rule(announced || call.call_seq.is_none(), "calls are announced in the model's order")?;
        announced = call.call_seq.is_some();
        rule(call.start_seq.is_none() || announced, "a body starts after its call")?;
    }
    rule(step.answer().is_none() || !step.attempt_open(), "an answer closes its attempt")?;
    rule(step.retries() <= step.attempt(), "a retry follows an attempt")
}

/// Every node is found by its number.
fn check_places(fold: &Fold) -> Check {
    for (at, node) in fold.surface().nodes().iter().enumerate() {
        rule(fold.surface().position(node.seq) == Some(at), "a node stands where it is found")?;
    }
    Ok(())
}

/// Each call has exactly one result, directly after its message; only the open step may still
/// owe results, at the end.
fn check_pairs(fold: &Fold) -> Check {
    let mut owed = Vec::new();
    for node in fold.surface().nodes() {
        rule(!node.message.content.is_empty(), "no message is empty")?;
        if let Some(answered) = answers(node) {
            rule(owed.first() == Some(&answered), "a result follows its call, in order")?;
            owed.remove(0);
            continue;
        }
        rule(owed.is_empty(), "no message stands between a call and its result")?;
        owed = node.message.calls().map(|call| call.id.clone()).collect();
    }
    let open: Vec<_> = fold.unanswered().iter().map(|open| open.call.id.clone()).collect();
    rule(owed == open, "what the surface owes is what the open step owes")
}

fn answers(node: &Node) -> Option<reins_schema::CallId> {
    match (node.kind, node.message.content.as_slice()) {
        (NodeKind::ToolResult, [Block::ToolResult(block)]) => Some(block.tool_call_id.clone()),
        _ => None,
    }
}

/// A message waits once, and its id is taken.
fn check_inbox(fold: &Fold) -> Check {
    let inbox = fold.inbox();
    let mut seen = std::collections::HashSet::new();
    for message in inbox.next_turn().iter().chain(inbox.next_step()) {
        rule(seen.insert(&message.id), "a message waits once")?;
        rule(fold.is_used(&message.id), "the id of waiting input is taken")?;
    }
    Ok(())
}

/// A status tells whether a turn is held.
fn check_status(core: &Core) -> Check {
    let held = core.turn.is_some();
    match core.status {
        Status::Idle | Status::Dead => rule(!held, "no turn is held when idle or dead"),
        Status::Running | Status::Cancelling => rule(held, "a turn is held while running"),
    }
}

/// A phase fits what the log says is open.
fn check_phase(core: &Core) -> Check {
    let Some(turn) = &core.turn else { return Ok(()) };
    let open = core.fold.open_turn();
    if let Phase::Ending { .. } = turn.phase {
        rule(matches!(turn.clock, Clock::Off), "an ended turn has no clock")?;
        return rule(open.is_none(), "an ended turn is closed in the log");
    }
    rule(open.is_some_and(|open| open.number() == turn.number), "the held turn is the open one")?;
    let step = core.fold.open_step();
    let fits = match &turn.phase {
        Phase::Between => false,
        Phase::StepLimit { .. }
        | Phase::Assembling { .. }
        | Phase::PreStep { .. }
        | Phase::Stopping { .. } => step.is_none(),
        Phase::Configuring { .. }
        | Phase::Rendering { .. }
        | Phase::Failed { .. }
        | Phase::RetryWait { .. } => step.is_some_and(|s| !s.attempt_open()),
        Phase::Sending { .. } | Phase::Streaming(_) => step.is_some_and(|s| s.attempt_open()),
        Phase::Tools(_) => !core.fold.unanswered().is_empty(),
        Phase::Ending { .. } => true,
    };
    rule(fits, "the phase fits the open step")?;
    let winding = turn.closing.is_some();
    rule(!winding || matches!(turn.phase, Phase::Tools(_)), "only started bodies delay an end")?;
    let aborted = matches!(turn.closing, Some(TurnEndReason::Aborted { .. }));
    rule(!aborted || core.status == Status::Cancelling, "an abort shows as cancelling")
}

/// A reservation is of waiting input, and only until it enters.
fn check_claims(core: &Core) -> Check {
    let Some(turn) = &core.turn else { return Ok(()) };
    let may = matches!(turn.phase, Phase::Assembling { .. } | Phase::PreStep { .. });
    rule(may || turn.claimed.is_empty(), "a claim is held only until the step starts")?;
    let waiting = turn.claimed.iter().all(|id| core.fold.inbox().find(id).is_some());
    rule(waiting, "claimed input still waits in the log")
}

/// Not more bodies run than the pool holds.
fn check_pool(core: &Core) -> Check {
    let Some(Phase::Tools(tools)) = core.turn.as_ref().map(|turn| &turn.phase) else {
        return Ok(());
    };
    let pool = core.limits.parallel_tools.max(1);
    rule(tools.busy() <= pool && tools.running() <= pool, "the pool is bounded")
}
