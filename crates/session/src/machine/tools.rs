//! The tool scheduler of one step: prepared one by one in the model's order, run in a bounded
//! pool, committed in the model's order.
//!
//! `tool/start` is written before the barrier and the body starts after it, so that no crash can
//! make a body that had begun look as if it never did.

use std::collections::{BTreeMap, HashSet};

use reins_schema::{
    Block, InboxTarget, Message, MessageId, Role, SourceRange, ToolCall, ToolCallBlock, ToolResult,
    ToolStart, TurnEndReason,
};

use super::{Core, Phase};
use crate::face::{Barrier, Effect, Op, Prepared, ToolOutcome};
use crate::fold::{input_problem, result_message};
use crate::notices;
use crate::sabotage::Sabotage;

/// The calls of the open step.
pub(crate) struct Tools {
    calls: Vec<Call>,
    /// The first call that was not prepared.
    next: usize,
    /// The first call without `tool/call`.
    announced: usize,
    /// The first call without `tool/result`.
    committed: usize,
    lane: Lane,
    /// Prepared bodies with effects that wait for their barrier.
    batch: Vec<usize>,
    flush: Option<(Op, Vec<usize>)>,
    running: BTreeMap<Op, usize>,
    /// This call runs with nothing beside it, until it is committed.
    exclusive: Option<usize>,
    contexts: Vec<Message>,
    concludes: bool,
    /// What unstarted calls get once the turn is wound down.
    stopped: Option<(&'static str, &'static str)>,
}

struct Call {
    block: ToolCallBlock,
    duplicate: bool,
    outcome: Option<Box<ToolOutcome>>,
}

/// The one place where calls are prepared.
enum Lane {
    Free,
    Asking {
        op: Op,
        alone: bool,
    },
    /// The next call waits until nothing else is in flight.
    NeedsAlone,
    Limit {
        op: Op,
    },
}

impl Tools {
    pub(crate) fn flushes(&self, op: Op) -> bool {
        self.flush.as_ref().is_some_and(|(flush, _)| *flush == op)
    }

    /// The barrier was answered and not passed.
    pub(crate) fn lose_flush(&mut self) {
        self.flush = None;
    }

    pub(crate) fn asks_limit(&self, op: Op) -> bool {
        matches!(self.lane, Lane::Limit { op: awaited } if awaited == op)
    }

    /// The limit was answered.
    pub(crate) fn free_lane(&mut self) {
        self.lane = Lane::Free;
    }

    /// Bodies that run, or will as soon as their barrier is passed.
    pub(crate) fn busy(&self) -> usize {
        let flushing = self.flush.as_ref().map_or(0, |(_, calls)| calls.len());
        self.running.len() + self.batch.len() + flushing
    }

    /// Bodies that run.
    pub(crate) fn running(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn work(&self) -> Vec<Effect> {
        let mut stops = Vec::new();
        if let Lane::Asking { op, .. } | Lane::Limit { op } = self.lane {
            stops.push(Effect::Abandon { op });
        }
        if let Some((op, _)) = self.flush {
            stops.push(Effect::Abandon { op });
        }
        stops.extend(self.running.iter().map(|(op, at)| Effect::StopTool {
            op: *op,
            call_id: self.calls[*at].block.id.clone(),
        }));
        stops
    }

    /// What has not started gets a synthetic result; what runs is awaited.
    pub(crate) fn stop(&mut self, reason: &TurnEndReason) {
        let limit = matches!(reason, TurnEndReason::Limit { .. });
        let text = if limit { notices::LIMIT } else { notices::ABORTED };
        self.stopped = Some(text);
        self.lane = Lane::Free;
        self.batch.clear();
        self.flush = None;
        self.next = self.calls.len();
        let running: HashSet<usize> = self.running.values().copied().collect();
        for (at, call) in self.calls.iter_mut().enumerate().skip(self.committed) {
            if call.outcome.is_none() && !running.contains(&at) {
                call.outcome = Some(Box::new(notices::synthetic(text)));
            }
        }
    }
}

impl Core {
    pub(super) fn begin_tools(&mut self, duplicates: &HashSet<usize>) {
        let calls = self.fold.unanswered().iter().enumerate().map(|(at, open)| Call {
            block: open.call.clone(),
            duplicate: duplicates.contains(&at),
            outcome: None,
        });
        let tools = Tools {
            calls: calls.collect(),
            next: 0,
            announced: 0,
            committed: 0,
            lane: Lane::Free,
            batch: Vec::new(),
            flush: None,
            running: BTreeMap::new(),
            exclusive: None,
            contexts: Vec::new(),
            concludes: false,
            stopped: None,
        };
        self.set_phase(Phase::Tools(Box::new(tools)));
        self.drive_tools();
    }

