//! What people, plugins and accidents do, at any moment.

use reins_schema::{
    Block, CancelCause, Draft, InboxTarget, Message, Payload, Purpose, RequestSent, Source,
    SourceRange, SurfaceOp, ToolResult, UserMessage,
};
use reins_session::{
    AttemptOutcome, Input, KnownTypes, LimitAnswer, NodeKind, Op, PreStepDecision, Prepared,
    QueueEdit, RetryDecision, Status,
};
use serde_json::value::RawValue;

use super::world::{Wait, World};
use crate::made;

type Checked = Result<(), String>;

impl World {
    pub(crate) fn act(&mut self) -> Checked {
        self.now += i64::try_from(self.rng.below(12)).unwrap_or(0) - 1;
        if self.core.status() == Status::Dead && self.rng.chance(40) {
            return self.crash();
        }
        match self.rng.below(1000) {
            0..=79 => self.send_some(),
            80..=109 => self.edit_some(),
            110..=129 => self.cancel_some(),
            130..=169 => self.commit_some(),
            170..=194 => self.stale_some(),
            195..=208 => self.crash(),
            209 => self.types_some(),
            210..=211 => self.step(Input::StoreFailed { message: "disk gone".to_owned() }),
            212..=241 => self.limit_some(),
            _ if self.core.status() == Status::Idle => self.send_some(),
            _ => self.answer_one(false),
        }
    }

    pub(crate) fn send_some(&mut self) -> Checked {
        let mut refused = self.core.status() == Status::Dead;
        let mut message = match self.rng.below(40) {
            0 => {
                let id = self.old_id();
                made::message(id.as_str(), "an id that was used")
            }
            _ => {
                let id = self.fresh_id();
                made::message(id.as_str(), id.as_str())
            }
        };
        refused |= self.core.fold().is_used(&message.id);
        if self.rng.below(40) == 0 {
            message.content = vec![Block::Text(String::new())];
            refused = true;
        }
        refused |= self.core.fold().inbox().len() >= self.limits.inbox;
        let target =
            if self.rng.chance(60) { InboxTarget::NextTurn } else { InboxTarget::NextStep };
        let wake = self.rng.chance(75);
        self.step(Input::Send { message, target, wake })?;
        self.answered(!refused)
    }

    fn answered(&self, taken: bool) -> Checked {
        match &self.answer {
            Some(result) if result.is_ok() == taken => Ok(()),
            other => Err(format!("taken should be {taken}: {other:?}")),
        }
    }

    fn edit_some(&mut self) -> Checked {
        let inbox = self.core.fold().inbox();
        let waiting: Vec<_> =
            inbox.next_step().iter().chain(inbox.next_turn()).map(|m| m.id.clone()).collect();
        let id = self.rng.pick(&waiting).cloned().unwrap_or_else(|| made::message("m0", "").id);
        let claimed = self.core.claimed().contains(&id);
        let taken = waiting.contains(&id) && !claimed && self.core.status() != Status::Dead;
        match self.rng.below(8) {
            0 => {
                self.step(Input::EditQueue(QueueEdit::Clear))?;
                self.answered(self.core.status() != Status::Dead)
            }
            1..=2 => {
                self.step(Input::EditQueue(QueueEdit::Remove(id.clone())))?;
                self.answered(taken)
            }
            3..=4 => {
                let same = self.rng.chance(50);
                let new = if same { id.clone() } else { self.fresh_id() };
                let text = format!("edited when {} events stood", self.log.len());
                let message = Box::new(made::message(new.as_str(), &text));
                self.step(Input::EditQueue(QueueEdit::Replace(id, message)))?;
                self.answered(taken)?;
                let there = self.core.fold().inbox().get(&new);
                let edited = there.is_some_and(|m| m.text() == text);
                if edited == taken { Ok(()) } else { Err("a replacement is lost".to_owned()) }
            }
            _ => {
                let target =
                    if self.rng.chance(50) { InboxTarget::NextTurn } else { InboxTarget::NextStep };
                let at = self.rng.below(5) as u64;
                self.step(Input::EditQueue(QueueEdit::Move { id: id.clone(), target, at }))?;
                self.answered(taken)?;
                let place = self.core.fold().inbox().find(&id).map(|(queue, _)| queue);
                let moved = !taken || place == Some(target);
                if moved { Ok(()) } else { Err("a moved message is elsewhere".to_owned()) }
            }
        }
    }

