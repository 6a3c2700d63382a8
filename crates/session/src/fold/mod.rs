//! The fold of events: what a log means. Pure and incremental; the same function reads logs back
//! and accepts the core's own events.

mod inbox;
mod known;
mod mend;
mod numbers;
mod snapshot;
mod surface;
mod turns;
mod unseen;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_schema::{
    Event, Header, LimitReached, Message, MessageId, Payload, PayloadError, Purpose,
    RequestContext, RequestHeader, RequestSent, SessionRecovered, SourceRange, Usage,
};

pub use inbox::Inbox;
pub(crate) use inbox::input_problem;
pub use known::{EventType, KnownTypes};
pub use mend::{Applied, Untold};
pub use snapshot::SnapshotError;
pub(crate) use surface::result_message;
pub use surface::{Node, NodeKind, Surface};
pub use turns::{OpenCall, OpenStep, OpenTurn};

use known::Foreign;
use mend::Loss;
use turns::Turns;

/// Numbers beyond are in no log; many readers of JSON would not tell them apart.
const LAST_NUMBER: u64 = 1 << 53;

/// Why an event cannot follow the ones before it. The fold is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FoldError {
    /// A gap or a repetition.
    #[error("event {expected} is expected here, found event {found}")]
    Order {
        /// The number that follows.
        expected: u64,
        /// The event's number.
        found: u64,
    },
    /// The data of a core type has another shape.
    #[error("event {seq}: {problem}")]
    Shape {
        /// The event's number.
        seq: u64,
        /// What is wrong.
        problem: PayloadError,
    },
    /// The event contradicts the events before it.
    #[error("event {seq} `{kind}`: {problem}")]
    Rule {
        /// The event's number.
        seq: u64,
        /// Its type.
        kind: String,
        /// What is wrong.
        problem: String,
    },
}

/// What the events of a log add up to.
#[derive(Clone, Debug, PartialEq)]
pub struct Fold {
    header: Header,
    cwd: PathBuf,
    foreign: Foreign,
    next_seq: u64,
    surface: Surface,
    inbox: Inbox,
    turns: Turns,
    request_header: Option<RequestHeader>,
    request_context: Option<RequestContext>,
    last_sent: [Option<RequestSent>; 3],
    usage: Usage,
    /// The last message in the form `snapshot` of each plugin.
    told: BTreeMap<String, Arc<Message>>,
    loss: Loss,
}

impl Fold {
    /// The meaning of an empty log.
    pub fn new(header: Header, known: KnownTypes) -> Self {
        Self {
            cwd: header.cwd.clone(),
            header,
            foreign: Foreign::new(known),
            next_seq: 0,
            surface: Surface::default(),
            inbox: Inbox::default(),
            turns: Turns::default(),
            request_header: None,
            request_context: None,
            last_sent: [None, None, None],
            usage: Usage::default(),
            told: BTreeMap::new(),
            loss: Loss::default(),
        }
    }

    /// Checks that the event may follow, then folds it.
    ///
    /// # Errors
    /// The event does not follow; nothing is changed.
    pub fn apply(&mut self, event: &Event) -> Result<(), FoldError> {
        if event.seq != self.next_seq {
            return Err(FoldError::Order { expected: self.next_seq, found: event.seq });
        }
        let payload = Payload::read(&event.body)
            .map_err(|problem| FoldError::Shape { seq: event.seq, problem })?;
        let rule = |problem: String| FoldError::Rule {
            seq: event.seq,
            kind: event.body.kind.clone(),
            problem,
        };
        check_sources(event).map_err(rule)?;
        let folded = match payload {
            Payload::Other => self.foreign.take(event),
            payload => self.core(event, payload),
        };
        folded.map_err(rule)?;
        self.next_seq += 1;
        Ok(())
    }

    fn core(&mut self, event: &Event, payload: Payload) -> Result<(), String> {
        let on_surface = Payload::is_surface(&event.body.kind);
        if on_surface != event.body.surface.is_some() {
            let word = if on_surface { "needs" } else { "takes no" };
            return Err(format!("this type {word} `surface`"));
        }
        match payload {
            Payload::TurnStart(p) => {
                self.turns.turn_start(&p)?;
                self.turns.claim(Some(self.inbox.claim(true)));
                Ok(())
            }
            Payload::TurnEnd(p) => self.turns.turn_end(&p),
            Payload::StepStart(p) => self.turns.step_start(&p),
            Payload::StepEnd(p) => {
                let owes = self.open_step().is_some_and(|step| !step.calls().is_empty());
                self.turns.step_end(&p)?;
                // Otherwise the turn may stop, and only a step that follows all the same claims.
                self.turns.claim(owes.then(|| self.inbox.claim(false)));
                Ok(())
            }
            Payload::UserMessage(p) => self.user_message(event, p),
            Payload::AssistantChunk(p) => self.turns.in_attempt(p.turn, p.step, p.attempt),
            Payload::AssistantAttempt(p) => {
                self.turns.attempt_failed(p.turn, p.step, p.attempt)?;
                self.spend(p.usage);
                Ok(())
            }
            Payload::AssistantMessage(p) => self.assistant_message(event, p),
            Payload::ToolCall(p) => self.turns.tool_call(event.seq, &p),
            Payload::ToolStart(p) => self.turns.tool_start(event.seq, &p),
            Payload::ToolResult(p) => self.tool_result(event, p),
            Payload::InboxSpliced(p) => self.inbox.splice(p),
            Payload::RequestHeader(p) => {
                self.turns.before_answer()?;
                self.request_header = Some(p);
                Ok(())
            }
            Payload::RequestContext(p) => {
                self.turns.before_answer()?;
                self.request_context = Some(p);
                Ok(())
            }
            Payload::RequestSent(p) => self.request_sent(p),
            Payload::LlmRetry(p) => self.turns.retry(&p),
            Payload::LlmRetryStarted(p) => self.turns.retry_started(&p),
            Payload::EndSeed(_) => self.end_seed(),
            Payload::LimitReached(p) => self.limit_reached(&p),
            Payload::SessionRecovered(p) => {
                check_told(event.seq, &p)?;
                self.loss.tell(&p);
                Ok(())
            }
            Payload::Other => Ok(()),
            Payload::SessionMoved(p) => {
                self.cwd = p.to;
                Ok(())
            }
            Payload::SessionRepaired(p) => self.turns.repaired(p.turn),
        }
    }

