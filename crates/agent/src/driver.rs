//! The driver: performs what the pure core asks for and feeds the answers back. It decides
//! nothing about order; every wait of the loop is an effect with an answer.

mod effects;
mod request;
mod work;

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reins_schema::{
    CallConfig, CallId, CancelCause, Draft, InboxTarget, Message, MessageId, RequestHeader,
    SessionId,
};
use reins_session::{Core, Effect, Input, Op, OpenTurn, QueueEdit, Refusal, Status, TurnLimits};
use reins_store::Log;
use reins_world::{CancelToken, Clock};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{AbortHandle, JoinSet};

use crate::approvals::Question;
use crate::events::{ApprovalDecided, ChangedRow, CompositionChanged, own_draft};
use crate::factory::known_types;
use crate::observations::Observations;
use crate::pipeline::{ReadyCall, ToolSet};
use crate::place::{CurrentScope, Move, Mover, Place};
use crate::prompt::SectionText;
use crate::provider::{Provider, Rendered, Renderer};

/// What a front end, or work in flight, asks of an agent.
pub(crate) enum Command {
    /// New input.
    Send {
        message: Message,
        target: InboxTarget,
        wake: bool,
        answer: oneshot::Sender<Result<u64, Refusal>>,
    },
    /// A change of waiting input.
    Edit { edit: QueueEdit, answer: oneshot::Sender<Result<(), Refusal>> },
    /// Stop what runs.
    Cancel { cause: CancelCause, keep_inbox: bool },
    /// An event of a registered type.
    Commit {
        draft: Draft,
        /// What the event is to an approval.
        question: Option<Question>,
        answer: oneshot::Sender<Result<u64, Refusal>>,
    },
    /// The model for the next request.
    Model { seed: CallConfig },
    /// Cancel, wait until everything is still, and end.
    Close,
}

/// What a finished piece of work brings back.
pub(crate) enum Done {
    /// An answer for the core.
    Input(Input),
    /// A prepared call, with what its body needs.
    Prepared { input: Input, call_id: CallId, ready: Option<ReadyCall> },
    /// An assembled prompt.
    Assembled { input: Input, sections: Vec<SectionText>, begun: Option<Box<Begun>> },
    /// A resolved request.
    Configured { input: Input, plan: Option<Plan> },
}

impl Done {
    fn input(&self) -> &Input {
        match self {
            Self::Input(input)
            | Self::Prepared { input, .. }
            | Self::Assembled { input, .. }
            | Self::Configured { input, .. } => input,
        }
    }
}

/// What a turn takes at its first step.
pub(crate) struct Begun {
    pub(crate) tools: ToolSet,
    pub(crate) moved: Option<Move>,
}

/// What an attempt needs besides its bytes.
pub(crate) struct Plan {
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) cause: Option<String>,
    /// System prompt or tools are not those of the previous header.
    pub(crate) new_items: bool,
}

/// Limits of the driver itself, from the row `agent-loop`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriverLimits {
    pub(crate) grace: Duration,
    pub(crate) max_result_bytes: usize,
    pub(crate) max_answer_bytes: usize,
}

/// What the driver is given, the same for its whole life.
pub(crate) struct Environment {
    pub(crate) session: SessionId,
    pub(crate) cwd: PathBuf,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: DriverLimits,
    pub(crate) mover: Mover,
    /// The limits that were asked for.
    pub(crate) wish: TurnLimits,
    pub(crate) current_scope: CurrentScope,
    /// Why the agent is dead, for its owner.
    pub(crate) dead: Arc<OnceLock<String>>,
    /// Whether somebody has got the agent.
    pub(crate) published: Arc<AtomicBool>,
}

