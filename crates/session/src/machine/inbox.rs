//! New input and changes of waiting input.

use reins_schema::{InboxSpliced, InboxTarget, Message, MessageId, SpliceOutcome};

use super::Core;
use crate::face::{Effect, QueueEdit, Refusal, Status};
use crate::fold::input_problem;

impl Core {
    pub(super) fn send(&mut self, message: Message, target: InboxTarget, wake: bool) {
        let id = message.id.clone();
        if let Err(refusal) = self.may_enter(&message).and_then(|()| self.has_room()) {
            return self.answer(Effect::SendAnswered { id, result: Err(refusal) });
        }
        let cancelled = self.turn.as_ref().and_then(|turn| turn.cancelled.as_ref());
        let disposed = matches!(cancelled, Some(reins_schema::CancelCause::Disposed));
        let latched = wake && cancelled.is_some() && !disposed;
        let target = if latched { InboxTarget::NextTurn } else { target };
        let seq = self.fold.next_seq();
        self.put_in(target, vec![message]);
        let result = self.closed().map(|()| seq);
        self.answer(Effect::SendAnswered { id, result });
        if wake && self.status == Status::Idle {
            self.begin_turn();
        } else if wake && !disposed {
            self.wake = true;
        }
    }

    fn may_enter(&self, message: &Message) -> Result<(), Refusal> {
        self.closed()?;
        if let Some(problem) = input_problem(message) {
            return Err(Refusal(format!("message `{}` is not taken: {problem}", message.id)));
        }
        if self.fold.is_used(&message.id) {
            return Err(Refusal(format!("message id `{}` was used before", message.id)));
        }
        Ok(())
    }

    fn has_room(&self) -> Result<(), Refusal> {
        let (waiting, limit) = (self.fold.inbox().len(), self.limits.inbox);
        if waiting < limit {
            return Ok(());
        }
        Err(Refusal(format!(
            "{waiting} messages wait already and the limit is {limit}; remove some or wait for the \
             agent"
        )))
    }

    pub(super) fn edit(&mut self, edit: QueueEdit) {
        let spliced = self.closed().and_then(|()| self.edited(edit));
        let result = match spliced {
            Ok(splices) => {
                for splice in splices {
                    self.append(splice, Vec::new());
                }
                Ok(())
            }
            Err(refusal) => Err(refusal),
        };
        self.answer(Effect::EditAnswered { result });
    }

    /// The splices of an edit. Replace and move are one splice, so that no crash can fall between
    /// taking out and putting in.
    fn edited(&self, edit: QueueEdit) -> Result<Vec<InboxSpliced>, Refusal> {
        let canceled = Some(SpliceOutcome::Canceled);
        match edit {
            QueueEdit::Remove(id) => {
                let (target, _) = self.editable(&id)?;
                let removed = vec![id];
                let inserted = Vec::new();
                let outcome = canceled;
                Ok(vec![InboxSpliced { target, at: None, inserted, removed, outcome }])
            }
            QueueEdit::Replace(id, message) => {
                let (target, at) = self.editable(&id)?;
                let kept = message.id == id;
                match input_problem(&message) {
                    Some(problem) => return Err(Refusal(problem.to_owned())),
                    None if kept => {}
                    None => self.may_enter(&message)?,
                }
                let outcome = canceled.filter(|_| !kept);
                let (inserted, removed) = (vec![*message], vec![id]);
                let at = Some(at as u64);
                Ok(vec![InboxSpliced { target, at, inserted, removed, outcome }])
            }
            QueueEdit::Move { id, target, at } => {
                let (from, _) = self.editable(&id)?;
                let Some(message) = self.fold.inbox().get(&id).cloned() else {
                    return Err(Refusal(format!("message `{id}` is not waiting")));
                };
                let room = self.fold.inbox().queue(target).len() - usize::from(from == target);
                let at = Some(at.min(room as u64));
                let (inserted, removed) = (vec![message], vec![id]);
                Ok(vec![InboxSpliced { target, at, inserted, removed, outcome: None }])
            }
            QueueEdit::Clear => Ok(self.cleared()),
        }
    }

    fn editable(&self, id: &MessageId) -> Result<(InboxTarget, usize), Refusal> {
        let Some(place) = self.fold.inbox().find(id) else {
            return Err(Refusal(format!("message `{id}` is not waiting")));
        };
        if self.claimed().contains(id) {
            return Err(Refusal(format!("message `{id}` was already taken by the running turn")));
        }
        Ok(place)
    }

    fn cleared(&self) -> Vec<InboxSpliced> {
        let splices = [InboxTarget::NextStep, InboxTarget::NextTurn].map(|target| {
            let ids = self.fold.inbox().queue(target).iter().map(|m| &m.id);
            let removed = ids.filter(|id| !self.claimed().contains(id)).cloned().collect();
            let outcome = Some(SpliceOutcome::Canceled);
            InboxSpliced { target, at: None, inserted: Vec::new(), removed, outcome }
        });
        splices.into_iter().filter(|splice| !splice.removed.is_empty()).collect()
    }
}
