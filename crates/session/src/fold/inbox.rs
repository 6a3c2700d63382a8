//! Waiting input: two queues, and every id that was ever used for input.

use std::collections::HashSet;

use reins_schema::{Block, InboxSpliced, InboxTarget, Message, MessageId, Role};

/// The two queues. A claim is not seen here: input leaves when a `user/message` names it or a
/// splice removes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inbox {
    next_turn: Vec<Message>,
    next_step: Vec<Message>,
    used: HashSet<MessageId>,
}

/// Why a message cannot be input for the model, if so.
pub(crate) fn input_problem(message: &Message) -> Option<&'static str> {
    if message.role != Role::User {
        return Some("input has the role `user`");
    }
    if message.content.iter().any(|b| matches!(b, Block::ToolCall(_) | Block::ToolResult(_))) {
        return Some("input contains no tool calls or results");
    }
    let empty = |block: &Block| matches!(block, Block::Text(text) if text.is_empty());
    if message.content.iter().all(empty) {
        return Some("the message is empty");
    }
    None
}

impl Inbox {
    /// Waits for a turn of its own, oldest first.
    pub fn next_turn(&self) -> &[Message] {
        &self.next_turn
    }

    /// Joins the next step, oldest first.
    pub fn next_step(&self) -> &[Message] {
        &self.next_step
    }

    /// One of the queues.
    pub fn queue(&self, target: InboxTarget) -> &[Message] {
        match target {
            InboxTarget::NextTurn => &self.next_turn,
            InboxTarget::NextStep => &self.next_step,
        }
    }

    /// Messages in both queues.
    pub fn len(&self) -> usize {
        self.next_turn.len() + self.next_step.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where a message waits.
    pub fn find(&self, id: &MessageId) -> Option<(InboxTarget, usize)> {
        let place = |queue: &[Message]| queue.iter().position(|m| &m.id == id);
        if let Some(at) = place(&self.next_step) {
            return Some((InboxTarget::NextStep, at));
        }
        place(&self.next_turn).map(|at| (InboxTarget::NextTurn, at))
    }

    /// A waiting message.
    pub fn get(&self, id: &MessageId) -> Option<&Message> {
        let (target, at) = self.find(id)?;
        self.queue(target).get(at)
    }

    pub(super) fn is_used(&self, id: &MessageId) -> bool {
        self.used.contains(id)
    }

    pub(super) fn forget_waiting(&mut self) {
        self.next_turn.clear();
        self.next_step.clear();
    }

    pub(super) fn splice(&mut self, splice: InboxSpliced) -> Result<(), String> {
        self.check_splice(&splice)?;
        for id in &splice.removed {
            self.remove(id);
        }
        self.used.extend(splice.inserted.iter().map(|m| m.id.clone()));
        let queue = match splice.target {
            InboxTarget::NextTurn => &mut self.next_turn,
            InboxTarget::NextStep => &mut self.next_step,
        };
        let at = splice.at.and_then(|at| usize::try_from(at).ok()).unwrap_or(queue.len());
        queue.splice(at..at, splice.inserted);
        Ok(())
    }

    fn check_splice(&self, splice: &InboxSpliced) -> Result<(), String> {
        if splice.inserted.is_empty() && splice.removed.is_empty() {
            return Err("nothing is put in or taken out".to_owned());
        }
        let mut removed = HashSet::new();
        let mut room = self.queue(splice.target).len();
        for id in &splice.removed {
            let Some((queue, _)) = self.find(id) else {
                return Err(format!("message `{id}` is not waiting"));
            };
            if !removed.insert(id) {
                return Err(format!("message `{id}` is taken out twice"));
            }
            room -= usize::from(queue == splice.target);
        }
        if splice.at.is_some_and(|at| at > room as u64) {
            return Err(format!("`at` is past the end of the queue, which holds {room}"));
        }
        let mut inserted = HashSet::new();
        for message in &splice.inserted {
            if let Some(problem) = input_problem(message) {
                return Err(format!("message `{}`: {problem}", message.id));
            }
            let moved = removed.remove(&message.id);
            if !inserted.insert(&message.id) || (self.is_used(&message.id) && !moved) {
                return Err(format!("message id `{}` was used before", message.id));
            }
        }
        if removed.is_empty() == splice.outcome.is_some() {
            return Err("an outcome says why input leaves, and stands only then".to_owned());
        }
        Ok(())
    }

    /// Whether a `user/message` with this id may take out these entries.
    pub(super) fn check_entry(&self, id: &MessageId, inbox: &[MessageId]) -> Result<(), String> {
        let mut named = HashSet::new();
        for entry in inbox {
            if self.find(entry).is_none() || !named.insert(entry) {
                return Err(format!("message `{entry}` is not waiting"));
            }
        }
        if self.is_used(id) && !inbox.contains(id) {
            return Err(format!("message id `{id}` was used before"));
        }
        Ok(())
    }

    pub(super) fn enter(&mut self, id: MessageId, inbox: &[MessageId]) {
        for entry in inbox {
            self.remove(entry);
        }
        self.used.insert(id);
    }

    fn remove(&mut self, id: &MessageId) {
        match self.find(id) {
            Some((InboxTarget::NextTurn, at)) => drop(self.next_turn.remove(at)),
            Some((InboxTarget::NextStep, at)) => drop(self.next_step.remove(at)),
            None => {}
        }
    }
}
