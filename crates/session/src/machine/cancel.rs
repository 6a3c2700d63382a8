//! Cancelling: the first cause wins, the interface is free at once, what runs is awaited.

use reins_schema::{CancelCause, SpliceOutcome, TurnEndReason};

use super::{Core, Phase};
use crate::face::Status;
use crate::sabotage::Sabotage;

impl Core {
    pub(super) fn cancel(&mut self, cause: CancelCause, keep_inbox: bool) {
        if self.fold.read_only().is_some() {
            return;
        }
        self.wake = false;
        if self.turn.is_some() {
            self.set_status(Status::Cancelling);
        }
        if !keep_inbox {
            self.clear_inbox();
        }
        let last_wins = self.broken(Sabotage::LastCauseWins);
        let Some(turn) = &mut self.turn else { return };
        if turn.cancelled.is_none() {
            turn.cancelled = Some(cause.clone());
        }
        if let Phase::Ending { follow, .. } = &mut turn.phase {
            *follow = false;
        } else if turn.closing.is_none() {
            self.wind_down(TurnEndReason::Aborted { cause });
        } else if last_wins {
            turn.closing = Some(TurnEndReason::Aborted { cause });
        }
    }

    /// Everything that waits, with what is claimed but has not entered.
    fn clear_inbox(&mut self) {
        let inbox = self.fold.inbox();
        let waiting = inbox.next_step().iter().chain(inbox.next_turn());
        let mut ids: Vec<_> = waiting.map(|message| message.id.clone()).collect();
        if self.broken(Sabotage::DropCanceledSplice) {
            ids.pop();
        }
        self.remove_input(&ids, SpliceOutcome::Canceled);
    }

    /// Stops what runs and ends the turn, at once or when the started bodies have ended.
    pub(super) fn wind_down(&mut self, reason: TurnEndReason) {
        for effect in self.work() {
            self.emit(effect);
        }
        let Some(turn) = &mut self.turn else { return };
        turn.clock = super::Clock::Off;
        let reason = turn.closing.insert(reason);
        match &mut turn.phase {
            Phase::Streaming(_) => {
                self.keep_partial();
                self.close();
            }
            Phase::Tools(tools) => {
                tools.stop(reason);
                self.drive_tools();
            }
            _ => self.close(),
        }
    }

    /// Ends the step and the turn that are being wound down.
    pub(super) fn close(&mut self) {
        if self.step_number().is_some() {
            self.close_step();
        }
        let reason = self.turn.as_mut().and_then(|turn| turn.closing.take());
        self.finish_turn(reason.unwrap_or(TurnEndReason::Completed));
    }
}
