//! A scripted life of sessions, what it was told, and whether that is true.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use reins_schema::{Event, SessionId};
use reins_store::{DamageKind, JsonlStore, ListFilter, OpenSession, Store, StoreError};

use super::disk::Random;
use crate::setup::{header, note, put};

/// What is known of one session.
#[derive(Debug, Default)]
struct Known {
    /// The text of each event as it was appended last; `None` for what the store wrote.
    texts: Vec<Option<String>>,
    /// So many events were acknowledged.
    acknowledged: usize,
    /// Damaged by the test itself.
    lost: BTreeSet<usize>,
    blobs: Vec<(String, Vec<u8>)>,
    archived: Option<bool>,
    removal: Removal,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Removal {
    #[default]
    None,
    Tried,
    Done,
}

/// A life, and what it was told.
pub(super) struct Life {
    random: Random,
    sessions: BTreeMap<SessionId, Known>,
    appended: usize,
}

type Told = Result<(), StoreError>;

impl Life {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed ^ 0x5EED), sessions: BTreeMap::new(), appended: 0 }
    }

    /// Whatever is refused, the next thing is tried.
    pub(super) async fn live(&mut self, store: &JsonlStore) {
        let (first, third) = (SessionId::new("first"), SessionId::new("third"));
        drop(self.begin(store, &first).await);
        drop(self.extend(store, &first).await);
        let fork = self.fork(store, &first).await.ok();
        drop(self.tear(store, &first).await);
        drop(self.spoil(store, &first).await);
        drop(self.begin_short(store, &third).await);
        drop(self.remove(store, &third).await);
        drop(self.archive(store, &first).await);
        if let Some(fork) = &fork {
            drop(self.extend(store, fork).await);
        }
    }

    /// Another process: what it finds and what it appends is acknowledged.
    pub(super) async fn go_on(&mut self, store: &JsonlStore) {
        self.begin_short(store, &SessionId::new("fourth")).await.unwrap();
        let ids: Vec<SessionId> = self.sessions.keys().cloned().collect();
        for id in ids {
            let mut session = match self.open(store, &id).await {
                Ok(session) => session,
                Err(error) => {
                    let removal = &self.sessions[&id].removal;
                    assert!(*removal != Removal::None, "{id} does not open: {error}");
                    continue;
                }
            };
            session.log.flush().await.unwrap();
            let next = usize::try_from(session.log.next_seq()).unwrap();
            self.known(&id).acknowledged = next;
            self.keep_blob(store, &id).await.unwrap();
            if self.random.below(2) == 0 {
                self.append(&id, &mut session, 2).await.unwrap();
                session.log.close().await.unwrap();
                let known = self.known(&id);
                known.acknowledged = known.texts.len();
            }
        }
    }

    fn known(&mut self, id: &SessionId) -> &mut Known {
        self.sessions.get_mut(id).unwrap()
    }

    async fn begin(&mut self, store: &JsonlStore, id: &SessionId) -> Told {
        let mut session = store.create(header(id), Default::default()).await?;
        self.sessions.insert(id.clone(), Known::default());
        self.append(id, &mut session, 3).await?;
        self.flush(id, &session).await?;
        self.keep_blob(store, id).await?;
        self.append(id, &mut session, 7).await?;
        self.flush(id, &session).await?;
        session.log.offer_snapshot(&session.fold);
        self.append(id, &mut session, 2).await?;
        self.close(id, session).await
    }

    async fn keep_blob(&mut self, store: &JsonlStore, id: &SessionId) -> Told {
        let blob = format!("the blob of {id}").into_bytes();
        let name = store.put_blob(id, blob.clone()).await?;
        self.known(id).blobs.push((name, blob));
        Ok(())
    }

    async fn begin_short(&mut self, store: &JsonlStore, id: &SessionId) -> Told {
        let mut session = store.create(header(id), Default::default()).await?;
        self.sessions.insert(id.clone(), Known::default());
        self.append(id, &mut session, 2).await?;
        self.close(id, session).await
    }

    async fn extend(&mut self, store: &JsonlStore, id: &SessionId) -> Told {
        let mut session = self.open(store, id).await?;
        self.append(id, &mut session, 4).await?;
        self.flush(id, &session).await?;
        self.append(id, &mut session, 1).await?;
        self.close(id, session).await
    }

    async fn open(
        &mut self,
        store: &JsonlStore,
        id: &SessionId,
    ) -> Result<OpenSession, StoreError> {
        let session = store.open(id, Default::default()).await?;
        let next = usize::try_from(session.log.next_seq()).unwrap();
        // It may have been made by a call that was not told so.
        let known = self.sessions.entry(id.clone()).or_default();
        let last = (0..known.acknowledged).rev().find(|seq| !known.lost.contains(seq));
        assert!(last.is_none_or(|last| last < next), "{id}: {next} of {known:?}");
        // What was not acknowledged may be there or not.
        known.texts.truncate(next);
        known.texts.resize(next, None);
        Ok(session)
    }

    async fn append(&mut self, id: &SessionId, session: &mut OpenSession, count: usize) -> Told {
        for _ in 0..count {
            self.appended += 1;
            let size = [10, 60, 300, 700][self.random.below(4)];
            let text = format!("{id} {} {}", self.appended, "x".repeat(size));
            let event = note(session.log.next_seq(), &text);
            session.fold.apply(&event).unwrap();
            session.log.append(event).await?;
            self.known(id).texts.push(Some(text));
        }
        Ok(())
    }

    async fn flush(&mut self, id: &SessionId, session: &OpenSession) -> Told {
        session.log.flush().await?;
        let known = self.known(id);
        known.acknowledged = known.texts.len();
        Ok(())
    }

    async fn close(&mut self, id: &SessionId, session: OpenSession) -> Told {
        session.log.close().await?;
        let known = self.known(id);
        known.acknowledged = known.texts.len();
        Ok(())
    }

    async fn fork(&mut self, store: &JsonlStore, id: &SessionId) -> Result<SessionId, StoreError> {
        let header = store.fork(id, None).await?;
        let at = usize::try_from(header.parent.unwrap().at.seq).unwrap();
        let parent = &self.sessions[id];
        let mut texts = parent.texts[..=at].to_vec();
        // The store's own first event.
        texts.push(None);
        let (lost, blobs) = (parent.lost.clone(), parent.blobs.clone());
        let known = Known { acknowledged: texts.len(), texts, lost, blobs, ..Known::default() };
        self.sessions.insert(header.id.clone(), known);
        Ok(header.id)
    }

    /// The log ends in the middle of a record, and is opened.
    async fn tear(&mut self, store: &JsonlStore, id: &SessionId) -> Told {
        let Some(path) = last_log(store, id).filter(|_| self.sessions.contains_key(id)) else {
            return Ok(());
        };
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend_from_slice(b"{\"seq\":99,\"time\":17");
        put(&path, &bytes);
        self.extend(store, id).await
    }

    /// A byte in the middle of the log is changed, and it is opened.
    async fn spoil(&mut self, store: &JsonlStore, id: &SessionId) -> Told {
        let mut session = self.open(store, id).await?;
        self.append(id, &mut session, 3).await?;
        self.close(id, session).await?;
        let Some(path) = last_log(store, id) else { return Ok(()) };
        let mut bytes = std::fs::read(&path).unwrap();
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let Some(middle) = lines.len().checked_sub(2) else { return Ok(()) };
        let before: usize = lines[..middle].iter().map(|line| line.len()).sum();
        let (event, _) = Event::decode(lines[middle].strip_suffix(b"\n").unwrap()).unwrap();
        bytes[before + 60] ^= 1;
        self.known(id).lost.insert(usize::try_from(event.seq).unwrap());
        put(&path, &bytes);
        self.extend(store, id).await
    }

    async fn remove(&mut self, store: &JsonlStore, id: &SessionId) -> Told {
        if let Some(known) = self.sessions.get_mut(id) {
            known.removal = Removal::Tried;
        }
        store.remove(id).await?;
        self.known(id).removal = Removal::Done;
        Ok(())
    }

    async fn archive(&mut self, store: &JsonlStore, id: &SessionId) -> Told {
        if let Some(known) = self.sessions.get_mut(id) {
            known.archived = None;
            // It is mended first, and the store says so in its log.
            known.texts.truncate(known.acknowledged);
        }
        store.archive(id, true).await?;
        if let Some(known) = self.sessions.get_mut(id) {
            known.archived = Some(true);
        }
        Ok(())
    }

    /// Everything that was acknowledged is there, nothing else is damaged, and all of it goes on.
    pub(super) async fn check(mut self, store: &JsonlStore) {
        let wanted = ListFilter { archived: true, ..ListFilter::default() };
        let listing = store.list(wanted).await.unwrap();
        assert_eq!(listing.damaged, [], "the list");
        let listed: BTreeSet<SessionId> =
            listing.sessions.iter().map(|summary| summary.header.id.clone()).collect();
        let known: BTreeSet<SessionId> = self.sessions.keys().cloned().collect();
        for id in listed.union(&known) {
            let known = self.sessions.remove(id).unwrap_or_default();
            if known.removal == Removal::Done {
                assert!(!listed.contains(id), "{id} is back");
            } else if known.removal == Removal::None || listed.contains(id) {
                assert!(listed.contains(id), "{id} is gone");
                let summary = listing.sessions.iter().find(|s| s.header.id == *id).unwrap();
                assert!(known.archived.is_none_or(|archived| summary.archived == archived));
                check(store, id, &known).await;
            }
        }
    }
}

