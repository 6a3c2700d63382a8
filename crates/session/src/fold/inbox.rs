//! Waiting input: two queues, and every id that was ever used for input.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use reins_schema::{Block, InboxSpliced, InboxTarget, Message, MessageId, Role, SpliceOutcome};
use serde::{Deserialize, Serialize};

/// The two queues. A claim is not seen here: input leaves when a `user/message` names it or a
/// splice removes it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inbox {
    next_turn: Vec<Message>,
    next_step: Vec<Message>,
    used: Used,
}

/// An inbox as it is stored.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredInbox<'a> {
    next_turn: Cow<'a, [Message]>,
    next_step: Cow<'a, [Message]>,
    used: Vec<Cow<'a, MessageId>>,
}

/// A set of ids that only grows and is cheap to clone: clones share all but the youngest. Each
/// layer is larger than the next one.
#[derive(Clone, Debug, Default)]
struct Used {
    layers: Vec<Arc<HashSet<MessageId>>>,
    youngest: HashSet<MessageId>,
}

/// Ids that a clone copies at most.
const YOUNGEST_MAX: usize = 256;

impl Used {
    fn contains(&self, id: &MessageId) -> bool {
        self.youngest.contains(id) || self.layers.iter().any(|layer| layer.contains(id))
    }

    fn insert(&mut self, id: MessageId) {
        if self.contains(&id) {
            return;
        }
        self.youngest.insert(id);
        if self.youngest.len() >= YOUNGEST_MAX {
            let mut layer = std::mem::take(&mut self.youngest);
            while let Some(last) = self.layers.pop_if(|last| last.len() <= layer.len()) {
                layer.extend(Arc::unwrap_or_clone(last));
            }
            self.layers.push(Arc::new(layer));
        }
    }

    fn len(&self) -> usize {
        self.youngest.len() + self.layers.iter().map(|layer| layer.len()).sum::<usize>()
    }

    fn iter(&self) -> impl Iterator<Item = &MessageId> {
        self.layers.iter().flat_map(|layer| layer.iter()).chain(&self.youngest)
    }
}

impl PartialEq for Used {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|id| other.contains(id))
    }
}

impl From<StoredInbox<'_>> for Inbox {
    fn from(stored: StoredInbox<'_>) -> Self {
        let mut used = Used::default();
        let all: HashSet<_> = stored.used.into_iter().map(Cow::into_owned).collect();
        used.layers.push(Arc::new(all));
        Self {
            next_turn: stored.next_turn.into_owned(),
            next_step: stored.next_step.into_owned(),
            used,
        }
    }
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

    /// What a step takes: all input for the next step, and the turn's first one also a prompt.
    pub(crate) fn claim(&self, first: bool) -> Vec<MessageId> {
        let prompt = self.next_turn.iter().take(usize::from(first));
        self.next_step.iter().chain(prompt).map(|message| message.id.clone()).collect()
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

    pub(super) fn stored(&self) -> StoredInbox<'_> {
        StoredInbox {
            next_turn: Cow::Borrowed(&self.next_turn),
            next_step: Cow::Borrowed(&self.next_step),
            used: self.used.iter().map(Cow::Borrowed).collect(),
        }
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
        for message in &splice.inserted {
            self.used.insert(message.id.clone());
        }
        let queue = match splice.target {
            InboxTarget::NextTurn => &mut self.next_turn,
            InboxTarget::NextStep => &mut self.next_step,
        };
        let at = splice.at.and_then(|at| usize::try_from(at).ok()).unwrap_or(queue.len());
        queue.splice(at..at, splice.inserted);
        Ok(())
    }

    /// Of these entries, each that waits, once.
    pub(super) fn keep_waiting(&self, ids: &mut Vec<MessageId>) {
        let mut kept = HashSet::new();
        ids.retain(|id| self.find(id).is_some() && kept.insert(id.clone()));
    }

    /// What of a splice can be done where other input is lost.
    pub(super) fn fitting(&self, mut splice: InboxSpliced) -> InboxSpliced {
        self.keep_waiting(&mut splice.removed);
        let removed: HashSet<&MessageId> = splice.removed.iter().collect();
        let mut inserted = HashSet::new();
        splice.inserted.retain(|message| {
            let is_free = !self.is_used(&message.id) || removed.contains(&message.id);
            input_problem(message).is_none() && is_free && inserted.insert(message.id.clone())
        });
        let queue = self.queue(splice.target);
        let room = queue.iter().filter(|message| !removed.contains(&message.id)).count() as u64;
        splice.at = splice.at.map(|at| at.min(room));
        let leaves = removed.iter().any(|id| !inserted.contains(*id));
        splice.outcome = leaves.then(|| splice.outcome.unwrap_or(SpliceOutcome::Dropped));
        splice
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