    fn request_sent(&mut self, sent: RequestSent) -> Result<(), String> {
        if sent.purpose == Purpose::Turn {
            self.turns.sent(&sent)?;
            self.loss.since_sent = false;
        }
        let slot = purpose_slot(sent.purpose);
        self.last_sent[slot] = Some(sent);
        Ok(())
    }

    fn limit_reached(&self, limit: &LimitReached) -> Result<(), String> {
        self.turns.in_turn(limit.turn)
    }

    /// A fork inherits what was said, not what was waiting.
    fn end_seed(&mut self) -> Result<(), String> {
        if self.turns.open.is_some() {
            return Err("a seed ends between turns, and a turn is open".to_owned());
        }
        self.inbox.forget_waiting();
        Ok(())
    }

    fn spend(&mut self, usage: Option<Usage>) {
        let Some(more) = usage else { return };
        let sum = &mut self.usage;
        for (total, part) in [
            (&mut sum.input_tokens, more.input_tokens),
            (&mut sum.output_tokens, more.output_tokens),
            (&mut sum.cache_read_tokens, more.cache_read_tokens),
            (&mut sum.cache_write_tokens, more.cache_write_tokens),
            (&mut sum.reasoning_tokens, more.reasoning_tokens),
        ] {
            *total = total.saturating_add(part);
        }
    }

    /// The session's immutable facts.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The directory that the session belongs to now.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// The number of the next event.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// What the model sees now.
    pub fn surface(&self) -> &Surface {
        &self.surface
    }

    /// The last `request/header`.
    pub fn request_header(&self) -> Option<&RequestHeader> {
        self.request_header.as_ref()
    }

    /// The last `request/context`.
    pub fn request_context(&self) -> Option<&RequestContext> {
        self.request_context.as_ref()
    }

    /// The last `request/sent` of a purpose.
    pub fn last_sent(&self, purpose: Purpose) -> Option<&RequestSent> {
        self.last_sent[purpose_slot(purpose)].as_ref()
    }

    /// Waiting input.
    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// The open turn.
    pub fn open_turn(&self) -> Option<&OpenTurn> {
        self.turns.open.as_ref()
    }

    /// The open step of the open turn.
    pub fn open_step(&self) -> Option<&OpenStep> {
        self.turns.open.as_ref().and_then(OpenTurn::step)
    }

    /// The number of the last turn that started; 0 = none yet.
    pub fn last_turn(&self) -> u64 {
        self.turns.last
    }

    /// Calls of the open step that have no result yet, in the model's order.
    pub fn unanswered(&self) -> &[OpenCall] {
        self.open_step().map_or(&[], OpenStep::unanswered)
    }

    /// Tokens of all attempts.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Why nothing may be written to this session, if so.
    pub fn read_only(&self) -> Option<&str> {
        self.foreign.read_only()
    }

    /// Whether a message with this id was ever put into the inbox or the surface as input.
    pub fn is_used(&self, id: &MessageId) -> bool {
        self.inbox.is_used(id)
    }

    /// The event types of other owners that may be written from here on. A type that is missing
    /// among them may make the session read-only, and one that is back lifts that.
    pub(crate) fn use_types(&mut self, known: KnownTypes) {
        self.foreign.use_types(known);
    }

    /// The event types of other owners that may be written.
    pub fn known(&self) -> &KnownTypes {
        self.foreign.known()
    }

    /// The last event of a type that is registered with [`EventType::keep_last`]. Of a type that
    /// was registered while the session was open: the last one since.
    pub fn last_of(&self, kind: &str) -> Option<&Event> {
        self.foreign.last_of(kind)
    }

    /// The last message in the form `snapshot` that a plugin gave to the model, whether or not it
    /// is on the surface still.
    pub fn last_told(&self, plugin: &str) -> Option<&Message> {
        self.told.get(plugin).map(Arc::as_ref)
    }
}

fn purpose_slot(purpose: Purpose) -> usize {
    match purpose {
        Purpose::Turn => 0,
        Purpose::Summary => 1,
        Purpose::Title => 2,
    }
}

/// Sources are earlier events, ascending and without overlap.
fn check_sources(event: &Event) -> Result<(), String> {
    let mut free = 0;
    for source in &event.body.sources {
        let (first, last) = source.bounds();
        if first < free || last < first {
            return Err("`sources` are not ascending without overlap".to_owned());
        }
        if last >= event.seq {
            return Err(format!("source {last} is not an earlier event"));
        }
        free = last + 1;
    }
    Ok(())
}

/// What was found is numbers of earlier events.
fn check_told(seq: u64, told: &SessionRecovered) -> Result<(), String> {
    for range in told.lost.iter().chain(&told.aside) {
        let (first, last) = range.bounds();
        if last < first || last >= seq {
            return Err(format!("{first} to {last} are not numbers of earlier events"));
        }
    }
    Ok(())
}

/// Whether one of the ascending `sources` names `seq`.
fn cites(sources: &[SourceRange], seq: u64) -> bool {
    let at = sources.partition_point(|source| source.bounds().1 < seq);
    sources.get(at).is_some_and(|source| source.contains(seq))
}
