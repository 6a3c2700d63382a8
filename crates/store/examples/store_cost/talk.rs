//! A conversation as an agent logs it: turns of some steps, each step with the deltas of an answer,
//! one call and its result. What the model sees is kept small by summaries.

use std::sync::Arc;

use reins_schema::{
    AdapterDefaults, AssistantChunk, AssistantMessage, Block, CallConfig, CallId, ChunkRun, Draft,
    Event, FinishReason, HeaderReason, InboxSpliced, InboxTarget, Message, MessageId, PartKind,
    Payload, Purpose, RequestContext, RequestHeader, RequestSent, Role, Source, SourceRange,
    StepEnd, StepStart, SurfaceOp, ToolCall, ToolCallBlock, ToolResult, ToolResultBlock, ToolStart,
    TurnEnd, TurnEndReason, TurnStart, Usage,
};

use crate::Failure;

/// Packed records of one answer: two seconds of a fast model.
const CHUNKS: u64 = 20;
/// Deltas of a record.
const DELTAS: usize = 6;
const STEPS: u64 = 10;
/// A summary is made when the model would see more messages than this.
const SEEN_MAX: usize = 2_400;
/// Messages that a summary leaves.
const SEEN: usize = 2_000;

/// Makes one turn after the other.
pub(crate) struct Talk {
    next: u64,
    turn: u64,
    seen: Vec<u64>,
    events: Vec<Arc<Event>>,
    words: Words,
}

impl Talk {
    pub(crate) fn new() -> Self {
        Self { next: 0, turn: 0, seen: Vec::new(), events: Vec::new(), words: Words(0x9e37_79b9) }
    }

    /// The events of the next turn.
    pub(crate) fn turn(&mut self) -> Result<Vec<Arc<Event>>, Failure> {
        self.turn += 1;
        self.ask()?;
        for step in 1..=STEPS {
            self.step(step)?;
        }
        self.add(TurnEnd { turn: self.turn, reason: TurnEndReason::Completed })?;
        if self.seen.len() > SEEN_MAX {
            self.summarise()?;
        }
        Ok(std::mem::take(&mut self.events))
    }

    fn ask(&mut self) -> Result<(), Failure> {
        let turn = self.turn;
        let id = MessageId::new(format!("m{turn}"));
        let message = Message::user(id.clone(), self.words.text(200));
        let inserted = vec![message.clone()];
        let target = InboxTarget::NextTurn;
        self.add(InboxSpliced { target, at: None, inserted, removed: Vec::new(), outcome: None })?;
        self.add(TurnStart { turn })?;
        self.add(StepStart { turn, step: 1 })?;
        self.show(reins_schema::UserMessage { message, inbox: vec![id] }, Vec::new())?;
        if turn > 1 {
            return Ok(());
        }
        let config = CallConfig {
            provider: "deepseek".to_owned(),
            model: "deepseek-v4-flash".to_owned(),
            ..CallConfig::default()
        };
        let context = RequestContext {
            provider: config.provider.clone(),
            model: config.model.clone(),
            context_window: Some(128_000),
        };
        let header = RequestHeader {
            config,
            adapter_defaults: AdapterDefaults::default(),
            system: self.words.text(3_000),
            tools: Vec::new(),
            reason: HeaderReason::Initial,
        };
        self.add(header)?;
        self.add(context)
    }

    fn step(&mut self, step: u64) -> Result<(), Failure> {
        let turn = self.turn;
        if step > 1 {
            self.add(StepStart { turn, step })?;
        }
        self.add(self.sent(step))?;
        let first = self.next;
        let mut answer = String::new();
        for _ in 0..CHUNKS {
            let text: Vec<String> = (0..DELTAS).map(|_| self.words.text(4)).collect();
            answer.extend(text.iter().map(String::as_str));
            let dt = (0..8 * u32::try_from(DELTAS)?).step_by(8).collect();
            let run = ChunkRun { index: 0, kind: PartKind::Text, id: None, name: None, dt, text };
            self.add(AssistantChunk { turn, step, attempt: 1, runs: vec![run] })?;
        }
        let chunks = vec![SourceRange::Range(first, self.next - 1)];
        let last = step == STEPS;
        let call = ToolCallBlock {
            id: CallId::new(format!("call_{turn}_{step}")),
            name: "read".to_owned(),
            arguments: format!("{{\"file_path\":\"src/{}.rs\"}}", self.words.word()),
        };
        self.answer(step, answer, (!last).then(|| call.clone()), chunks)?;
        if !last {
            self.call(step, call)?;
        }
        self.add(StepEnd { turn, step })
    }

    fn sent(&self, step: u64) -> RequestSent {
        let items = self.seen.len() as u64 + 2;
        RequestSent {
            turn: self.turn,
            step,
            attempt: 1,
            purpose: Purpose::Turn,
            dialect: "chat".to_owned(),
            renderer: 1,
            items,
            bytes: 5_000 + items * 900,
            hash: format!("{:064x}", u128::from(self.next) << 64 | 0xfeed_beef),
            shared: items.saturating_sub(2),
            cause: None,
        }
    }

