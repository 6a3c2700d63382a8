//! The driver of a schedule: does what the effects say, remembers what is on disk, crashes, and
//! checks every rule after every input.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use reins_schema::{Draft, Event, Message, MessageId, Payload, SessionRecovered, TurnEndReason};
use reins_session::{
    Core, Effect, Fold, Input, LimitAnswer, Limits, Op, PreStepDecision, Refusal, Sabotage, Status,
};

use super::cover::{Cover, effect_name, input_name};
use super::limits::{Allowed, some_limits};
use super::rng::Rng;
use super::shadow::{Cause, Key, Shadow};
use crate::made;
use crate::rules::strict_chat;

/// What an op waits for.
#[derive(Clone)]
pub(crate) enum Wait {
    Flush { upto: usize },
    Assemble { step: u64 },
    PreStep { claimed: Vec<Message>, facts: Option<Message> },
    Config,
    Render,
    Attempt,
    Retry,
    Prepare { key: Key, alone: bool },
    Body { key: Key, stuck: bool, stopped: bool },
    Stop,
    Limit { name: String },
    Clock { time: i64 },
}

/// What was decided about a call's body.
pub(crate) struct Body {
    pub(crate) parallel: bool,
    pub(crate) read_only: bool,
    pub(crate) started: bool,
}

pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) core: Core,
    pub(crate) limits: Limits,
    pub(crate) now: i64,
    /// What there was before the first event of `log`.
    start: Fold,
    pub(crate) log: Vec<Arc<Event>>,
    /// How many of `log` are on disk for certain.
    pub(crate) durable: usize,
    decoded: usize,
    pub(crate) waits: BTreeMap<Op, Wait>,
    pub(crate) last_op: Op,
    pub(crate) shadow: Shadow,
    pub(crate) bodies: HashMap<Key, Body>,
    pub(crate) cover: Cover,
    pub(crate) ids: u64,
    /// The last answer to a send, an edit or a commit.
    pub(crate) answer: Option<Result<u64, Refusal>>,
    /// How many of a hundred possible faults happen in this schedule.
    trouble: usize,
    sabotage: Option<Sabotage>,
}

type Checked = Result<(), String>;

fn must(holds: bool, text: impl FnOnce() -> String) -> Checked {
    if holds { Ok(()) } else { Err(text()) }
}

impl World {
    pub(crate) fn new(seed: u64, sabotage: Option<Sabotage>) -> Self {
        Self::on(made::empty_fold(), seed, sabotage)
    }

    /// Goes on where a log that was folded ends.
    pub(crate) fn on(start: Fold, seed: u64, sabotage: Option<Sabotage>) -> Self {
        let mut rng = Rng::new(seed);
        let limits = some_limits(&mut rng);
        let trouble = [5, 20, 100][rng.below(3)];
        // Beyond those that are used.
        let ids = 1 + 100 * start.next_seq();
        Self {
            rng,
            trouble,
            core: Core::new(start.clone(), limits),
            limits,
            now: 1000,
            log: Vec::new(),
            durable: 0,
            decoded: 0,
            waits: BTreeMap::new(),
            last_op: 0,
            shadow: Shadow::of(&start),
            start,
            bodies: HashMap::new(),
            cover: Cover::of_one(),
            ids,
            answer: None,
            sabotage,
        }
    }

    /// An id that was probably used before.
    pub(crate) fn old_id(&mut self) -> MessageId {
        let number = 1 + self.rng.next() % self.ids;
        MessageId::new(format!("m{number}"))
    }

    pub(crate) fn trouble(&self) -> usize {
        self.trouble
    }

    /// Whether a fault happens that may happen so often.
    pub(crate) fn fault(&mut self, percent: usize) -> bool {
        self.rng.chance(percent) && self.rng.chance(self.trouble)
    }

    pub(crate) fn fresh_id(&mut self) -> MessageId {
        self.ids += 1;
        MessageId::new(format!("m{}", self.ids))
    }