    fn tools(&mut self) -> Option<&mut Tools> {
        match self.turn.as_mut().map(|turn| &mut turn.phase) {
            Some(Phase::Tools(tools)) => Some(tools),
            _ => None,
        }
    }

    /// Does everything that can be done now.
    pub(super) fn drive_tools(&mut self) {
        loop {
            self.commit_results();
            let Some(tools) = self.tools() else { return };
            if tools.committed == tools.calls.len() {
                return self.finish_tools();
            }
            if tools.exclusive.is_some_and(|at| at < tools.committed) {
                tools.exclusive = None;
            }
            self.close_batch();
            if !self.prepare_next() {
                return;
            }
        }
    }

    fn commit_results(&mut self) {
        loop {
            let out_of_order = self.broken(Sabotage::ResultOutOfOrder);
            let Some(tools) = self.tools() else { return };
            let mut at = tools.committed;
            if out_of_order && at < tools.calls.len() && tools.calls[at].outcome.is_none() {
                let settled = tools.calls.iter().rposition(|call| call.outcome.is_some());
                at = settled.unwrap_or(at);
            }
            let Some(call) = tools.calls.get_mut(at) else { return };
            let Some(outcome) = call.outcome.take() else { return };
            tools.committed += 1;
            let block = call.block.clone();
            tools.concludes |= outcome.concludes;
            self.announce(at);
            self.append_result(&block, *outcome);
        }
    }

    /// Writes the `tool/call` of a call, unless it stands already.
    fn announce(&mut self, at: usize) {
        let (turn, step) = self.place();
        let Some(tools) = self.tools() else { return };
        if tools.announced != at {
            return;
        }
        tools.announced += 1;
        let ToolCallBlock { id: call_id, name, arguments } = tools.calls[at].block.clone();
        self.append(ToolCall { turn, step, call_id, name, arguments }, Vec::new());
    }

    fn append_result(&mut self, call: &ToolCallBlock, mut outcome: ToolOutcome) {
        let contexts = std::mem::take(&mut outcome.contexts);
        if let Some(tools) = self.tools() {
            tools.contexts.extend(contexts);
        }
        let sources = self.fold.unanswered().first().and_then(|open| open.call_seq);
        let result = result_payload(self, call, outcome);
        self.append(result, sources.map(SourceRange::One).into_iter().collect());
    }

    /// Closes the batch when nothing more can join it: starts are written, then one barrier.
    fn close_batch(&mut self) {
        let pool = self.pool();
        let Some(tools) = self.tools() else { return };
        let full = tools.busy() >= pool
            || tools.next == tools.calls.len()
            || tools.exclusive.is_some()
            || matches!(tools.lane, Lane::NeedsAlone | Lane::Limit { .. });
        if !full || tools.batch.is_empty() || tools.flush.is_some() {
            return;
        }
        let batch = std::mem::take(&mut tools.batch);
        for at in &batch {
            self.write_start(*at);
        }
        if self.broken(Sabotage::SkipToolBarrier) {
            return batch.into_iter().for_each(|at| self.start_body(at));
        }
        let op = self.op();
        if let Some(tools) = self.tools() {
            tools.flush = Some((op, batch));
            self.emit(Effect::Flush { op, point: Barrier::BeforeTools });
        }
    }

    fn write_start(&mut self, at: usize) {
        let (turn, step) = self.place();
        let Some(tools) = self.tools() else { return };
        let call_id = tools.calls[at].block.id.clone();
        self.append(ToolStart { turn, step, call_id }, Vec::new());
    }

    fn start_body(&mut self, at: usize) {
        let (turn, step) = self.place();
        let op = self.op();
        let Some(tools) = self.tools() else { return };
        tools.running.insert(op, at);
        let call = tools.calls[at].block.clone();
        self.emit(Effect::StartTool { op, turn, step, call });
    }

    pub(super) fn batch_flushed(&mut self) {
        let Some((_, batch)) = self.tools().and_then(|tools| tools.flush.take()) else { return };
        batch.into_iter().for_each(|at| self.start_body(at));
        self.drive_tools();
    }

    fn pool(&self) -> usize {
        self.limits.parallel_tools.max(1) + usize::from(self.broken(Sabotage::PoolOverrun))
    }