    pub(crate) fn cancel_some(&mut self) -> Checked {
        let cause = match self.rng.below(8) {
            0..=3 => CancelCause::User,
            4 => CancelCause::Parent,
            5 => CancelCause::Disposed,
            _ => CancelCause::Hook { reason: "stop".to_owned() },
        };
        let keep_inbox = self.rng.chance(50);
        self.step(Input::Cancel { cause, keep_inbox })
    }

    /// Without its type a note is refused, with it it is taken again.
    fn types_some(&mut self) -> Checked {
        let (events, dead) = (self.log.len(), self.core.status() == Status::Dead);
        for known in [KnownTypes::default(), made::known()] {
            let taken = known.get(made::NOTE).is_some() && !dead;
            self.step(Input::UseTypes(known))?;
            self.step(Input::Commit { ticket: 7, draft: note(made::NOTE, Some(1)) })?;
            self.answered(taken)?;
        }
        let written = self.log.len() - events;
        if written == usize::from(!dead) { Ok(()) } else { Err("types write events".to_owned()) }
    }

    fn commit_some(&mut self) -> Checked {
        let dead = self.core.status() == Status::Dead;
        let (draft, expected) = match self.rng.below(8) {
            0..=1 => (note(made::NOTE, Some(1)), Some(true)),
            2 => (note("test/unregistered", None), Some(false)),
            3 => (own(), Some(false)),
            4 => (title(), Some(true)),
            5..=6 => self.span(),
            _ => self.shortened(),
        };
        let from = self.log.len();
        self.step(Input::Commit { ticket: 7, draft })?;
        let expected = if dead { Some(false) } else { expected };
        if let Some(taken) = expected {
            self.answered(taken)?;
        }
        let taken = matches!(self.answer, Some(Ok(_)));
        let written = self.log.len() - from;
        if written == usize::from(taken) { Ok(()) } else { Err("a commit is half done".into()) }
    }

    /// A summary in place of a span of the surface; some lack a source.
    fn span(&mut self) -> (Draft, Option<bool>) {
        let nodes = self.core.fold().surface().nodes();
        if nodes.is_empty() {
            return (note("test/unregistered", None), Some(false));
        }
        let (a, b) = (self.rng.below(nodes.len()), self.rng.below(nodes.len()));
        let (first, last) = (a.min(b), a.max(b));
        let mut seqs: Vec<u64> = nodes[first..=last].iter().map(|node| node.seq).collect();
        let ends = (nodes[first].seq, nodes[last].seq);
        seqs.sort_unstable();
        let lacking = self.rng.chance(25);
        if lacking {
            seqs.pop();
        }
        let id = self.fresh_id();
        let message = Message::notice(id, "compaction", "what was said");
        let payload = Payload::from(UserMessage { message, inbox: Vec::new() });
        let sources = seqs.into_iter().map(SourceRange::One).collect();
        let mut draft = payload.draft(sources).unwrap_or_else(|_| note("test/x", None));
        draft.surface = Some(SurfaceOp::Replace(ends.0, ends.1));
        (draft, lacking.then_some(false))
    }

    /// A shorter result in place of one on the surface; some change more than its content.
    fn shortened(&mut self) -> (Draft, Option<bool>) {
        let nodes = self.core.fold().surface().nodes();
        let results: Vec<_> = nodes.iter().filter(|n| n.kind == NodeKind::ToolResult).collect();
        let Some(node) = self.rng.pick(&results) else {
            return (note("test/unregistered", None), Some(false));
        };
        let old = self.log.iter().find(|event| event.seq == node.seq).map(|event| &event.body);
        let Some(Ok(Payload::ToolResult(mut result))) = old.map(Payload::read) else {
            return (note("test/unregistered", None), Some(false));
        };
        let seq = node.seq;
        let more = self.rng.chance(30);
        shorten(&mut result, more);
        let payload = Payload::from(result);
        let mut draft =
            payload.draft(vec![SourceRange::One(seq)]).unwrap_or_else(|_| note("test/x", None));
        draft.surface = Some(SurfaceOp::Replace(seq, seq));
        (draft, Some(!more))
    }