pub(crate) struct Driver {
    pub(crate) env: Environment,
    pub(crate) place: Place,
    pub(crate) core: Core,
    pub(crate) log: Log,
    pub(crate) ways: Ways,
    pub(crate) status: watch::Sender<Status>,
    pub(crate) work: JoinSet<()>,
    pub(crate) running: HashMap<Op, AbortHandle>,
    pub(crate) bodies: HashMap<Op, CancelToken>,
    pub(crate) ready: HashMap<CallId, ReadyCall>,
    /// Answers that were known at once.
    pub(crate) now: VecDeque<Input>,
    pub(crate) waiting: Waiting,
    pub(crate) turn: TurnState,
    /// The barrier at the end of a turn, while it is waited for.
    pub(crate) turn_end: Option<Op>,
    /// The turn that the lease says is open.
    pub(crate) announced: Option<u64>,
    pub(crate) observations: Observations,
    pub(crate) next_ticket: u64,
    pub(crate) closing: bool,
}

/// On which ways the driver is told of things, each bounded.
pub(crate) struct Ways {
    pub(crate) mailbox: mpsc::Receiver<Command>,
    /// Weak, so that the mailbox closes with its last outside owner.
    pub(crate) mailbox_in: mpsc::WeakSender<Command>,
    pub(crate) done: mpsc::Receiver<Done>,
    pub(crate) done_in: mpsc::Sender<Done>,
    pub(crate) inputs: mpsc::Receiver<Input>,
    pub(crate) inputs_in: mpsc::Sender<Input>,
}

/// Answers that front ends and work in flight are waiting for.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) sends: HashMap<MessageId, oneshot::Sender<Result<u64, Refusal>>>,
    pub(crate) edit: Option<oneshot::Sender<Result<(), Refusal>>>,
    pub(crate) commits: HashMap<u64, oneshot::Sender<Result<u64, Refusal>>>,
    /// By the work that asked: what is logged when it ends without a decision.
    pub(crate) questions: HashMap<Op, ApprovalDecided>,
}

/// What lives from one request to the next.
#[derive(Default)]
pub(crate) struct TurnState {
    pub(crate) seed: CallConfig,
    pub(crate) tools: ToolSet,
    pub(crate) sections: Vec<SectionText>,
    pub(crate) previous_sections: Vec<SectionText>,
    pub(crate) last_facts: Option<String>,
    pub(crate) renderer: Option<(String, Box<dyn Renderer>)>,
    pub(crate) rendered: Option<Rendered>,
    pub(crate) plan: Option<Plan>,
}

impl Driver {
    /// Runs until closed. The store's log is closed at the end.
    pub(crate) async fn run(mut self, opened: Input) {
        self.feed(opened).await;
        loop {
            if self.closing && self.is_still() {
                break;
            }
            tokio::select! {
                // Fair on purpose: a fast stream must not keep a cancel waiting.
                Some(input) = self.ways.inputs.recv() => self.feed(input).await,
                Some(done) = self.ways.done.recv() => self.take(done).await,
                Some(_) = self.work.join_next(), if !self.work.is_empty() => {}
                command = self.ways.mailbox.recv(), if !self.closing => match command {
                    Some(command) => self.obey(command).await,
                    None => self.close().await,
                },
            }
        }
        self.work.shutdown().await;
        self.offer_snapshot();
        if self.env.published.load(Ordering::Acquire) {
            // The log keeps its own first error; `Agent::store_failure` shows it.
            drop(self.log.close().await);
        } else {
            // Whoever wanted the agent is told why there is none, which is the first error; a
            // session that cannot be removed, too, is one without a turn.
            drop(self.log.discard().await);
        }
    }