    fn answer(
        &mut self,
        step: u64,
        text: String,
        call: Option<ToolCallBlock>,
        chunks: Vec<SourceRange>,
    ) -> Result<(), Failure> {
        let finish = if call.is_some() { FinishReason::ToolCalls } else { FinishReason::Stop };
        let content = [Block::Text(text)].into_iter().chain(call.map(Block::ToolCall)).collect();
        let source = Source::Model {
            provider: "deepseek".to_owned(),
            model: "deepseek-v4-flash".to_owned(),
            replay: None,
        };
        let id = MessageId::new(format!("a{}", self.next));
        let usage = Usage { input_tokens: 900, output_tokens: 180, ..Usage::default() };
        let answer = AssistantMessage {
            turn: self.turn,
            step,
            attempt: 1,
            message: Message { id, role: Role::Assistant, content, source },
            finish,
            usage: Some(usage),
        };
        self.show(answer, chunks)
    }

    fn call(&mut self, step: u64, call: ToolCallBlock) -> Result<(), Failure> {
        let (turn, call_id, called) = (self.turn, call.id.clone(), self.next);
        let ToolCallBlock { id, name, arguments } = call;
        self.add(ToolCall { turn, step, call_id: id, name, arguments })?;
        self.add(ToolStart { turn, step, call_id: call_id.clone() })?;
        let text = self.words.lines(1_500);
        let result = ToolResultBlock {
            tool_call_id: call_id.clone(),
            content: vec![Block::Text(text)],
            is_error: false,
        };
        let message = Message {
            id: MessageId::new(format!("r{}", self.next)),
            role: Role::User,
            content: vec![Block::ToolResult(result)],
            source: Source::Tool { call_id },
        };
        let result = ToolResult { turn, step, message, error: None, meta: None };
        self.show(result, vec![SourceRange::One(called)])
    }

    /// One message in place of the oldest ones. A turn begins with its prompt, so that the span
    /// separates no call from its result when it ends before one.
    fn summarise(&mut self) -> Result<(), Failure> {
        // A prompt, and an answer and a result for each step but the last, which has no result.
        let of_a_turn = 2 * usize::try_from(STEPS)?;
        let turns = (self.seen.len() - SEEN).div_ceil(of_a_turn);
        let one_summary = usize::from(!self.seen.len().is_multiple_of(of_a_turn));
        let shadowed: Vec<u64> = self.seen.drain(..turns * of_a_turn + one_summary).collect();
        let [first, .., last] = shadowed[..] else { return Err("nothing to shadow".into()) };
        // An earlier summary stands first and has the highest number.
        let sources = shadowed.iter().min().zip(shadowed.iter().max());
        let sources = sources.map(|(first, last)| SourceRange::Range(*first, *last));
        let id = MessageId::new(format!("s{}", self.next));
        let message = Message::user(id, self.words.text(4_000));
        let payload = reins_schema::UserMessage { message, inbox: Vec::new() };
        let mut draft = Payload::from(payload).draft(sources.into_iter().collect())?;
        draft.surface = Some(SurfaceOp::Replace(first, last));
        self.seen.insert(0, self.next);
        self.push(draft);
        Ok(())
    }

    fn show(
        &mut self,
        payload: impl Into<Payload>,
        sources: Vec<SourceRange>,
    ) -> Result<(), Failure> {
        self.seen.push(self.next);
        let draft = payload.into().draft(sources)?;
        self.push(draft);
        Ok(())
    }

    fn add(&mut self, payload: impl Into<Payload>) -> Result<(), Failure> {
        let draft = payload.into().draft(Vec::new())?;
        self.push(draft);
        Ok(())
    }

    fn push(&mut self, body: Draft) {
        let time = 1_790_000_000_000 + i64::try_from(self.next).unwrap_or(i64::MAX) * 50;
        self.events.push(Arc::new(Event { seq: self.next, time, body }));
        self.next += 1;
    }
}

const WORDS: &[&str] = &[
    "the", "file", "of", "session", "store", "reads", "line", "a", "and", "checks", "every", "sum",
    "before", "it", "writes", "event", "numbers", "are", "never", "lost", "in", "segment", "model",
    "answer", "because", "this", "function", "returns", "error", "when", "disk", "is", "full",
    "turn", "begins", "after", "prompt", "tool", "calls", "result", "shows", "test", "fails", "at",
    "let", "mut", "self", "pub", "fn", "struct", "impl", "match", "Some", "None", "Ok", "Err",
];

/// Words by chance, the same in every run.
struct Words(u64);

impl Words {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A word, or now and then a number, as in code.
    fn word(&mut self) -> String {
        let chance = self.next();
        if chance.is_multiple_of(16) {
            return format!("{}", chance >> 40);
        }
        let at = usize::try_from(chance >> 32).unwrap_or(0) % WORDS.len();
        WORDS[at].to_owned()
    }

    fn text(&mut self, bytes: usize) -> String {
        let mut text = String::new();
        while text.len() < bytes {
            text.push_str(&self.word());
            text.push(' ');
        }
        text
    }

    fn lines(&mut self, bytes: usize) -> String {
        let mut text = String::new();
        while text.len() < bytes {
            let line = self.text(50);
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}