    fn cause(&self, input: &Input) -> Cause {
        match input {
            Input::Opened { .. } => Cause::Opened,
            Input::Send { message, wake, .. } => {
                Cause::Send { id: message.id.clone(), wake: *wake }
            }
            Input::EditQueue(_) => Cause::Edit,
            Input::Cancel { cause, keep_inbox } => {
                Cause::Cancel { cause: cause.clone(), keep: *keep_inbox }
            }
            Input::PreStepDecided { decision: PreStepDecision::Reject { .. }, .. } => {
                Cause::PreStep(None)
            }
            Input::PreStepDecided { decision: PreStepDecision::Enter(entries), .. } => {
                let entered = entries.iter().map(|e| (e.message.id.clone(), e.inbox.clone()));
                Cause::PreStep(Some(entered.collect()))
            }
            Input::LimitAnswered { answer: LimitAnswer::Stop | LimitAnswer::Extend(0), .. } => {
                Cause::LimitStop
            }
            _ => Cause::Other,
        }
    }

    /// One input, with every check.
    pub(crate) fn step(&mut self, input: Input) -> Checked {
        self.cover.inputs += 1;
        self.cover.count(input_name(&input));
        let cause = self.cause(&input);
        let status = self.core.status();
        let waited = self.shadow.waiting.clone();
        let (from, held) = (self.log.len(), self.core.turn().is_some());
        self.answer = None;
        if let Cause::Cancel { cause, .. } = &cause {
            self.shadow.latched.clear();
            if held && self.shadow.cancel.is_none() && status != Status::Dead {
                self.shadow.cancel = Some(cause.clone());
            }
        }
        if matches!(cause, Cause::LimitStop) && self.shadow.cancel.is_none() {
            self.shadow.limit_stop = true;
        }
        let dead = status == Status::Dead;
        let was_ending = held && !self.shadow.turn_open;
        for effect in self.core.step(self.now, input) {
            self.take(effect, &cause)?;
        }
        if let Cause::Send { id, wake: true } = &cause
            && matches!(self.answer, Some(Ok(_)))
        {
            let disposed = matches!(self.shadow.cancel, Some(reins_schema::CancelCause::Disposed));
            if !disposed && (status == Status::Cancelling || was_ending) {
                self.shadow.latched.insert(id.clone());
            }
            let woken = status != Status::Idle || self.core.status() == Status::Running;
            self.shadow.woken |= held;
            must(woken, || "a wake leaves the agent idle".to_owned())?;
        }
        must(!dead || self.log.len() == from, || "a dead core appends".to_owned())?;
        self.after_cancel(&cause, held, &waited)?;
        self.check_entered(&cause, from)?;
        self.after()
    }

    fn after_cancel(&self, cause: &Cause, held: bool, waited: &HashSet<MessageId>) -> Checked {
        let Cause::Cancel { keep, .. } = cause else { return Ok(()) };
        let status = self.core.status();
        if status == Status::Dead {
            return Ok(());
        }
        must(!held || status == Status::Cancelling, || format!("{status:?} after a cancel"))?;
        let left = waited.iter().filter(|id| self.shadow.waiting.contains(*id)).count();
        let expected = if *keep { waited.len() } else { 0 };
        must(left == expected, || format!("{left} wait after a cancel, not {expected}"))
    }

    /// What a decision lets enter has entered, each once, with what it takes out.
    fn check_entered(&self, cause: &Cause, from: usize) -> Checked {
        let mut entered = Vec::new();
        for event in &self.log[from..] {
            if let Ok(Payload::UserMessage(p)) = Payload::read(&event.body) {
                entered.push((p.message.id, p.inbox));
            }
        }
        match cause {
            Cause::PreStep(Some(decided)) if entered.is_empty() => {
                let refused = matches!(self.shadow.last_end, Some(TurnEndReason::Error { .. }));
                must(refused || decided.is_empty(), || "what was let in has not entered".into())
            }
            Cause::PreStep(Some(decided)) => {
                let same = decided.len() == entered.len()
                    && decided
                        .iter()
                        .zip(&entered)
                        .all(|(a, b)| a.0 == b.0 && b.1.iter().all(|id| a.1.contains(id)));
                must(same, || format!("decided {decided:?}, entered {entered:?}"))
            }
            _ => Ok(()),
        }
    }

