//! Valid logs of all shapes, made through the store itself: turns with answers in pieces and tool
//! calls, several segments, sealed ones, forks, snapshots.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_schema::{
    AssistantChunk, AssistantMessage, Block, CallId, ChunkRun, Event, FinishReason, InboxSpliced,
    InboxTarget, Message, MessageId, PartKind, Payload, Purpose, RequestSent, Role, SessionId,
    Source, StepEnd, StepStart, ToolCall, ToolCallBlock, ToolResult, ToolResultBlock, ToolStart,
    TurnEnd, TurnEndReason, TurnStart, UserMessage,
};
use reins_store::{JsonlStore, OpenSession, Store, StoreConfig};
use tokio::sync::OnceCell;

use crate::setup::{header, note};

/// How many there are.
pub(super) const LOGS: usize = 100;

/// Not every one can be damaged in every way.
const MADE: u64 = 180;

/// SplitMix64.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5EED)
    }

    /// Below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((z ^ (z >> 31)) % end as u64).unwrap()
    }
}

/// A session as its files, and what is in it.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) seed: u64,
    pub(super) id: SessionId,
    /// By name.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// In order, without what a fork's parent has behind the boundary.
    pub(super) records: Vec<Record>,
    /// The last event that the snapshot contains, when there is one.
    pub(super) snapshot: Option<u64>,
    /// How many segments it has in common with its parent.
    pub(super) shared: u32,
}

/// Where a record stands in the plain content of a segment.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) seq: u64,
    pub(super) segment: u32,
    pub(super) start: usize,
    pub(super) end: usize,
    /// With the line feed.
    pub(super) line: Vec<u8>,
}

/// The same logs for every test; each kind of damage is done to all of them.
pub(super) async fn all() -> &'static [Made] {
    static ALL: OnceCell<Vec<Made>> = OnceCell::const_new();
    let make = || async {
        let mut made = Vec::new();
        for seed in 0..MADE {
            made.push(make(seed).await);
        }
        made
    };
    ALL.get_or_init(make).await
}

/// Where no disk is waited for; what is proved here is not durability.
pub(super) fn home() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

pub(super) fn folder(home: &Path, id: &SessionId) -> PathBuf {
    home.join("sessions").join(id.as_str())
}

async fn make(seed: u64) -> Made {
    let mut rng = Rng::new(seed);
    let home = home();
    let segment_bytes = [1500, 1500, 1500, 4000, 1 << 20][rng.below(5)];
    let config = StoreConfig { segment_bytes, ..StoreConfig::new(home.path()) };
    let store = JsonlStore::new(config);
    let mut id = SessionId::new(format!("made-{seed}"));
    let mut open = store.create(header(&id), Default::default()).await.unwrap();
    let count = 1 + rng.below(3);
    turns(&mut open, &mut rng, count).await;
    if seed.is_multiple_of(4) {
        open.log.close().await.unwrap();
        id = store.fork(&id, None).await.unwrap().id;
        open = store.open(&id, Default::default()).await.unwrap();
        turns(&mut open, &mut rng, 2).await;
    }
    let has_snapshot = seed.is_multiple_of(3);
    if has_snapshot {
        open.log.offer_snapshot(&open.fold);
    }
    if seed.is_multiple_of(2) {
        turns(&mut open, &mut rng, 1).await;
    }
    open.log.close().await.unwrap();
    if seed.is_multiple_of(7) {
        store.archive(&id, true).await.unwrap();
    }
    let folder = folder(home.path(), &id);
    let mut files = read_files(&folder);
    if !has_snapshot {
        files.remove("snapshot.json");
    }
    let snapshot = files.get("snapshot.json").map(|text| {
        let text: serde_json::Value = serde_json::from_slice(text).unwrap();
        text["at"]["seq"].as_u64().unwrap()
    });
    let bounds = open.header.parent.as_ref().map(|parent| parent.segments.clone());
    let bounds = bounds.unwrap_or_default();
    let records = records(&files, &bounds);
    let shared = u32::try_from(bounds.len()).unwrap();
    Made { seed, id, files, records, snapshot, shared }
}

/// Everything in a folder but the lease.
pub(super) fn read_files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if path.is_file() && name != "lease" {
            files.insert(name, std::fs::read(&path).unwrap());
        }
    }
    files
}

/// The number of a segment's file.
pub(super) fn segment(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log").or_else(|| name.strip_suffix(".log.zst"))?;
    (digits.len() == 8).then(|| digits.parse().ok()).flatten()
}

pub(super) fn plain(name: &str, bytes: &[u8]) -> Vec<u8> {
    if name.ends_with(".zst") { zstd::decode_all(bytes).unwrap() } else { bytes.to_vec() }
}

fn records(files: &BTreeMap<String, Vec<u8>>, bounds: &[u64]) -> Vec<Record> {
    let mut records = Vec::new();
    for (name, bytes) in files {
        let Some(segment) = segment(name) else { continue };
        let mut start = 0;
        for line in plain(name, bytes).split_inclusive(|byte| *byte == b'\n') {
            let (event, _) = Event::decode(line.strip_suffix(b"\n").unwrap()).unwrap();
            let end = start + line.len();
            let bound = bounds.get(segment as usize).copied().unwrap_or(u64::MAX);
            if event.seq <= bound {
                records.push(Record { seq: event.seq, segment, start, end, line: line.to_vec() });
            }
            start = end;
        }
    }
    assert!(records.iter().enumerate().all(|(at, record)| record.seq == at as u64));
    records
}

