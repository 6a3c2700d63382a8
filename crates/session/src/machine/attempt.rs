//! From the request to the answer that counts, with retries in between.

use std::collections::{HashMap, HashSet};

use reins_schema::{
    AssistantAttempt, AssistantChunk, AssistantMessage, Block, CallId, ChunkRun, Failure,
    FailureCode, FinishReason, HeaderReason, LlmRetry, LlmRetryStarted, Message, MessageId,
    PartKind, Purpose, RequestSent, Role, Source, SourceRange, ToolCallBlock, TurnEndReason, Usage,
};
use serde_json::value::RawValue;

use super::{Core, Phase};
use crate::face::{AttemptOutcome, Barrier, Effect, Op, RenderedFacts, RequestPlan, RetryDecision};
use crate::sabotage::Sabotage;

/// Whatever a policy says, no step retries more often.
const RETRIES_MAX: u32 = 1000;

/// The running attempt: what has arrived of its answer.
pub(crate) struct Attempt {
    pub(crate) op: Op,
    number: u32,
    parts: Vec<Part>,
    places: HashMap<u32, usize>,
    chunks: Vec<SourceRange>,
}

struct Part {
    index: u32,
    kind: PartKind,
    id: Option<String>,
    name: Option<String>,
    text: String,
}

/// What of an answer is kept.
struct Answer {
    content: Vec<Block>,
    /// Which calls, counted in order, repeat an earlier id.
    duplicates: HashSet<usize>,
}

impl Attempt {
    fn new(op: Op, number: u32) -> Self {
        Self { op, number, parts: Vec::new(), places: HashMap::new(), chunks: Vec::new() }
    }

    fn take(&mut self, seq: u64, runs: &[ChunkRun]) {
        match self.chunks.last().map(|range| range.bounds()) {
            Some((first, last)) if last + 1 == seq => {
                self.chunks.pop();
                self.chunks.push(SourceRange::Range(first, seq));
            }
            _ => self.chunks.push(SourceRange::One(seq)),
        }
        for run in runs {
            let at = *self.places.entry(run.index).or_insert(self.parts.len());
            if at == self.parts.len() {
                let (index, kind) = (run.index, run.kind);
                self.parts.push(Part { index, kind, id: None, name: None, text: String::new() });
            }
            let part = &mut self.parts[at];
            let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
            part.id = part.id.take().or_else(|| given(&run.id));
            part.name = part.name.take().or_else(|| given(&run.name));
            part.text.extend(run.text.iter().map(String::as_str));
        }
    }

    fn has_text(&self) -> bool {
        self.parts.iter().any(|part| part.kind == PartKind::Text && !part.text.is_empty())
    }

    fn answer(&mut self, with_calls: bool) -> Answer {
        let mut answer = Answer { content: Vec::new(), duplicates: HashSet::new() };
        let mut ids = HashSet::new();
        for part in self.parts.drain(..) {
            match part.kind {
                PartKind::Text if !part.text.is_empty() => {
                    answer.content.push(Block::Text(part.text));
                }
                PartKind::Reasoning if !part.text.is_empty() => {
                    answer.content.push(Block::Reasoning(part.text));
                }
                PartKind::Call if with_calls => {
                    let number = ids.len();
                    let given = part.id.unwrap_or_else(|| format!("call-{}", part.index));
                    let id = unique(&mut ids, &given);
                    if id != given {
                        answer.duplicates.insert(number);
                    }
                    answer.content.push(Block::ToolCall(ToolCallBlock {
                        id: CallId::new(id),
                        name: part.name.unwrap_or_else(|| "unnamed".to_owned()),
                        arguments: part.text,
                    }));
                }
                _ => {}
            }
        }
        answer
    }
}

fn unique(ids: &mut HashSet<String>, given: &str) -> String {
    let mut id = given.to_owned();
    let mut count = 1_u32;
    while ids.contains(&id) {
        count += 1;
        id = format!("{given}-{count}");
    }
    ids.insert(id.clone());
    id
}

impl Core {
    pub(super) fn begin_attempt(&mut self, attempt: u32) {
        let (turn, step) = self.place();
        let op = self.op();
        self.set_phase(Phase::Configuring { op, attempt });
        self.emit(Effect::AskConfig { op, turn, step, attempt });
    }