    fn is_still(&self) -> bool {
        matches!(self.core.status(), Status::Idle | Status::Dead) && self.bodies.is_empty()
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::Send { message, target, wake, answer } => {
                self.waiting.sends.insert(message.id.clone(), answer);
                self.feed(Input::Send { message, target, wake }).await;
            }
            Command::Edit { edit, answer } => {
                self.waiting.edit = Some(answer);
                self.feed(Input::EditQueue(edit)).await;
            }
            Command::Cancel { cause, keep_inbox } => {
                self.feed(Input::Cancel { cause, keep_inbox }).await;
            }
            Command::Commit { draft, question, answer } => {
                if self.note(question) {
                    let ticket = self.ticket();
                    self.waiting.commits.insert(ticket, answer);
                    self.feed(Input::Commit { ticket, draft }).await;
                }
            }
            Command::Model { seed } => self.turn.seed = seed,
            Command::Close => self.close().await,
        }
    }

    fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Whether a question still matters: work that was abandoned asks and decides nothing.
    fn note(&mut self, question: Option<Question>) -> bool {
        match question {
            None => true,
            Some(Question::Asked { op, undecided }) => {
                let asks = self.running.contains_key(&op);
                if asks {
                    self.waiting.questions.insert(op, undecided);
                }
                asks
            }
            Some(Question::Decided { op }) => self.waiting.questions.remove(&op).is_some(),
        }
    }

    /// Forgets work that is over; every question in the log has its decision.
    fn forget(&mut self, op: Op) -> Option<AbortHandle> {
        if let Some(undecided) = self.waiting.questions.remove(&op)
            && let Ok(draft) = own_draft(ApprovalDecided::TYPE, &undecided)
        {
            let ticket = self.ticket();
            self.now.push_back(Input::Commit { ticket, draft });
        }
        self.running.remove(&op)
    }

    async fn close(&mut self) {
        self.closing = true;
        self.ways.mailbox.close();
        self.feed(Input::Cancel { cause: CancelCause::Disposed, keep_inbox: true }).await;
    }

    async fn take(&mut self, done: Done) {
        // Abandoned when its answer was already under way: a turn that was cancelled takes nothing.
        if answered_op(done.input()).is_some_and(|op| !self.running.contains_key(&op)) {
            return;
        }
        let input = match done {
            Done::Input(input) => input,
            Done::Prepared { input, call_id, ready } => {
                if let Some(ready) = ready {
                    self.ready.insert(call_id, ready);
                }
                input
            }
            Done::Assembled { input, sections, begun } => {
                if let Some(begun) = begun {
                    self.begin_turn(*begun).await;
                }
                self.turn.previous_sections = std::mem::replace(&mut self.turn.sections, sections);
                input
            }
            Done::Configured { input, plan } => {
                self.turn.plan = plan;
                input
            }
        };
        self.feed(input).await;
    }

    /// Takes the tools of a turn, and first moves to a newer generation.
    async fn begin_turn(&mut self, begun: Begun) {
        if let Some(moved) = begun.moved {
            self.move_on(moved).await;
        }
        self.turn.tools = begun.tools;
    }

    async fn move_on(&mut self, to: Move) {
        let Move { place, generation, changes } = to;
        let rows = changes.into_iter().map(|change| ChangedRow {
            row: change.row,
            what: change.what.to_owned(),
            place: change.origin.place(),
        });
        let rows: Vec<ChangedRow> = rows.collect();
        match place {
            Ok(place) => {
                let limits = place.limits(self.env.wish);
                self.env.current_scope.set(place.scope.clone());
                let known = known_types(&place.scope);
                self.place = place;
                // Both are of a provider of the old generation.
                self.turn.renderer = None;
                self.turn.plan = None;
                self.feed(Input::UseTypes(known)).await;
                // Else only others see what is different.
                if !rows.is_empty() {
                    self.log_move(CompositionChanged { generation, rows, refused: None }).await;
                }
                self.feed(Input::UseLimits(limits)).await;
            }
            Err(problem) => {
                if self.place.refused.replace(generation) != Some(generation) {
                    let refused = Some(problem);
                    self.log_move(CompositionChanged { generation, rows, refused }).await;
                }
            }
        }
    }

    async fn log_move(&mut self, changed: CompositionChanged) {
        if let Ok(draft) = own_draft(CompositionChanged::TYPE, &changed) {
            let ticket = self.ticket();
            self.feed(Input::Commit { ticket, draft }).await;
        }
    }

    /// One step of the core and everything it asks for, until nothing is known at once.
    async fn feed(&mut self, input: Input) {
        self.now.push_back(input);
        while let Some(input) = self.now.pop_front() {
            self.step(input).await;
        }
    }

    async fn step(&mut self, input: Input) {
        if let Input::Flushed { op, result: Ok(()) } = &input
            && self.turn_end == Some(*op)
        {
            self.offer_snapshot();
        }
        if let Some(op) = answered_op(&input) {
            drop(self.forget(op));
            drop(self.bodies.remove(&op));
        }
        let mut lost: Option<String> = None;
        for effect in self.core.step(self.env.clock.now_ms(), input) {
            let effect = match &lost {
                None => Some(effect),
                Some(message) => after_a_lost_event(effect, message),
            };
            let Some(effect) = effect else { continue };
            if let Err(message) = self.perform(effect).await {
                lost = Some(message.clone());
                self.now.push_front(Input::StoreFailed { message });
            }
        }
        self.announce();
    }

    /// Only between turns: it costs as much as the surface is long.
    fn offer_snapshot(&mut self) {
        self.turn_end = None;
        if self.core.fold().open_turn().is_none() && self.log.wants_snapshot() {
            self.log.offer_snapshot(self.core.fold());
        }
    }

    /// Says in the lease what the agent does, when that has changed.
    fn announce(&mut self) {
        let turn = self.core.fold().open_turn().map(OpenTurn::number);
        if turn != self.announced {
            self.announced = turn;
            let doing = turn.map_or_else(|| "idle".to_owned(), |turn| format!("turn {turn}"));
            self.log.announce(&doing);
        }
    }

    pub(crate) fn last_header(&self) -> Option<&RequestHeader> {
        self.core.fold().request_header()
    }
}

