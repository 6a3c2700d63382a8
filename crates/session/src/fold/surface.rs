//! What the model sees: the ordered message-producing events that no replace has shadowed.

use std::collections::HashMap;
use std::sync::Arc;

use reins_schema::{
    AssistantMessage, Block, CallId, Event, FinishReason, Message, MessageId, Role, SessionId,
    Source, SourceRange, SurfaceOp, ToolResult, ToolResultBlock, UserMessage,
};
use serde::{Deserialize, Serialize};

use super::{Fold, cites, input_problem};

/// The form of a plugin's message that says how things are now; the last one counts.
const SNAPSHOT: &str = "snapshot";

/// What a node of the surface is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    /// Of a result: what stands beside its message. A replace must not change it.
    pub(super) facts: Option<Arc<ResultFacts>>,
}

/// What a result says beside its message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ResultFacts {
    turn: u64,
    step: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// CRC-32C of the text of `meta`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    meta: Option<u32>,
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

    /// The surface of nodes that were stored, after so many replaces.
    pub(super) fn of(nodes: Vec<Node>, generation: u64) -> Self {
        let mut surface = Self { nodes, places: HashMap::new(), generation };
        surface.place_from(0);
        surface
    }

    fn append(&mut self, node: Node) {
        self.places.insert(node.seq, self.nodes.len());
        self.nodes.push(node);
    }

    fn place_from(&mut self, first: usize) {
        for (at, node) in self.nodes.iter().enumerate().skip(first) {
            self.places.insert(node.seq, at);
        }
    }

    /// A result that stands at a number without a folded event.
    pub(super) fn append_result(&mut self, seq: u64, p: ToolResult) {
        let facts = facts(&p);
        self.append(node(seq, NodeKind::ToolResult, p.message, Some(facts)));
    }

    /// Takes off what stands from this node on; returns the numbers.
    pub(super) fn cut(&mut self, seq: u64) -> Vec<u64> {
        let Some(at) = self.position(seq) else { return Vec::new() };
        let gone: Vec<u64> = self.nodes.drain(at..).map(|node| node.seq).collect();
        for seq in &gone {
            self.places.remove(seq);
        }
        self.generation += 1;
        gone
    }

    fn insert(&mut self, at: usize, node: Node) {
        self.nodes.insert(at, node);
        self.place_from(at);
        self.generation += 1;
    }

    fn is_result(&self, at: usize) -> bool {
        self.nodes.get(at).is_some_and(|node| node.kind == NodeKind::ToolResult)
    }

    /// What is left of a span that a replace shadows: from the first to the last current node that
    /// it names or cites, whole calls with results, but nothing that is owed.
    pub(super) fn left_of(
        &self,
        ends: (u64, u64),
        sources: &[SourceRange],
        owed_from: Option<usize>,
    ) -> Option<Vec<u64>> {
        let end = owed_from.unwrap_or(self.nodes.len());
        let cited =
            |node: &Node| node.seq == ends.0 || node.seq == ends.1 || cites(sources, node.seq);
        let meant = |node: &Node| node.kind != NodeKind::ToolResult && cited(node);
        let first = self.nodes[..end].iter().position(meant)?;
        // What stands between was shadowed by something that is lost; what is younger stands there
        // only because it is itself at a number of the past.
        let youngest = sources.last().map_or(ends.1, |source| source.bounds().1.max(ends.1));
        let run = self.nodes[first..end].iter().take_while(|node| {
            node.kind == NodeKind::ToolResult || cited(node) || node.seq <= youngest
        });
        let mut run: Vec<&Node> = run.collect();
        let last = run.iter().rposition(|node| meant(node))?;
        let results = run[last + 1..].iter().take_while(|node| node.kind == NodeKind::ToolResult);
        run.truncate(last + 1 + results.count());
        Some(run.iter().map(|node| node.seq).collect())
    }

    /// Where something stands that replaced a span of which nothing is left.
    fn place_of(&self, ends: (u64, u64), owed_from: Option<usize>) -> usize {
        let end = owed_from.unwrap_or(self.nodes.len());
        let before = self.nodes[..end].iter().rposition(|node| node.seq <= ends.1);
        let mut at = before.map_or(0, |at| at + 1);
        while at < end && self.is_result(at) {
            at += 1;
        }
        at
    }

    /// Puts another content of the same call in place of a result.
    pub(super) fn replace_result(
        &mut self,
        old: u64,
        seq: u64,
        p: ToolResult,
    ) -> Result<(), String> {
        let call = |message: &Message| result_block(message).map(|b| b.tool_call_id.clone());
        let new = call(&p.message).ok_or("not a message with exactly one result")?;
        let at = self.position(old).filter(|at| call(&self.nodes[*at].message) == Some(new));
        let at = at.ok_or("the result that it replaces is not on the surface")?;
        let facts = facts(&p);
        self.replace(at, at, node(seq, NodeKind::ToolResult, p.message, Some(facts)));
        Ok(())
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
        let node = node(event.seq, NodeKind::User, p.message, None);
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
        self.entered(message, &p.inbox);
        Ok(())
    }

    /// Input that enters at a number without a folded event.
    pub(super) fn append_input(&mut self, seq: u64, message: Message, inbox: &[MessageId]) {
        let node = node(seq, NodeKind::User, message, None);
        let message = Arc::clone(&node.message);
        self.surface.append(node);
        self.entered(message, inbox);
    }

    /// What a message of a user changes beside the surface.
    fn entered(&mut self, message: Arc<Message>, inbox: &[MessageId]) {
        let prompts = self.inbox.next_turn();
        if prompts.iter().any(|prompt| inbox.contains(&prompt.id)) {
            self.turns.prompted();
        }
        self.inbox.enter(message.id.clone(), inbox);
        if let Source::Plugin { plugin, form: Some(form) } = &message.source
            && form == SNAPSHOT
        {
            self.told.insert(plugin.clone(), message);
        }
    }

    /// Input that replaced a span of which nothing is left stands where the span stood.
    pub(super) fn insert_input(
        &mut self,
        seq: u64,
        ends: (u64, u64),
        p: UserMessage,
    ) -> Result<(), String> {
        if let Some(problem) = input_problem(&p.message) {
            return Err(problem.to_owned());
        }
        if !p.inbox.is_empty() {
            return Err("a replace takes nothing out of the inbox".to_owned());
        }
        self.inbox.check_entry(&p.message.id, &[])?;
        let node = node(seq, NodeKind::User, p.message, None);
        let message = Arc::clone(&node.message);
        self.surface.insert(self.surface.place_of(ends, self.owed_from()), node);
        self.entered(message, &[]);
        Ok(())
    }

    /// As [`Self::insert_input`], for an answer.
    pub(super) fn insert_answer(
        &mut self,
        seq: u64,
        ends: (u64, u64),
        p: AssistantMessage,
    ) -> Result<(), String> {
        check_answer(&p)?;
        if p.message.calls().next().is_some() {
            return Err("a replacing answer carries no calls".to_owned());
        }
        let at = self.surface.place_of(ends, self.owed_from());
        self.surface.insert(at, node(seq, NodeKind::Assistant, p.message, None));
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
            let node = node(event.seq, NodeKind::Assistant, p.message, None);
            return self.shadow((first, last), &event.body.sources, node);
        }
        self.turns.answered(event.seq, &p)?;
        self.surface.append(node(event.seq, NodeKind::Assistant, p.message, None));
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
            let same =
                old.facts.as_ref() == Some(&facts) && same_but_content(&old.message, &p.message);
            if at != end || old.kind != NodeKind::ToolResult || !same {
                return Err("a result replaces one result, and only its content".to_owned());
            }
            let node = node(event.seq, NodeKind::ToolResult, p.message, Some(facts));
            self.surface.replace(at, at, node);
            return Ok(());
        }
        self.turns.result(p.turn, p.step, &block.tool_call_id)?;
        self.surface.append(node(event.seq, NodeKind::ToolResult, p.message, Some(facts)));
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
        let result = |at: usize| self.surface.is_result(at);
        let owed = last + 1 == self.surface.nodes.len() && !self.unanswered().is_empty();
        if result(first) || result(last + 1) || owed {
            return Err("the span separates a call from its result".to_owned());
        }
        self.surface.replace(first, last, node);
        Ok(())
    }
}