    pub(super) fn config_decided(&mut self, op: Op, result: Result<Box<RequestPlan>, Failure>) {
        let Some(turn) = &self.turn else { return };
        let attempt = match turn.phase {
            Phase::Configuring { op: awaited, attempt } if awaited == op => attempt,
            _ => return,
        };
        let RequestPlan { mut header, context } = match result {
            Ok(plan) => *plan,
            Err(failure) => return self.fail(failure),
        };
        let last = self.fold.request_header();
        let first = last.is_none();
        if !last.is_some_and(|last| last.same_request(&header)) {
            header.reason = match header.reason {
                _ if first => HeaderReason::Initial,
                HeaderReason::Initial => HeaderReason::Change { cause: "not named".to_owned() },
                change @ HeaderReason::Change { .. } => change,
            };
            self.append(header, Vec::new());
        }
        if self.fold.request_context() != Some(&context) {
            self.append(context, Vec::new());
        }
        self.render(attempt);
    }

    fn render(&mut self, attempt: u32) {
        let (turn, step) = self.place();
        let op = self.op();
        let generation = self.fold.surface().generation();
        self.set_phase(Phase::Rendering { op, attempt, generation });
        self.emit(Effect::Render { op, turn, step, attempt });
    }

    pub(super) fn rendered(&mut self, op: Op, result: Result<RenderedFacts, Failure>) {
        let Some(turn) = &self.turn else { return };
        let attempt = match turn.phase {
            Phase::Rendering { op: awaited, attempt, generation } if awaited == op => {
                if generation != self.fold.surface().generation() {
                    // A plugin replaced a span meanwhile: what was rendered is not what is logged.
                    return self.render(attempt);
                }
                attempt
            }
            _ => return,
        };
        let facts = match result {
            Ok(facts) => facts,
            Err(failure) => return self.fail(failure),
        };
        let (turn, step) = self.place();
        let sent = RequestSent {
            turn,
            step,
            attempt,
            purpose: Purpose::Turn,
            dialect: facts.dialect,
            renderer: facts.renderer,
            items: facts.items,
            bytes: facts.bytes,
            hash: facts.hash,
            shared: facts.shared,
            cause: facts.cause,
        };
        self.append(sent, Vec::new());
        if self.broken(Sabotage::SkipRequestBarrier) {
            return self.start_attempt(attempt);
        }
        let op = self.op();
        self.set_phase(Phase::Sending { op, attempt });
        self.emit(Effect::Flush { op, point: Barrier::BeforeRequest });
    }

    pub(super) fn start_attempt(&mut self, attempt: u32) {
        let (turn, step) = self.place();
        let op = self.op();
        self.set_phase(Phase::Streaming(Box::new(Attempt::new(op, attempt))));
        self.emit(Effect::StartAttempt { op, turn, step, attempt });
    }

    fn streams(&self, op: Op) -> Option<u32> {
        match self.turn.as_ref().map(|turn| &turn.phase) {
            Some(Phase::Streaming(attempt)) if attempt.op == op => Some(attempt.number),
            _ => None,
        }
    }

    pub(super) fn chunk(&mut self, op: Op, runs: Vec<ChunkRun>) {
        let Some(attempt) = self.streams(op) else { return };
        if runs.is_empty() {
            return;
        }
        let (turn, step) = self.place();
        let seq = self.fold.next_seq();
        if let Some(Phase::Streaming(attempt)) = self.turn.as_mut().map(|turn| &mut turn.phase) {
            attempt.take(seq, &runs);
        }
        self.append(AssistantChunk { turn, step, attempt, runs }, Vec::new());
    }

    pub(super) fn attempt_ended(&mut self, op: Op, outcome: AttemptOutcome) {
        if self.streams(op).is_none() {
            return;
        }
        let Some(attempt) = self.take_attempt() else { return };
        match outcome {
            AttemptOutcome::Finished { finish: FinishReason::Aborted, usage, .. } => {
                let text = "the answer ended without being finished";
                let failure = Failure::new(FailureCode::StreamClosed, text);
                self.attempt_failed(&attempt, failure, usage);
            }
            AttemptOutcome::Finished { finish, usage, replay } => {
                self.attempt_finished(attempt, finish, usage, replay);
            }
            AttemptOutcome::Failed { failure, usage } => {
                self.attempt_failed(&attempt, failure, usage);
            }
        }
    }

    fn take_attempt(&mut self) -> Option<Attempt> {
        let turn = self.turn.as_mut()?;
        match std::mem::replace(&mut turn.phase, Phase::Between) {
            Phase::Streaming(attempt) => Some(*attempt),
            other => {
                turn.phase = other;
                None
            }
        }
    }