    /// Asks about the next call, or settles it. Returns whether there may be more to do at once.
    fn prepare_next(&mut self) -> bool {
        let pool = self.pool();
        let (turn, step) = self.place();
        let Some(tools) = self.tools() else { return false };
        let at = tools.next;
        let alone = tools.busy() == 0 && tools.committed == at;
        let blocked = match tools.lane {
            Lane::Free => tools.busy() >= pool || tools.exclusive.is_some(),
            Lane::NeedsAlone => !alone,
            Lane::Asking { .. } | Lane::Limit { .. } => true,
        };
        if blocked || at == tools.calls.len() {
            return false;
        }
        if tools.calls[at].duplicate {
            tools.next += 1;
            tools.calls[at].outcome = Some(Box::new(notices::synthetic(notices::DUPLICATE)));
            self.announce(at);
            return true;
        }
        let fresh = tools.announced == at;
        if fresh && self.calls_exhausted() {
            return true;
        }
        self.announce(at);
        let op = self.op();
        let Some(tools) = self.tools() else { return false };
        tools.lane = Lane::Asking { op, alone };
        let call = tools.calls[at].block.clone();
        self.emit(Effect::PrepareTool { op, turn, step, call, alone });
        false
    }

    /// Counts one more call of the turn, or asks at the limit.
    fn calls_exhausted(&mut self) -> bool {
        let Some(turn) = &mut self.turn else { return true };
        let Some(limit) = turn.calls_limit.filter(|limit| turn.calls_made >= *limit) else {
            turn.calls_made += 1;
            return false;
        };
        let op = self.reach_limit("tool-calls", limit);
        if let Some(tools) = self.tools() {
            tools.lane = Lane::Limit { op };
        }
        true
    }

    pub(super) fn tool_prepared(&mut self, op: Op, decision: Prepared) {
        let Some(tools) = self.tools() else { return };
        let alone = match tools.lane {
            Lane::Asking { op: awaited, alone } if awaited == op => alone,
            _ => return,
        };
        let at = tools.next;
        tools.lane = Lane::Free;
        tools.next += 1;
        match decision {
            Prepared::Refused(outcome) => tools.calls[at].outcome = Some(outcome),
            Prepared::NeedsAlone if alone => {
                let outcome = notices::synthetic(notices::UNSCHEDULED);
                tools.calls[at].outcome = Some(Box::new(outcome));
            }
            Prepared::Run { parallel: false, .. } | Prepared::NeedsAlone if !alone => {
                tools.next -= 1;
                tools.lane = Lane::NeedsAlone;
            }
            Prepared::Run { parallel, read_only } => {
                if !parallel {
                    tools.exclusive = Some(at);
                }
                if read_only {
                    self.write_start(at);
                    self.start_body(at);
                } else {
                    tools.batch.push(at);
                }
            }
            Prepared::NeedsAlone => {}
        }
        self.drive_tools();
    }

    pub(super) fn tool_finished(&mut self, op: Op, outcome: ToolOutcome) {
        let rerun = self.broken(Sabotage::RerunTool) && outcome.is_error;
        let Some(tools) = self.tools() else { return };
        let Some(at) = tools.running.remove(&op) else { return };
        if rerun && tools.stopped.is_none() {
            return self.start_body(at);
        }
        tools.calls[at].outcome = Some(Box::new(outcome));
        self.drive_tools();
    }

    /// Every call has its result.
    fn finish_tools(&mut self) {
        let Some(tools) = self.tools() else { return };
        let contexts = std::mem::take(&mut tools.contexts);
        let concludes = tools.concludes;
        let contexts = self.admissible(contexts);
        self.put_in(InboxTarget::NextStep, contexts);
        let Some(turn) = &self.turn else { return };
        if turn.closing.is_some() {
            return self.close();
        }
        // Contexts and steering are owed an answer even after a concluding result; `end_step`
        // sees them waiting.
        self.end_step(concludes.then_some(TurnEndReason::Completed));
    }

    /// Contexts as input: what is not input is left out, an id that was used is replaced.
    fn admissible(&self, contexts: Vec<Message>) -> Vec<Message> {
        let made = self.made_id();
        let mut ids = HashSet::new();
        let mut admitted = Vec::new();
        for mut message in contexts {
            message.role = Role::User;
            message.content.retain(|b| !matches!(b, Block::ToolCall(_) | Block::ToolResult(_)));
            if input_problem(&message).is_some() {
                continue;
            }
            let mut count = admitted.len();
            while self.fold.is_used(&message.id) || ids.contains(&message.id) {
                message.id = MessageId::new(format!("{made}.{count}"));
                count += 1;
            }
            ids.insert(message.id.clone());
            admitted.push(message);
        }
        admitted
    }
}

/// The `tool/result` of a call of the open step.
pub(crate) fn result_payload(
    core: &Core,
    call: &ToolCallBlock,
    outcome: ToolOutcome,
) -> ToolResult {
    let (turn, step) = core.place();
    let (session, seq) = (&core.fold.header().id, core.fold.next_seq());
    let message = result_message(session, seq, &call.id, outcome.content, outcome.is_error);
    ToolResult { turn, step, message, error: outcome.error, meta: outcome.meta }
}