fn node(seq: u64, kind: NodeKind, message: Message, facts: Option<Arc<ResultFacts>>) -> Node {
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

/// The message that answers a call, with an id after its place in the log.
pub(crate) fn result_message(
    session: &SessionId,
    seq: u64,
    call: &CallId,
    content: Vec<Block>,
    is_error: bool,
) -> Message {
    let block = ToolResultBlock { tool_call_id: call.clone(), content, is_error };
    Message {
        id: MessageId::new(format!("{session}/{seq}")),
        role: Role::User,
        content: vec![Block::ToolResult(block)],
        source: Source::Tool { call_id: call.clone() },
    }
}

fn facts(p: &ToolResult) -> Arc<ResultFacts> {
    Arc::new(ResultFacts {
        turn: p.turn,
        step: p.step,
        code: p.error.as_ref().map(|error| error.code.clone()),
        meta: p.meta.as_ref().map(|raw| crc32c::crc32c(raw.get().as_bytes())),
    })
}

fn same_but_content(old: &Message, new: &Message) -> bool {
    let (Some(a), Some(b)) = (result_block(old), result_block(new)) else { return false };
    old.id == new.id
        && old.role == new.role
        && old.source == new.source
        && a.tool_call_id == b.tool_call_id
        && a.is_error == b.is_error
}
