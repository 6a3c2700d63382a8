//! A fold as text, so that a log need not be read from its beginning. Derived and disposable: what
//! does not read back is folded again.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_schema::{Event, Header, Message, RequestContext, RequestHeader, RequestSent, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::inbox::{Inbox, StoredInbox};
use super::known::{Foreign, KnownTypes, Required};
use super::mend::Loss;
use super::surface::{Node, NodeKind, ResultFacts, Surface, result_block};
use super::turns::Turns;
use super::{Fold, LAST_NUMBER};

/// Grows whenever the text means something else.
const VERSION: u32 = 1;

/// Why a text is no snapshot of a fold that can be used here. The log says the same and more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Written by another version of Reins.
    #[error("the snapshot has version {0}, not {VERSION}; fold the log from its beginning")]
    Version(u32),
    /// It is not what [`Fold::snapshot`] writes.
    #[error("the snapshot cannot be read: {0}; fold the log from its beginning")]
    Shape(String),
    /// It reads well and breaks a rule of every fold.
    #[error("the snapshot contradicts itself: {0}; fold the log from its beginning")]
    Rule(String),
    /// A plugin wants the last event of a type that nobody wanted then.
    #[error("the snapshot lacks the last `{0}`; fold the log from its beginning")]
    Kept(String),
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

/// All of a fold but what its caller knows: header and known types.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    v: u32,
    next_seq: u64,
    cwd: Cow<'a, Path>,
    kept: BTreeMap<String, Option<Box<RawValue>>>,
    required: Cow<'a, BTreeMap<String, Vec<Required>>>,
    generation: u64,
    surface: Vec<StoredNode<'a>>,
    inbox: StoredInbox<'a>,
    turns: Cow<'a, Turns>,
    request_header: Cow<'a, Option<RequestHeader>>,
    request_context: Cow<'a, Option<RequestContext>>,
    last_sent: Cow<'a, [Option<RequestSent>; 3]>,
    usage: Usage,
    told: BTreeMap<String, Cow<'a, Message>>,
    loss: Cow<'a, Loss>,
}

#[derive(Serialize, Deserialize)]
struct StoredNode<'a> {
    seq: u64,
    kind: NodeKind,
    message: Cow<'a, Message>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    facts: Option<Cow<'a, ResultFacts>>,
}

impl<'a> StoredNode<'a> {
    fn of(node: &'a Node) -> Self {
        Self {
            seq: node.seq,
            kind: node.kind,
            message: Cow::Borrowed(node.message.as_ref()),
            facts: node.facts.as_deref().map(Cow::Borrowed),
        }
    }
}

impl Fold {
    /// The fold as text, for [`Fold::restore`]. Linear in the surface and in the ids of input.
    ///
    /// # Errors
    /// Something of it is no JSON.
    pub fn snapshot(&self) -> Result<String, SnapshotError> {
        let shape = |problem: String| SnapshotError::Shape(problem);
        let mut kept = BTreeMap::new();
        for (kind, last) in self.foreign.kept_from_the_first() {
            let line = last.map(line_of).transpose().map_err(shape)?;
            kept.insert(kind.to_owned(), line);
        }
        let stored = Stored {
            v: VERSION,
            next_seq: self.next_seq,
            cwd: Cow::Borrowed(&self.cwd),
            kept,
            required: Cow::Borrowed(self.foreign.required()),
            generation: self.surface.generation(),
            surface: self.surface.nodes().iter().map(StoredNode::of).collect(),
            inbox: self.inbox.stored(),
            turns: Cow::Borrowed(&self.turns),
            request_header: Cow::Borrowed(&self.request_header),
            request_context: Cow::Borrowed(&self.request_context),
            last_sent: Cow::Borrowed(&self.last_sent),
            usage: self.usage,
            told: self.told.iter().map(|(k, m)| (k.clone(), Cow::Borrowed(m.as_ref()))).collect(),
            loss: Cow::Borrowed(&self.loss),
        };
        serde_json::to_string(&stored).map_err(|problem| shape(problem.to_string()))
    }

