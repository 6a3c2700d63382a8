//! Where a case plays: a home, stores on it, and events to write.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_schema::{Draft, Event, FORMAT, Header, SessionId, SurfaceOp};
use reins_session::{Fold, KnownTypes};
use reins_store::{Log, OpenSession, Store};
use serde_json::{Value, json};

use super::Keeps;

/// A home, and who makes stores on it.
pub(super) struct Stage<'a> {
    keeps: Keeps,
    make: &'a dyn Fn(&Path) -> Arc<dyn Store>,
    home: tempfile::TempDir,
    only: Option<Arc<dyn Store>>,
}

pub(super) const TIME: i64 = 1_700_000_000_000;

impl<'a> Stage<'a> {
    pub(super) fn new(keeps: Keeps, make: &'a dyn Fn(&Path) -> Arc<dyn Store>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let only = (keeps == Keeps::InTheStore).then(|| make(home.path()));
        Self { keeps, make, home, only }
    }

    /// A store on the home: a new one, where that sees the same sessions.
    pub(super) fn store(&self) -> Arc<dyn Store> {
        match &self.only {
            Some(store) => Arc::clone(store),
            None => (self.make)(self.home.path()),
        }
    }

    /// One more store for the home, even where it sees nothing of the first one's sessions.
    pub(super) fn another(&self) -> Arc<dyn Store> {
        (self.make)(self.home.path())
    }

    /// A store with a home of its own.
    pub(super) fn elsewhere(&self, home: &Path) -> Arc<dyn Store> {
        (self.make)(home)
    }

    pub(super) fn keeps(&self) -> Keeps {
        self.keeps
    }

    /// All files of the home with their content. SQLite's files for readers are no content: they
    /// come and go with whoever reads. No store may be in use: opening its files here would take
    /// its locks away.
    pub(super) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        tree(self.home.path(), &mut files);
        files
    }

    pub(super) fn end(self) {
        if self.keeps == Keeps::InTheStore {
            assert!(self.files().is_empty(), "nothing may be kept in the home");
        }
    }
}

fn tree(folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.to_string_lossy().into_owned();
        if path.is_dir() {
            tree(&path, files);
            files.insert(path, Vec::new());
        } else if !name.ends_with("-shm") {
            let content = fs::read(&path).unwrap();
            if !(name.ends_with("-wal") && content.is_empty()) {
                files.insert(path, content);
            }
        }
    }
}

pub(super) fn id(name: &str) -> SessionId {
    SessionId::new(name)
}

pub(super) fn header(name: &str) -> Header {
    Header {
        format: FORMAT,
        id: id(name),
        created_at: TIME,
        cwd: "/somewhere".into(),
        parent: None,
        origin: None,
        delegation_depth: 0,
        agent_preset: None,
    }
}

pub(super) fn known() -> KnownTypes {
    KnownTypes::default()
}

fn event(seq: u64, kind: &str, v: Option<u32>, data: &Value) -> Event {
    let body = Draft {
        kind: kind.to_owned(),
        v,
        data: serde_json::value::to_raw_value(data).unwrap(),
        surface: (kind == "user/message").then_some(SurfaceOp::Append),
        sources: Vec::new(),
        ignorable: false,
    };
    Event { seq, time: TIME + i64::try_from(seq).unwrap(), body }
}

/// An event of an owner that nobody knows and everybody may skip.
pub(super) fn note(seq: u64, text: &str) -> Event {
    let mut event = event(seq, "test/note", Some(1), &json!({ "text": text }));
    event.body.ignorable = true;
    event
}

/// An event of an owner that nobody knows and nobody may skip.
pub(super) fn required(seq: u64) -> Event {
    event(seq, "test/required", Some(1), &json!({}))
}

/// A whole turn: start, a step with one message, end.
pub(super) fn turn(seq: u64, turn: u64, text: &str) -> Vec<Event> {
    let message = json!({
        "id": format!("message-{seq}"), "role": "user",
        "content": [{ "type": "text", "text": text }], "source": { "kind": "user" },
    });
    let events = [
        ("turn/start", json!({ "turn": turn })),
        ("step/start", json!({ "turn": turn, "step": 1 })),
        ("user/message", json!({ "message": message })),
        ("step/end", json!({ "turn": turn, "step": 1 })),
        ("turn/end", json!({ "turn": turn, "reason": { "kind": "completed" } })),
    ];
    (seq..).zip(events).map(|(seq, (kind, data))| event(seq, kind, None, &data)).collect()
}

/// Events of a turn.
pub(super) const TURN: u64 = 5;

pub(super) async fn append(log: &Log, events: impl IntoIterator<Item = Event>) {
    for event in events {
        log.append(Arc::new(event)).await.unwrap();
    }
}

/// Appends notes up to a number.
pub(super) async fn notes(log: &Log, until: u64) {
    for seq in log.next_seq()..until {
        append(log, [note(seq, &format!("note {seq} {}", "x".repeat(text(seq))))]).await;
    }
}

/// Lengths of every kind.
fn text(seq: u64) -> usize {
    usize::try_from(seq * 7919 % 600).unwrap()
}

/// Makes a session with so many turns and closes it.
pub(super) async fn turns(store: &dyn Store, name: &str, count: u64) {
    let session = create(store, name).await;
    for n in 0..count {
        append(&session.log, turn(n * TURN, n + 1, &format!("turn {n} of {name}"))).await;
    }
    session.log.close().await.unwrap();
}

pub(super) async fn create(store: &dyn Store, name: &str) -> OpenSession {
    store.create(header(name), known()).await.unwrap()
}

pub(super) async fn open(store: &dyn Store, name: &str) -> OpenSession {
    let session = store.open(&id(name), known()).await.unwrap();
    assert!(session.recovered.is_empty(), "{:?}", session.recovered);
    session
}

/// All events on disk.
pub(super) async fn events(store: &dyn Store, name: &str) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    loop {
        let from = events.last().map_or(0, |last| last.seq + 1);
        let more = store.read(&id(name), from, 300).await.unwrap();
        if more.is_empty() {
            return events;
        }
        events.extend(more);
    }
}

pub(super) async fn numbers(store: &dyn Store, name: &str) -> Vec<u64> {
    events(store, name).await.iter().map(|event| event.seq).collect()
}

/// The lines of events, to compare them.
pub(super) fn lines(events: &[Event]) -> Vec<String> {
    events.iter().map(|event| String::from_utf8(event.encode().unwrap().0).unwrap()).collect()
}

/// What folding everything that is on disk gives.
pub(super) async fn folded(store: &dyn Store, name: &str) -> Fold {
    let header = store.inspect(&id(name), known()).await.unwrap().header;
    let mut fold = Fold::new(header, known());
    for event in events(store, name).await {
        fold.apply(&event).unwrap();
    }
    fold
}

/// Everything that a fold knows, to compare it.
pub(super) fn state(fold: &Fold) -> Value {
    let mut state: Value = serde_json::from_str(&fold.snapshot().unwrap()).unwrap();
    // A set.
    if let Some(Value::Array(used)) = state.pointer_mut("/inbox/used") {
        used.sort_by_key(ToString::to_string);
    }
    state
}
