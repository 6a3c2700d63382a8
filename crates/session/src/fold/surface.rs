//! What the model sees: the ordered message-producing events that no replace has shadowed.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use reins_schema::{
    AssistantMessage, Block, Event, FinishReason, Message, Role, Source, SourceRange, SurfaceOp,
    ToolResult, ToolResultBlock, UserMessage,
};

use super::{Fold, cites, input_problem};

/// The form of a plugin's message that says how things are now; the last one counts.
const SNAPSHOT: &str = "snapshot";

/// What a node of the surface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// `user/message`
    User,
    /// `assistant/message`
    Assistant,
    /// `tool/result`
    ToolResult,
}

/// One message that the model sees.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The event it comes from.
    pub seq: u64,
    /// What it is.
    pub kind: NodeKind,
    /// The message.
    pub message: Arc<Message>,
    /// Hash of a result's facts beside its message: a replace must not change them.
    facts: u64,
}

/// The nodes in the order in which the model reads them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surface {
    nodes: Vec<Node>,
    places: HashMap<u64, usize>,
    generation: u64,
}

impl Surface {
    /// The nodes in order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// How many replaces there were; while it is unchanged the surface only grew at its end.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Where a current node stands.
    pub fn position(&self, seq: u64) -> Option<usize> {
        self.places.get(&seq).copied()
    }

    fn append(&mut self, node: Node) {
        self.places.insert(node.seq, self.nodes.len());
        self.nodes.push(node);
    }

    fn replace(&mut self, first: usize, last: usize, node: Node) {
        for shadowed in self.nodes.splice(first..=last, [node]) {
            self.places.remove(&shadowed.seq);
        }
        // Only what moved: a one-for-one replace moves nothing.
        let moved = if first == last { first + 1 } else { self.nodes.len() };
        for (at, node) in self.nodes[first..moved].iter().enumerate() {
            self.places.insert(node.seq, first + at);
        }
        self.generation += 1;
    }

    /// The places of a replace's ends, when both are current and every node between is cited.
    fn span(&self, ends: (u64, u64), sources: &[SourceRange]) -> Result<(usize, usize), String> {
        let place = |seq: u64| {
            self.position(seq).ok_or_else(|| format!("event {seq} is not on the surface"))
        };
        let (first, last) = (place(ends.0)?, place(ends.1)?);
        if first > last {
            return Err(format!("event {} stands after event {}", ends.0, ends.1));
        }
        let uncited = self.nodes[first..=last].iter().find(|node| !cites(sources, node.seq));
        if let Some(node) = uncited {
            return Err(format!("`sources` lack the shadowed event {}", node.seq));
        }
        Ok((first, last))
    }
}

impl Fold {
    pub(super) fn user_message(&mut self, event: &Event, p: UserMessage) -> Result<(), String> {
        if let Some(problem) = input_problem(&p.message) {
            return Err(problem.to_owned());
        }
        self.inbox.check_entry(&p.message.id, &p.inbox)?;
        let id = p.message.id.clone();
        let node = node(event.seq, NodeKind::User, p.message, 0);
        let message = Arc::clone(&node.message);
        match event.body.surface {
            Some(SurfaceOp::Replace(first, last)) => {
                if !p.inbox.is_empty() {
                    return Err("a replace takes nothing out of the inbox".to_owned());
                }
                self.shadow((first, last), &event.body.sources, node)?;
            }
            _ => {
                self.turns.before_request()?;
                self.surface.append(node);
            }
        }
        self.inbox.enter(id, &p.inbox);
        if let Source::Plugin { plugin, form: Some(form) } = &message.source
            && form == SNAPSHOT
        {
            self.told.insert(plugin.clone(), message);
        }
        Ok(())
    }

