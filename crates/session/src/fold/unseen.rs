//! Input that has entered in an event that is lost. It waits in what is left of the log, and would
//! enter a second time; so it is put where it must have entered, when a later event proves that.

use reins_schema::{Event, MessageId, Payload, Purpose, SurfaceOp};

use super::Fold;

impl Fold {
    /// Whether an event may be such a proof: [`Fold::apply_or_set_aside`] then folds more than
    /// [`Fold::apply`] does.
    pub fn may_prove_unseen(&self, event: &Event) -> bool {
        let may_prove = matches!(event.body.kind.as_str(), "request/sent" | "user/message");
        may_prove && self.loss.has_doubts()
    }

    /// Before an event is folded that may be such a proof.
    pub(super) fn look_for_unseen(&mut self, event: &Event) {
        if !self.may_prove_unseen(event) {
            return;
        }
        match Payload::read(&event.body) {
            Ok(Payload::RequestSent(p)) if p.purpose == Purpose::Turn => {
                let is_open = self.turns.in_turn(p.turn).is_ok();
                if is_open && self.open_step().is_some_and(|step| step.number == p.step) {
                    self.claimed_unseen();
                }
            }
            Ok(Payload::UserMessage(p))
                if event.body.surface == Some(SurfaceOp::Append)
                    && self.turns.before_request().is_ok() =>
            {
                self.passed_unseen(&p.inbox);
            }
            _ => {}
        }
    }

    /// The first request of the open step leaves. The step has claimed one prompt, when it is its
    /// turn's first, and all input for the next step.
    pub(super) fn claimed_unseen(&mut self) {
        let Some(turn) = self.open_turn() else { return };
        let Some(step) = turn.step().filter(|step| step.attempt == 0) else { return };
        let wants_prompt = step.number == 1 && !step.prompted;
        let claimed = turn.claimed.clone();
        let mut claimed = claimed.unwrap_or_else(|| self.inbox.claim(wants_prompt));
        claimed.retain(|id| self.loss.doubts(id));
        self.enter_unseen(claimed);
    }

    /// These enter. Prompts are claimed in their order, so those before have entered.
    pub(super) fn passed_unseen(&mut self, entering: &[MessageId]) {
        let waiting = self.inbox.next_turn();
        let passed = waiting.iter().position(|message| entering.contains(&message.id));
        let passed = waiting[..passed.unwrap_or(0)].iter().map(|message| &message.id);
        let passed = passed.filter(|id| self.loss.doubts(id)).cloned().collect();
        self.enter_unseen(passed);
    }

    fn enter_unseen(&mut self, ids: Vec<MessageId>) {
        if !self.unanswered().is_empty() {
            return;
        }
        if self.loss.unexplained() < ids.len() as u64 {
            // One message has taken them all.
            return self.enter_at_lost_number(&ids);
        }
        for id in ids {
            self.enter_at_lost_number(&[id]);
        }
    }

    fn enter_at_lost_number(&mut self, ids: &[MessageId]) {
        let mut messages = ids.iter().filter_map(|id| self.inbox.get(id)).cloned();
        let Some(mut message) = messages.next() else { return };
        message.content.extend(messages.flat_map(|message| message.content));
        let after = self.surface.nodes().last().map_or(0, |node| node.seq);
        if let Some(at) = self.loss.take_unexplained(after) {
            self.append_input(at, message, ids);
        }
    }
}