    fn attempt_finished(
        &mut self,
        mut attempt: Attempt,
        finish: FinishReason,
        usage: Option<Usage>,
        replay: Option<Box<RawValue>>,
    ) {
        let cut = finish == FinishReason::MaxTokens;
        let answer = attempt.answer(!cut || self.broken(Sabotage::KeepCutCalls));
        if answer.content.is_empty() && !self.broken(Sabotage::EmptyAnswer) {
            if cut {
                let text = "the answer was cut at the output limit and nothing of it is left";
                let failure = Failure::new(FailureCode::MaxTokens, text);
                self.note_failure(&attempt, failure, usage);
                return self.cut();
            }
            let text = "the model answered with nothing";
            let failure = Failure::new(FailureCode::EmptyResponse, text);
            return self.attempt_failed(&attempt, failure, usage);
        }
        let calls = answer.content.iter().any(|block| matches!(block, Block::ToolCall(_)));
        let finish = match finish {
            FinishReason::MaxTokens => FinishReason::MaxTokens,
            _ if calls => FinishReason::ToolCalls,
            _ => FinishReason::Stop,
        };
        self.append_answer(&attempt, answer.content, finish, (usage, replay));
        if cut {
            self.cut();
        } else if calls {
            self.begin_tools(&answer.duplicates);
        } else {
            self.end_step(Some(TurnEndReason::Completed));
        }
    }

    fn append_answer(
        &mut self,
        attempt: &Attempt,
        content: Vec<Block>,
        finish: FinishReason,
        (usage, replay): (Option<Usage>, Option<Box<RawValue>>),
    ) {
        let (turn, step) = self.place();
        let route = self.fold.request_header().map(|header| &header.config);
        let provider = route.map(|config| config.provider.clone()).unwrap_or_default();
        let model = route.map(|config| config.model.clone()).unwrap_or_default();
        let message = Message {
            id: MessageId::new(format!("{}/{}", self.fold.header().id, self.fold.next_seq())),
            role: Role::Assistant,
            content,
            source: Source::Model { provider, model, replay },
        };
        let attempt_number = attempt.number;
        let answer =
            AssistantMessage { turn, step, attempt: attempt_number, message, finish, usage };
        self.append(answer, attempt.chunks.clone());
    }

    fn note_failure(&mut self, attempt: &Attempt, failure: Failure, usage: Option<Usage>) {
        let (turn, step) = self.place();
        let record = AssistantAttempt { turn, step, attempt: attempt.number, failure, usage };
        self.append(record, attempt.chunks.clone());
    }

    fn attempt_failed(&mut self, attempt: &Attempt, failure: Failure, usage: Option<Usage>) {
        self.note_failure(attempt, failure.clone(), usage);
        let retries = self.fold.open_step().map_or(0, |step| step.retries());
        if failure.code == FailureCode::Aborted || retries >= RETRIES_MAX {
            return self.fail(failure);
        }
        let (turn, step) = self.place();
        let op = self.op();
        let number = attempt.number;
        self.set_phase(Phase::Failed { op, attempt: number, failure: failure.clone() });
        self.emit(Effect::AskRetry { op, turn, step, attempt: number, retries, failure });
    }

    pub(super) fn retry_decided(&mut self, op: Op, decision: RetryDecision) {
        let Some(turn) = &mut self.turn else { return };
        if !matches!(turn.phase, Phase::Failed { op: awaited, .. } if awaited == op) {
            return;
        }
        let phase = std::mem::replace(&mut turn.phase, Phase::Between);
        let Phase::Failed { attempt, failure, .. } = phase else { return };
        let RetryDecision::Retry { delay_ms, max_retries } = decision else {
            return self.fail(failure);
        };
        let (turn, step) = self.place();
        let retry = self.fold.open_step().map_or(0, |step| step.retries()) + 1;
        let route = self.fold.request_header().map(|header| &header.config);
        let provider = route.map(|config| config.provider.clone()).unwrap_or_default();
        let record =
            LlmRetry { turn, step, attempt, provider, retry, max_retries, delay_ms, failure };
        self.append(record, Vec::new());
        let op = self.op();
        self.set_phase(Phase::RetryWait { op, attempt });
        self.emit(Effect::WakeAt { op, time: self.now.saturating_add_unsigned(delay_ms) });
    }

    pub(super) fn retry_started(&mut self, attempt: u32) {
        let (turn, step) = self.place();
        let retry = self.fold.open_step().map_or(0, |step| step.retries());
        self.append(LlmRetryStarted { turn, step, retry }, Vec::new());
        self.begin_attempt(attempt.saturating_add(1));
    }

    /// Keeps what had arrived of an answer that is stopped: its text and reasoning, or nothing.
    pub(super) fn keep_partial(&mut self) {
        let Some(mut attempt) = self.take_attempt() else { return };
        if attempt.has_text() {
            let answer = attempt.answer(false);
            let content = answer.content;
            self.append_answer(&attempt, content, FinishReason::Aborted, (None, None));
        } else {
            let text = "the turn was stopped before any text of the answer had arrived";
            self.note_failure(&attempt, Failure::new(FailureCode::Aborted, text), None);
        }
    }
}