    fn after(&mut self) -> Checked {
        reins_session::check(self.core.fold())?;
        let inbox = self.core.fold().inbox();
        let all = inbox.next_step().iter().chain(inbox.next_turn());
        let same = inbox.len() == self.shadow.waiting.len()
            && all.clone().all(|message| self.shadow.waiting.contains(&message.id));
        must(same, || "the inbox is not what the log says".to_owned())?;
        match self.core.status() {
            Status::Idle => {
                must(self.waits.is_empty(), || "idle with work outstanding".to_owned())?;
                let left = self.shadow.latched.iter().find(|id| self.shadow.waiting.contains(*id));
                must(left.is_none(), || format!("the wake of {left:?} was lost"))
            }
            Status::Dead => must(self.waits.is_empty(), || "dead with work outstanding".to_owned()),
            Status::Running => must(!self.waits.is_empty(), || "runs and waits for nothing".into()),
            Status::Cancelling => {
                let only = self.waits.values().all(|wait| {
                    matches!(wait, Wait::Body { stopped: true, .. } | Wait::Flush { .. })
                });
                must(only && !self.waits.is_empty(), || "a cancel waits for more".to_owned())
            }
        }
    }

    fn wait(&mut self, op: Op, wait: Wait) -> Checked {
        must(op > self.last_op, || format!("op {op} is used twice"))?;
        self.last_op = op;
        self.waits.insert(op, wait);
        Ok(())
    }

    fn take(&mut self, effect: Effect, cause: &Cause) -> Checked {
        self.cover.count(effect_name(&effect));
        match effect {
            Effect::Append(event) => self.appended(event, cause),
            Effect::Flush { op, .. } => {
                let upto = self.log.len();
                self.wait(op, Wait::Flush { upto })
            }
            Effect::Assemble { op, step, .. } => self.wait(op, Wait::Assemble { step }),
            Effect::AskPreStep { op, claimed, facts, .. } => {
                self.wait(op, Wait::PreStep { claimed, facts })
            }
            Effect::AskConfig { op, .. } => self.wait(op, Wait::Config),
            Effect::Render { op, .. } => {
                strict_chat(self.core.fold())?;
                self.wait(op, Wait::Render)
            }
            Effect::StartAttempt { op, turn, step, attempt } => {
                let sent = self.shadow.sent.get(&(turn, step, attempt));
                must(sent.is_some_and(|seq| self.on_disk(*seq)), || {
                    format!("attempt {turn}.{step}.{attempt} leaves before its barrier")
                })?;
                self.wait(op, Wait::Attempt)
            }
            Effect::AskRetry { op, .. } => self.wait(op, Wait::Retry),
            Effect::PrepareTool { op, turn, step, call, alone } => {
                self.prepare(op, (turn, step, call.id.to_string()), alone)
            }
            Effect::StartTool { op, turn, step, call } => {
                let key = (turn, step, call.id.to_string());
                self.start_body(&key)?;
                let stuck = self.rng.chance(10);
                self.wait(op, Wait::Body { key, stuck, stopped: false })
            }
            Effect::AskStop { op, .. } => self.wait(op, Wait::Stop),
            Effect::AskLimit { op, name, .. } => self.wait(op, Wait::Limit { name }),
            Effect::WakeAt { op, time } => self.wait(op, Wait::Clock { time }),
            Effect::StopAttempt { op } => match self.waits.remove(&op) {
                Some(Wait::Attempt) => Ok(()),
                _ => Err("an attempt is stopped that does not run".to_owned()),
            },
            Effect::StopTool { op, .. } => match self.waits.get_mut(&op) {
                Some(Wait::Body { stopped, .. }) => {
                    *stopped = true;
                    Ok(())
                }
                _ => Err("a body is stopped that does not run".to_owned()),
            },
            Effect::Abandon { op } => match self.waits.remove(&op) {
                None | Some(Wait::Attempt | Wait::Body { .. }) => {
                    Err("a wait is abandoned that is none".to_owned())
                }
                Some(_) => Ok(()),
            },
            Effect::Status(status) => {
                if status == Status::Dead {
                    self.waits.clear();
                }
                Ok(())
            }
            Effect::SendAnswered { result, .. } | Effect::CommitAnswered { result, .. } => {
                self.answer = Some(result);
                Ok(())
            }
            Effect::EditAnswered { result } => {
                self.answer = Some(result.map(|()| 0));
                Ok(())
            }
        }
    }