    /// The fold that a text was made of, under the types that are known now. The caller knows that
    /// it was made of this log.
    ///
    /// # Errors
    /// The text is damaged or old, or does not hold what a type that is known now wants kept.
    pub fn restore(header: Header, known: KnownTypes, text: &str) -> Result<Self, SnapshotError> {
        let shape = |problem: serde_json::Error| SnapshotError::Shape(problem.to_string());
        let Version { v } = serde_json::from_str(text).map_err(shape)?;
        if v != VERSION {
            return Err(SnapshotError::Version(v));
        }
        let stored: Stored<'_> = serde_json::from_str(text).map_err(shape)?;
        if let Some(kind) = known.kept().find(|kind| !stored.kept.contains_key(*kind)) {
            return Err(SnapshotError::Kept(kind.to_owned()));
        }
        let fold = stored.fold(header, known)?;
        fold.whole().map_err(SnapshotError::Rule)?;
        Ok(fold)
    }

    /// What the methods of a fold rely on, beside the rules that each event keeps.
    fn whole(&self) -> Result<(), String> {
        let must = |holds: bool, text: &str| if holds { Ok(()) } else { Err(text.to_owned()) };
        must(self.next_seq <= LAST_NUMBER, "no log has so many events")?;
        for node in self.surface.nodes() {
            must(node.seq < self.next_seq, "a node is an event of the log")?;
            let is_result = node.kind == NodeKind::ToolResult;
            must(is_result == node.facts.is_some(), "a result has facts")?;
            must(!is_result || result_block(&node.message).is_some(), "a result answers a call")?;
        }
        if let Some(step) = self.open_step() {
            let stands = step.answer().is_some_and(|seq| self.surface.position(seq).is_some());
            must(step.calls().is_empty() || stands, "an answer stands on the surface")?;
        }
        must(self.loss.holds(self.next_seq), "lost numbers are numbers of the log")?;
        crate::invariants::check(self)
    }
}

impl Stored<'_> {
    fn fold(self, header: Header, known: KnownTypes) -> Result<Fold, SnapshotError> {
        let mut kept = BTreeMap::new();
        for (kind, line) in self.kept {
            let last = line.map(|line| event_of(&line)).transpose()?;
            kept.insert(kind, last);
        }
        let nodes = self.surface.into_iter().map(|node| Node {
            seq: node.seq,
            kind: node.kind,
            message: Arc::new(node.message.into_owned()),
            facts: node.facts.map(|facts| Arc::new(facts.into_owned())),
        });
        let nodes: Vec<Node> = nodes.collect();
        // A plugin's snapshot mostly stands on the surface still.
        let by_id: HashMap<_, _> = nodes.iter().map(|node| (&node.message.id, node)).collect();
        let shared = |message: Message| match by_id.get(&message.id) {
            Some(node) if *node.message == message => Arc::clone(&node.message),
            _ => Arc::new(message),
        };
        let told = self.told.into_iter();
        let told = told.map(|(plugin, m)| (plugin, shared(m.into_owned()))).collect();
        drop(by_id);
        let mut turns = self.turns.into_owned();
        turns.complete().map_err(SnapshotError::Rule)?;
        Ok(Fold {
            header,
            cwd: PathBuf::from(self.cwd),
            foreign: Foreign::stored(known, kept, self.required.into_owned()),
            next_seq: self.next_seq,
            surface: Surface::of(nodes, self.generation),
            inbox: Inbox::from(self.inbox),
            turns,
            request_header: self.request_header.into_owned(),
            request_context: self.request_context.into_owned(),
            last_sent: self.last_sent.into_owned(),
            usage: self.usage,
            told,
            loss: self.loss.into_owned(),
        })
    }
}

fn line_of(event: &Event) -> Result<Box<RawValue>, String> {
    let (line, _) = event.encode().map_err(|problem| problem.to_string())?;
    let text = String::from_utf8(line).map_err(|problem| problem.to_string())?;
    RawValue::from_string(text.trim_end().to_owned()).map_err(|problem| problem.to_string())
}

fn event_of(line: &RawValue) -> Result<Arc<Event>, SnapshotError> {
    let read = Event::decode(line.get().as_bytes());
    let (event, _) = read.map_err(|problem| SnapshotError::Shape(problem.to_string()))?;
    Ok(Arc::new(event))
}