    /// An answer that nobody awaits: to a past or future op, or of the wrong kind.
    fn stale_some(&mut self) -> Checked {
        let op = 1 + self.rng.next() % (self.last_op + 3);
        let kind = self.rng.below(12);
        if self.waits.get(&op).is_some_and(|wait| kind_of(wait) == kind) {
            return Ok(());
        }
        self.cover.count("stale answer");
        let effects = self.core.step(self.now, stale(op, kind));
        if effects.is_empty() { Ok(()) } else { Err(format!("a stale answer has {effects:?}")) }
    }
}

fn shorten(result: &mut ToolResult, more: bool) {
    if let Some(Block::ToolResult(block)) = result.message.content.first_mut() {
        block.content = vec![Block::Text("(shortened)".to_owned())];
        if more {
            block.is_error = !block.is_error;
        }
    }
    if more {
        result.message.source = Source::Tool { call_id: reins_schema::CallId::new("other") };
    }
}

fn note(kind: &str, v: Option<u32>) -> Draft {
    let data = RawValue::from_string("{\"n\":1}".to_owned()).unwrap_or_default();
    Draft { kind: kind.to_owned(), v, data, surface: None, sources: Vec::new(), ignorable: true }
}

/// What only the loop may write.
fn own() -> Draft {
    let payload = Payload::from(reins_schema::TurnStart { turn: 1 });
    payload.draft(Vec::new()).unwrap_or_else(|_| note("test/x", None))
}

fn title() -> Draft {
    let payload = Payload::from(RequestSent {
        turn: 0,
        step: 0,
        attempt: 1,
        purpose: Purpose::Title,
        dialect: "chat".to_owned(),
        renderer: 1,
        items: 1,
        bytes: 1,
        hash: "00".to_owned(),
        shared: 0,
        cause: None,
    });
    payload.draft(Vec::new()).unwrap_or_else(|_| note("test/x", None))
}

fn kind_of(wait: &Wait) -> usize {
    match wait {
        Wait::Flush { .. } => 0,
        Wait::Assemble { .. } => 1,
        Wait::PreStep { .. } => 2,
        Wait::Config => 3,
        Wait::Render => 4,
        Wait::Attempt => 5,
        Wait::Retry => 6,
        Wait::Prepare { .. } => 7,
        Wait::Body { .. } => 8,
        Wait::Stop => 9,
        Wait::Limit { .. } => 10,
        Wait::Clock { .. } => 11,
    }
}

fn stale(op: Op, kind: usize) -> Input {
    match kind {
        0 => Input::Flushed { op, result: Err("stale".to_owned()) },
        1 => Input::Assembled { op, result: Ok(None) },
        2 => Input::PreStepDecided { op, decision: PreStepDecision::Enter(Vec::new()) },
        3 => Input::ConfigDecided { op, result: Ok(made::plan("stale")) },
        4 => Input::Rendered { op, result: Ok(made::facts(1)) },
        5 => {
            let failure = made::failure(reins_schema::FailureCode::Server);
            let outcome = AttemptOutcome::Failed { failure, usage: None };
            Input::AttemptEnded { op, outcome }
        }
        6 => Input::RetryDecided { op, decision: RetryDecision::GiveUp },
        7 => Input::ToolPrepared { op, decision: Prepared::NeedsAlone },
        8 => Input::ToolFinished { op, outcome: made::outcome("stale", None) },
        9 => Input::StopDecided { op },
        10 => Input::LimitAnswered { op, answer: LimitAnswer::Stop },
        _ => Input::Woke { op },
    }
}