    fn prepare(&mut self, op: Op, key: Key, alone: bool) -> Checked {
        let bodies = self.waits.values().any(|w| matches!(w, Wait::Body { .. }));
        must(!(alone && bodies), || "a call is alone beside a body".to_owned())?;
        self.shadow.allowed.call(&key)?;
        self.wait(op, Wait::Prepare { key, alone })
    }

    /// The number of the event at a place of `log`.
    fn number(&self, at: usize) -> u64 {
        self.start.next_seq() + at as u64
    }

    fn on_disk(&self, seq: u64) -> bool {
        seq < self.number(self.durable)
    }

    fn appended(&mut self, event: Arc<Event>, cause: &Cause) -> Checked {
        let expected = self.number(self.log.len());
        must(event.seq == expected, || format!("event {} follows {expected}", event.seq))?;
        let payload = Payload::read(&event.body).map_err(|e| e.to_string())?;
        self.shadow.see(&event, &payload, cause)?;
        match &payload {
            Payload::TurnStart(_) => self.shadow.allowed = Allowed::of(self.limits.turn),
            Payload::StepStart(start) => self.shadow.allowed.step(start.step)?,
            Payload::LimitReached(hit) => self.shadow.allowed.reached(&hit.name, hit.value)?,
            _ => {}
        }
        if let Payload::TurnEnd(end) = &payload {
            self.cover.count(&format!("end {}", end.reason.word()));
        }
        self.log.push(event);
        Ok(())
    }

    fn start_body(&mut self, key: &Key) -> Checked {
        let start = self.shadow.starts.get(key).copied();
        let durable = start.is_some_and(|seq| self.on_disk(seq));
        let running: Vec<Key> = self.running();
        let exclusive = running.iter().any(|k| self.bodies.get(k).is_some_and(|b| !b.parallel));
        must(running.len() < self.limits.parallel_tools, || "the pool overflows".to_owned())?;
        let Some(body) = self.bodies.get_mut(key) else {
            return Err(format!("{key:?} runs without having been allowed to"));
        };
        must(start.is_some(), || format!("{key:?} runs without tool/start"))?;
        must(durable || body.read_only, || format!("{key:?} runs before its barrier"))?;
        must(!body.started, || format!("{key:?} runs twice"))?;
        let alone = body.parallel || running.is_empty();
        must(alone && !exclusive, || format!("{key:?} runs beside an exclusive call"))?;
        body.started = true;
        Ok(())
    }

    pub(crate) fn running(&self) -> Vec<Key> {
        let bodies = self.waits.values().filter_map(|wait| match wait {
            Wait::Body { key, .. } => Some(key.clone()),
            _ => None,
        });
        bodies.collect()
    }