async fn check(store: &JsonlStore, id: &SessionId, known: &Known) {
    let seen = store.inspect(id, Default::default()).await.unwrap();
    for damage in &seen.damage {
        let is_ours = match damage.kind {
            DamageKind::Torn => true,
            DamageKind::Hole { first, last } => {
                (first..=last).all(|seq| known.lost.contains(&usize::try_from(seq).unwrap()))
            }
            _ => false,
        };
        assert!(is_ours, "{id}: {damage}, {known:?}");
    }
    check_events(store, id, known).await;
    let session = store.open(id, Default::default()).await.unwrap();
    let next = session.log.next_seq();
    session.log.append(note(next, "afterwards")).await.unwrap();
    session.log.close().await.unwrap();
    let last = store.read(id, next, 10).await.unwrap();
    assert_eq!(last.iter().map(|event| event.seq).collect::<Vec<u64>>(), [next], "{id}");
    check_events(store, id, known).await;
    for (name, blob) in &known.blobs {
        assert_eq!(store.get_blob(id, name).await.unwrap(), *blob, "{id}");
    }
}

async fn check_events(store: &JsonlStore, id: &SessionId, known: &Known) {
    let events = store.read(id, 0, 10_000).await.unwrap();
    let there: BTreeMap<usize, &Event> =
        events.iter().map(|event| (usize::try_from(event.seq).unwrap(), event)).collect();
    assert_eq!(there.len(), events.len(), "{id}: an event is there twice");
    for (seq, text) in known.texts.iter().enumerate() {
        let Some(event) = there.get(&seq) else {
            let may_be_absent = seq >= known.acknowledged || known.lost.contains(&seq);
            assert!(may_be_absent, "{id}: event {seq} was acknowledged, {known:?}");
            continue;
        };
        // The last check appended one where nothing was acknowledged.
        let is_new = seq >= known.acknowledged && event.body.data.get().contains("afterwards");
        if let Some(text) = text.as_ref().filter(|_| !is_new) {
            assert!(event.body.data.get().contains(text), "{id}: event {seq} is another one");
        }
    }
}

/// The segment that is written to.
fn last_log(store: &JsonlStore, id: &SessionId) -> Option<PathBuf> {
    let folder = store.home().join("sessions").join(id.as_str());
    let entries = std::fs::read_dir(folder).ok()?;
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|kind| kind == "log")).max()
}
