//! Logs in several segments, and snapshots: what a session means never depends on them.

use std::sync::Arc;

use reins_schema::{Event, Payload, TurnEnd, TurnStart};
use reins_session::Fold;
use reins_store::{JsonlStore, OpenSession, Store, StoreConfig};

use crate::setup::{append, create, id, note, open};

/// Segments and snapshots of a few events.
pub(crate) fn tiny(home: &std::path::Path) -> JsonlStore {
    let config = StoreConfig { segment_bytes: 2000, snapshot_events: 10, ..StoreConfig::new(home) };
    JsonlStore::new(config)
}

/// Appends events that the fold takes too, and makes them durable.
pub(crate) async fn extend(session: &mut OpenSession, events: u64) {
    for _ in 0..events {
        let event = note(session.fold.next_seq(), "something that takes its room in the log");
        session.fold.apply(&event).unwrap();
        session.log.append(event).await.unwrap();
    }
    session.log.flush().await.unwrap();
}

fn surface(fold: &Fold) -> Vec<u64> {
    fold.surface().nodes().iter().map(|node| node.seq).collect()
}

#[tokio::test]
async fn a_log_in_many_segments_reads_as_one() {
    let home = tempfile::tempdir().unwrap();
    let store = tiny(home.path());
    let mut session = create(&store).await;
    for _ in 0..20 {
        extend(&mut session, 10).await;
    }
    session.log.close().await.unwrap();
    let verified = store.verify(&id(), Default::default(), Arc::new(|_, _| {})).await.unwrap();
    assert!(verified.segments > 5, "{verified:?}");
    assert_eq!((verified.events, &verified.damage[..]), (200, &[][..]));
    for from in [0, 1, 57, 199] {
        let events = store.read(&id(), from, 1000).await.unwrap();
        let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (from..200).collect::<Vec<u64>>());
    }
    let session = open(&store).await.unwrap();
    assert_eq!((session.fold.next_seq(), session.recovered.len()), (200, 0));
    let mut events = session.log.subscribe(0);
    for seq in 0..200 {
        assert_eq!(events.next().await.unwrap().seq, seq);
    }
    session.log.close().await.unwrap();
}

/// A snapshot is written at the end, a session opens from it, and it means the same as the log.
#[tokio::test]
async fn opening_from_a_snapshot_is_opening_from_the_log() {
    let home = tempfile::tempdir().unwrap();
    let store = tiny(home.path());
    let mut session = create(&store).await;
    assert!(!session.log.wants_snapshot());
    extend(&mut session, 9).await;
    assert!(!session.log.wants_snapshot());
    extend(&mut session, 40).await;
    assert!(session.log.wants_snapshot());
    session.log.offer_snapshot(&session.fold);
    assert!(!session.log.wants_snapshot(), "one is on its way");
    session.log.close().await.unwrap();
    let session = open(&store).await.unwrap();
    assert_eq!(session.fold.next_seq(), 49);
    assert!(!session.log.wants_snapshot(), "the stored one counts");
    let other =
        JsonlStore::new(StoreConfig { snapshot_events: 0, ..StoreConfig::new(home.path()) });
    let seen = other.inspect(&id(), Default::default()).await.unwrap();
    assert_eq!(surface(&seen.fold), surface(&session.fold));
    assert_eq!(seen.fold.snapshot().unwrap(), session.fold.snapshot().unwrap());
    session.log.close().await.unwrap();
}

/// Of a fold that is ahead of the log, a snapshot is stored when the log has caught up.
#[tokio::test]
async fn a_snapshot_waits_for_its_events() {
    let home = tempfile::tempdir().unwrap();
    let store = tiny(home.path());
    let mut session = create(&store).await;
    let events: Vec<Arc<Event>> = (0..30).map(|seq| note(seq, "x")).collect();
    for event in &events {
        session.fold.apply(event).unwrap();
    }
    session.log.offer_snapshot(&session.fold);
    for event in events {
        session.log.append(event).await.unwrap();
    }
    session.log.close().await.unwrap();
    let session = open(&store).await.unwrap();
    assert_eq!(session.fold.next_seq(), 30);
    assert!(!session.log.wants_snapshot());
    append(&session, 30..31).await;
    session.log.close().await.unwrap();
}

/// A turn with nothing in it, as events that begin with number `seq`.
pub(crate) fn turn(seq: u64, turn: u64) -> [Arc<Event>; 2] {
    let start = Payload::TurnStart(TurnStart { turn });
    let end = Payload::TurnEnd(TurnEnd { turn, reason: reins_schema::TurnEndReason::Completed });
    [(seq, start), (seq + 1, end)].map(|(seq, payload)| {
        Arc::new(Event { seq, time: 1, body: payload.draft(Vec::new()).unwrap() })
    })
}