    /// The process ends: what is on disk is read back, and the session goes on.
    pub(crate) fn crash(&mut self) -> Checked {
        for event in &mut self.log[self.decoded..] {
            let (line, _) = event.encode().map_err(|e| e.to_string())?;
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            let (decoded, _) = Event::decode(line).map_err(|e| e.to_string())?;
            *event = Arc::new(decoded);
        }
        let keep = self.durable + self.rng.below(self.log.len() - self.durable + 1);
        let mut fold = self.start.clone();
        let mut kept = if keep == 0 { Some(fold.clone()) } else { None };
        for event in &self.log {
            fold.apply(event).map_err(|e| e.to_string())?;
            if event.seq + 1 == self.number(keep) {
                kept = Some(fold.clone());
            }
        }
        must(fold == *self.core.fold(), || "the log folds to something else".to_owned())?;
        self.log.truncate(keep);
        self.durable = keep;
        self.decoded = keep;
        if let Some(last) = self.log.last() {
            self.cover.count(&format!("crash after {}", last.body.kind));
        }
        self.cover.crashes += 1;
        self.replay()?;
        self.lose_bodies()?;
        let fold = kept.ok_or("no fold was kept")?;
        self.reopen(fold)
    }

    fn replay(&mut self) -> Checked {
        self.shadow = Shadow::of(&self.start);
        for event in &self.log {
            let payload = Payload::read(&event.body).map_err(|e| e.to_string())?;
            self.shadow.see(event, &payload, &Cause::Replay)?;
        }
        Ok(())
    }

    /// A body with effects that had begun is known to the log.
    fn lose_bodies(&mut self) -> Checked {
        let lost = self.bodies.iter().find(|(key, body)| {
            body.started && !body.read_only && !self.shadow.starts.contains_key(*key)
        });
        must(lost.is_none(), || "a body with effects is forgotten".to_owned())?;
        let starts = &self.shadow.starts;
        self.bodies.retain(|key, _| starts.contains_key(key));
        Ok(())
    }

    fn reopen(&mut self, mut fold: Fold) -> Checked {
        if fold.open_turn().is_none() && self.rng.chance(10) {
            self.seed(&mut fold)?;
        }
        let open = fold.open_turn().is_some();
        let owed: Vec<_> = fold.unanswered().to_vec();
        let place = fold.open_step().map(|step| (fold.last_turn(), step.number()));
        // A start may be among what is lost.
        let may_be_lost = fold.lost_since_sent();
        self.waits.clear();
        self.last_op = 0;
        self.core = Core::new(fold, self.limits);
        self.sabotage_core();
        let one = SessionRecovered {
            damage: "torn tail".to_owned(),
            cut_bytes: 3,
            kept_in: "tail".to_owned(),
            ..SessionRecovered::default()
        };
        let many = if self.rng.chance(20) { 1 + self.rng.below(3) } else { 0 };
        let recovered = vec![one; many];
        self.step(Input::Opened { recovered })?;
        must(self.core.status() == Status::Idle, || "not idle after opening".to_owned())?;
        must(self.core.fold().open_turn().is_none(), || "a turn stays open".to_owned())?;
        let repaired = self.log.last().is_some_and(|e| e.body.kind == "session/repaired");
        must(!open || repaired, || "an open turn is repaired".to_owned())?;
        for call in owed {
            let (turn, step) = place.unwrap_or_default();
            let code = self.shadow.results.get(&(turn, step, call.call.id.to_string()));
            let unknown = code.is_some_and(|code| code == "TOOL_OUTCOME_UNKNOWN");
            let not_started = code.is_some_and(|code| code == "TOOL_NOT_STARTED");
            let started = call.start_seq.is_some();
            let right = if started { unknown } else { not_started || (may_be_lost && unknown) };
            must(right, || format!("{code:?} by repair"))?;
        }
        Ok(())
    }

    pub(crate) fn sabotage_core(&mut self) {
        if let Some(rule) = self.sabotage {
            self.core.sabotage(rule);
        }
    }

    /// What a store writes when it makes a fork.
    fn seed(&mut self, fold: &mut Fold) -> Checked {
        let payload = Payload::from(reins_schema::EndSeed {});
        let body: Draft = payload.draft(Vec::new()).map_err(|e| e.to_string())?;
        let event = Event { seq: fold.next_seq(), time: self.now, body };
        fold.apply(&event).map_err(|e| e.to_string())?;
        self.shadow.see(&event, &payload, &Cause::Replay)?;
        self.log.push(Arc::new(event));
        self.durable = self.log.len();
        Ok(())
    }
}
