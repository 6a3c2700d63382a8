//! Sessions with events that need no meaning.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_schema::{Draft, Event, FORMAT, Header, SessionId};
use reins_store::{Inspected, JsonlStore, OpenSession, Store, StoreConfig, StoreError};
use serde_json::value::to_raw_value;

pub(crate) const ID: &str = "0193-aaaa";

pub(crate) fn id() -> SessionId {
    SessionId::new(ID)
}

pub(crate) fn store(home: &Path) -> JsonlStore {
    JsonlStore::new(StoreConfig::new(home))
}

pub(crate) fn header(id: &SessionId) -> Header {
    Header {
        format: FORMAT,
        id: id.clone(),
        created_at: 1_700_000_000_000,
        cwd: "/somewhere".into(),
        parent: None,
        origin: None,
        delegation_depth: 0,
        agent_preset: None,
    }
}

/// An event of an owner that nobody knows and everybody may skip.
pub(crate) fn note(seq: u64, text: &str) -> Arc<Event> {
    let body = Draft {
        kind: "test/note".to_owned(),
        v: Some(1),
        data: to_raw_value(&serde_json::json!({ "text": text })).unwrap(),
        surface: None,
        sources: Vec::new(),
        ignorable: true,
    };
    Arc::new(Event { seq, time: 1_700_000_000_000, body })
}

pub(crate) fn line(seq: u64, text: &str) -> Vec<u8> {
    note(seq, text).encode().unwrap().0
}

pub(crate) async fn create(store: &JsonlStore) -> OpenSession {
    store.create(header(&id()), Default::default()).await.unwrap()
}

/// A closed session with this many events.
pub(crate) async fn filled(store: &JsonlStore, events: u64) {
    let session = create(store).await;
    append(&session, 0..events).await;
    session.log.close().await.unwrap();
}

pub(crate) async fn append(session: &OpenSession, numbers: std::ops::Range<u64>) {
    for seq in numbers {
        session.log.append(note(seq, &format!("event {seq}"))).await.unwrap();
    }
}

pub(crate) async fn open(store: &JsonlStore) -> Result<OpenSession, StoreError> {
    store.open(&id(), Default::default()).await
}

pub(crate) async fn inspect(store: &JsonlStore) -> Result<Inspected, StoreError> {
    store.inspect(&id(), Default::default()).await
}

/// The numbers on disk, read from 0 on.
pub(crate) async fn on_disk(store: &JsonlStore) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        let from = numbers.last().map_or(0, |last| last + 1);
        let events = store.read(&id(), from, 1000).await.unwrap();
        if events.is_empty() {
            return numbers;
        }
        numbers.extend(events.iter().map(|event| event.seq));
    }
}

pub(crate) fn folder(home: &Path) -> PathBuf {
    home.join("sessions").join(ID)
}

pub(crate) fn log_path(home: &Path) -> PathBuf {
    folder(home).join("00000000.log")
}

/// Replaces a file's content.
pub(crate) fn put(path: &Path, bytes: &[u8]) {
    use std::io::Write as _;
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(bytes).unwrap();
}