/// What still holds of a step one of whose events did not reach the store: nothing begins, nothing
/// is appended, and no answer says yes. The core ends with the next input.
fn after_a_lost_event(effect: Effect, message: &str) -> Option<Effect> {
    let refused = || Refusal(message.to_owned());
    match effect {
        Effect::SendAnswered { id, .. } => {
            Some(Effect::SendAnswered { id, result: Err(refused()) })
        }
        Effect::EditAnswered { .. } => Some(Effect::EditAnswered { result: Err(refused()) }),
        Effect::CommitAnswered { ticket, .. } => {
            Some(Effect::CommitAnswered { ticket, result: Err(refused()) })
        }
        Effect::StopAttempt { .. }
        | Effect::StopTool { .. }
        | Effect::Abandon { .. }
        | Effect::Status(_) => Some(effect),
        _ => None,
    }
}

/// The op whose work is over when this input arrives.
fn answered_op(input: &Input) -> Option<Op> {
    match input {
        Input::Assembled { op, .. }
        | Input::PreStepDecided { op, .. }
        | Input::ConfigDecided { op, .. }
        | Input::Rendered { op, .. }
        | Input::Flushed { op, .. }
        | Input::AttemptEnded { op, .. }
        | Input::RetryDecided { op, .. }
        | Input::ToolPrepared { op, .. }
        | Input::ToolFinished { op, .. }
        | Input::StopDecided { op }
        | Input::LimitAnswered { op, .. }
        | Input::Woke { op } => Some(*op),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use reins_schema::ToolCallBlock;
    use reins_session::Barrier;

    use super::*;

    #[test]
    fn after_a_lost_event_nothing_begins_and_no_answer_says_yes() {
        let call = ToolCallBlock {
            id: CallId::new("c"),
            name: "bash".to_owned(),
            arguments: String::new(),
        };
        let begins = [
            Effect::StartTool { op: 1, turn: 1, step: 1, call },
            Effect::StartAttempt { op: 1, turn: 1, step: 1, attempt: 1 },
            Effect::Flush { op: 1, point: Barrier::BeforeRequest },
        ];
        for effect in begins {
            assert!(after_a_lost_event(effect, "disk full").is_none());
        }
        let answers = [
            Effect::SendAnswered { id: MessageId::new("m"), result: Ok(1) },
            Effect::EditAnswered { result: Ok(()) },
            Effect::CommitAnswered { ticket: 1, result: Ok(1) },
        ];
        for effect in answers {
            let left = format!("{:?}", after_a_lost_event(effect, "disk full"));
            assert!(left.contains("Err(Refusal(\"disk full\"))"), "{left}");
        }
        let stop = after_a_lost_event(Effect::StopAttempt { op: 1 }, "disk full");
        assert!(matches!(stop, Some(Effect::StopAttempt { op: 1 })));
    }
}