    pub(super) fn assistant_message(
        &mut self,
        event: &Event,
        p: AssistantMessage,
    ) -> Result<(), String> {
        check_answer(&p)?;
        if let Some(SurfaceOp::Replace(first, last)) = event.body.surface {
            if p.message.calls().next().is_some() {
                return Err("a replacing answer carries no calls".to_owned());
            }
            let node = node(event.seq, NodeKind::Assistant, p.message, 0);
            return self.shadow((first, last), &event.body.sources, node);
        }
        self.turns.answered(event.seq, &p)?;
        self.surface.append(node(event.seq, NodeKind::Assistant, p.message, 0));
        self.spend(p.usage);
        Ok(())
    }

    pub(super) fn tool_result(&mut self, event: &Event, p: ToolResult) -> Result<(), String> {
        let block = result_block(&p.message).ok_or("not a message with exactly one result")?;
        let source = matches!(&p.message.source, Source::Tool { call_id } if
            *call_id == block.tool_call_id);
        if p.message.role != Role::User || !source {
            return Err("a result is a user message from the tool that it answers".to_owned());
        }
        let facts = facts(&p);
        if let Some(SurfaceOp::Replace(first, last)) = event.body.surface {
            let (at, end) = self.surface.span((first, last), &event.body.sources)?;
            let old = &self.surface.nodes[at];
            let same = old.facts == facts && same_but_content(&old.message, &p.message);
            if at != end || old.kind != NodeKind::ToolResult || !same {
                return Err("a result replaces one result, and only its content".to_owned());
            }
            let node = node(event.seq, NodeKind::ToolResult, p.message, facts);
            self.surface.replace(at, at, node);
            return Ok(());
        }
        self.turns.result(p.turn, p.step, &block.tool_call_id)?;
        self.surface.append(node(event.seq, NodeKind::ToolResult, p.message, facts));
        Ok(())
    }

    /// Puts `node` in place of a span that separates no call from its result.
    fn shadow(
        &mut self,
        ends: (u64, u64),
        sources: &[SourceRange],
        node: Node,
    ) -> Result<(), String> {
        let (first, last) = self.surface.span(ends, sources)?;
        let result =
            |at: usize| self.surface.nodes.get(at).is_some_and(|n| n.kind == NodeKind::ToolResult);
        let owed = last + 1 == self.surface.nodes.len() && !self.unanswered().is_empty();
        if result(first) || result(last + 1) || owed {
            return Err("the span separates a call from its result".to_owned());
        }
        self.surface.replace(first, last, node);
        Ok(())
    }
}

fn node(seq: u64, kind: NodeKind, message: Message, facts: u64) -> Node {
    Node { seq, kind, message: Arc::new(message), facts }
}

fn check_answer(p: &AssistantMessage) -> Result<(), String> {
    let empty = |b: &Block| match b {
        Block::Text(text) | Block::Reasoning(text) => text.is_empty(),
        _ => false,
    };
    if p.message.content.is_empty() || p.message.content.iter().any(empty) {
        return Err("an answer is never empty".to_owned());
    }
    let from_model = matches!(p.message.source, Source::Model { .. });
    if p.message.role != Role::Assistant || !from_model {
        return Err("an answer has the role `assistant` and comes from a model".to_owned());
    }
    let cut = matches!(p.finish, FinishReason::MaxTokens | FinishReason::Aborted);
    if cut && p.message.calls().next().is_some() {
        return Err("a cut answer carries no calls".to_owned());
    }
    Ok(())
}

pub(crate) fn result_block(message: &Message) -> Option<&ToolResultBlock> {
    match message.content.as_slice() {
        [Block::ToolResult(block)] => Some(block),
        _ => None,
    }
}

fn facts(p: &ToolResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    let meta = p.meta.as_ref().map(|raw| raw.get());
    (p.turn, p.step, p.error.as_ref().map(|e| &e.code), meta).hash(&mut hasher);
    hasher.finish()
}

fn same_but_content(old: &Message, new: &Message) -> bool {
    let (Some(a), Some(b)) = (result_block(old), result_block(new)) else { return false };
    old.id == new.id
        && old.role == new.role
        && old.source == new.source
        && a.tool_call_id == b.tool_call_id
        && a.is_error == b.is_error
}
