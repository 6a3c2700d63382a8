//! Closing what an ended process left open. Repair is itself appended.

use reins_schema::{CallId, SessionRepaired, SourceRange, StepEnd, TurnEnd, TurnEndReason};

use crate::fold::OpenCall;
use crate::machine::{Core, result_payload};
use crate::notices;
use crate::sabotage::Sabotage;

impl Core {
    /// Answers every open call of the open step, then ends step and turn as interrupted.
    pub(crate) fn repair(&mut self) {
        let Some(turn) = self.fold.open_turn() else { return };
        let number = turn.number();
        let step = turn.step().map(|step| (step.number(), step.answer()));
        let mut outcome_unknown = Vec::new();
        let mut not_started = Vec::new();
        if let Some((step, answer)) = step {
            self.repair_calls(answer, &mut outcome_unknown, &mut not_started);
            self.append(StepEnd { turn: number, step }, Vec::new());
        }
        let reason = TurnEndReason::Interrupted;
        self.append(TurnEnd { turn: number, reason }, Vec::new());
        let repaired = SessionRepaired { turn: number, outcome_unknown, not_started };
        self.append(repaired, Vec::new());
    }

    fn repair_calls(
        &mut self,
        answer: Option<u64>,
        outcome_unknown: &mut Vec<CallId>,
        not_started: &mut Vec<CallId>,
    ) {
        let may_have_started =
            |open: &OpenCall| self.fold.open_step().is_some_and(|step| step.may_have_started(open));
        let open = self.fold.unanswered().iter();
        let mut open: Vec<_> = open.map(|open| (open.clone(), may_have_started(open))).collect();
        if self.broken(Sabotage::ForgetRepair) {
            open.pop();
        }
        for (open, may_have_started) in open {
            let id = open.call.id.clone();
            let notice = if may_have_started {
                outcome_unknown.push(id);
                notices::OUTCOME_UNKNOWN
            } else {
                not_started.push(id);
                notices::NOT_STARTED
            };
            let cited = [open.call_seq.or(answer), open.start_seq];
            let sources = cited.into_iter().flatten().map(SourceRange::One).collect();
            let result = result_payload(self, &open.call, notices::synthetic(notice));
            self.append(result, sources);
        }
    }
}