/// Writes what the core would write.
struct Author<'a> {
    open: &'a mut OpenSession,
    rng: &'a mut Rng,
    turn: u64,
    step: u64,
}

async fn turns(open: &mut OpenSession, rng: &mut Rng, count: usize) {
    for _ in 0..count {
        let turn = open.fold.last_turn() + 1;
        Author { open: &mut *open, rng: &mut *rng, turn, step: 0 }.turn().await;
    }
}

impl Author<'_> {
    async fn event(&mut self, event: Arc<Event>) {
        self.open.fold.apply(&event).unwrap();
        self.open.log.append(event).await.unwrap();
        // Segments roll over where a batch ends.
        if self.rng.below(4) == 0 {
            self.open.log.flush().await.unwrap();
        }
    }

    async fn put(&mut self, payload: Payload) -> u64 {
        let seq = self.open.fold.next_seq();
        let body = payload.draft(Vec::new()).unwrap();
        self.event(Arc::new(Event { seq, time: 1_700_000_000_000 + seq.cast_signed(), body }))
            .await;
        seq
    }

    fn words(&mut self) -> String {
        let all = ["tea ", "ünïcode ", "{\"seq\":7} ", "line\nbreak ", "\\\" ", "long long words "];
        (0..1 + self.rng.below(6)).map(|_| all[self.rng.below(all.len())]).collect()
    }

    async fn turn(&mut self) {
        let id = MessageId::new(format!("p-{}", self.turn));
        let message = Message::user(id.clone(), self.words());
        let inserted = vec![message.clone()];
        let target = InboxTarget::NextTurn;
        let (removed, at, outcome) = (Vec::new(), None, None);
        self.put(InboxSpliced { target, at, inserted, removed, outcome }.into()).await;
        self.put(TurnStart { turn: self.turn }.into()).await;
        for step in 1..=1 + self.rng.below(2) as u64 {
            self.step = step;
            self.put(StepStart { turn: self.turn, step }.into()).await;
            if step == 1 {
                let (message, inbox) = (message.clone(), vec![id.clone()]);
                self.put(UserMessage { message, inbox }.into()).await;
            }
            self.step().await;
            self.put(StepEnd { turn: self.turn, step }.into()).await;
            if self.rng.below(3) == 0 {
                let event = note(self.open.fold.next_seq(), &self.words());
                self.event(event).await;
            }
        }
        self.put(TurnEnd { turn: self.turn, reason: TurnEndReason::Completed }.into()).await;
    }

    async fn step(&mut self) {
        let (turn, step, attempt) = (self.turn, self.step, 1);
        let sent = RequestSent {
            turn,
            step,
            attempt,
            purpose: Purpose::Turn,
            dialect: "chat".to_owned(),
            renderer: 1,
            items: 3,
            bytes: 30,
            hash: "00".to_owned(),
            shared: 0,
            cause: None,
        };
        self.put(sent.into()).await;
        for _ in 0..self.rng.below(4) {
            let text = vec![self.words()];
            let (id, name, dt) = (None, None, vec![0]);
            let run = ChunkRun { index: 0, kind: PartKind::Text, id, name, dt, text };
            self.put(AssistantChunk { turn, step, attempt, runs: vec![run] }.into()).await;
        }
        let mut content = vec![Block::Text(self.words())];
        let calls: Vec<ToolCallBlock> = (0..self.rng.below(3))
            .map(|call| ToolCallBlock {
                id: CallId::new(format!("c-{turn}-{step}-{call}")),
                name: "look".to_owned(),
                arguments: "{\"at\":\"here\"}".to_owned(),
            })
            .collect();
        content.extend(calls.iter().cloned().map(Block::ToolCall));
        let (provider, model) = ("p".to_owned(), "m".to_owned());
        let message = Message {
            id: MessageId::new(format!("a-{turn}-{step}")),
            role: Role::Assistant,
            content,
            source: Source::Model { provider, model, replay: None },
        };
        let finish = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
        let answer = AssistantMessage { turn, step, attempt, message, finish, usage: None };
        self.put(answer.into()).await;
        for ToolCallBlock { id: call_id, name, arguments } in calls {
            self.put(ToolCall { turn, step, call_id: call_id.clone(), name, arguments }.into())
                .await;
            self.put(ToolStart { turn, step, call_id: call_id.clone() }.into()).await;
            let content = vec![Block::Text(self.words())];
            let tool_call_id = call_id.clone();
            let block = ToolResultBlock { tool_call_id, content, is_error: false };
            let message = Message {
                id: MessageId::new(format!("r-{call_id}")),
                role: Role::User,
                content: vec![Block::ToolResult(block)],
                source: Source::Tool { call_id },
            };
            self.put(ToolResult { turn, step, message, error: None, meta: None }.into()).await;
        }
    }
}
