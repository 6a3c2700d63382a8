//! Making, writing, closing, opening.

use std::sync::Arc;

use reins_store::StoreError;

use super::Keeps;
use super::stage::{
    Stage, append, create, events, folded, header, id, known, note, notes, numbers, open, required,
    turn, turns,
};

pub(super) async fn a_session_is_made_written_closed_and_opened(stage: &Stage<'_>) {
    let store = stage.store();
    let session = create(&*store, "a").await;
    assert_eq!((session.header.clone(), session.log.next_seq()), (header("a"), 0));
    append(&session.log, turn(0, 1, "hello")).await;
    session.log.flush().await.unwrap();
    assert_eq!(numbers(&*stage.store(), "a").await, [0, 1, 2, 3, 4]);
    session.log.close().await.unwrap();
    let session = open(&*stage.store(), "a").await;
    assert_eq!((session.log.next_seq(), session.fold.next_seq()), (5, 5));
    assert_eq!((session.fold.last_turn(), session.header), (1, header("a")));
    append(&session.log, turn(5, 2, "again")).await;
    // Dropping is closing.
    drop(session.log);
    let seen = stage.store().inspect(&id("a"), known()).await.unwrap();
    assert_eq!((seen.fold.next_seq(), seen.damage.len()), (10, 0));
    let again = stage.store().create(header("a"), known()).await;
    assert!(matches!(again, Err(StoreError::AlreadyExists { .. })), "{again:?}");
    let absent = stage.store().open(&id("b"), known()).await;
    assert!(matches!(absent, Err(StoreError::NotFound { .. })), "{absent:?}");
}

pub(super) async fn subscribers_see_every_event_once(stage: &Stage<'_>) {
    let store = stage.store();
    let session = create(&*store, "a").await;
    notes(&session.log, 2_000).await;
    session.log.flush().await.unwrap();
    let mut early = session.log.subscribe(0);
    let mut late = session.log.subscribe(1_999);
    notes(&session.log, 2_500).await;
    session.log.close().await.unwrap();
    for (subscription, from) in [(&mut early, 0), (&mut late, 1_999)] {
        for seq in from..2_500 {
            let next = subscription.next().await.map(|event| event.seq);
            assert_eq!(next, Some(seq), "{:?}", subscription.failure());
        }
        assert!(subscription.next().await.is_none());
        assert!(subscription.failure().is_none());
    }
}

pub(super) async fn numbers_are_contiguous(stage: &Stage<'_>) {
    let store = stage.store();
    let session = create(&*store, "a").await;
    notes(&session.log, 3).await;
    for wrong in [2, 4, 0] {
        let refused = session.log.append(Arc::new(note(wrong, ""))).await;
        assert!(matches!(refused, Err(StoreError::OutOfOrder { .. })), "{refused:?}");
    }
    notes(&session.log, 4).await;
    session.log.close().await.unwrap();
    assert_eq!(numbers(&*store, "a").await, [0, 1, 2, 3]);
}

pub(super) async fn racing_writers_never_mix(stage: &Stage<'_>) {
    const EVENTS: u64 = 10_000;
    let (one, other) = (stage.store(), stage.store());
    create(&*one, "a").await.log.close().await.unwrap();
    let id = id("a");
    let (first, second) = tokio::join!(one.open(&id, known()), other.open(&id, known()));
    let (session, refused, loser) = match (first, second) {
        (Ok(session), Err(refused)) => (session, refused, other),
        (Err(refused), Ok(session)) => (session, refused, one),
        both => panic!("one opens, the other is refused: {both:?}"),
    };
    assert!(matches!(refused, StoreError::Busy { .. }), "{refused}");
    let writing = notes(&session.log, EVENTS);
    let trying = async {
        for _ in 0..50 {
            let refused = loser.open(&id, known()).await;
            assert!(matches!(refused, Err(StoreError::Busy { .. })), "{refused:?}");
        }
    };
    tokio::join!(writing, trying);
    session.log.close().await.unwrap();
    assert_eq!(numbers(&*loser, "a").await, (0..EVENTS).collect::<Vec<u64>>());
}

pub(super) async fn a_new_session_that_is_discarded_was_never_there(stage: &Stage<'_>) {
    let store = stage.store();
    let session = create(&*store, "a").await;
    notes(&session.log, 3).await;
    session.log.discard().await.unwrap();
    assert!(store.list(Default::default()).await.unwrap().sessions.is_empty());
    create(&*store, "a").await.log.close().await.unwrap();
    // One that was there before stays.
    open(&*store, "a").await.log.discard().await.unwrap();
    assert_eq!(store.list(Default::default()).await.unwrap().sessions.len(), 1);
}

pub(super) async fn unknown_types_are_kept(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "a", 1).await;
    let session = open(&*store, "a").await;
    append(&session.log, [note(5, "may be skipped")]).await;
    session.log.close().await.unwrap();
    let session = open(&*store, "a").await;
    assert_eq!(session.fold.read_only(), None);
    append(&session.log, [required(6)]).await;
    session.log.close().await.unwrap();
    let seen = store.inspect(&id("a"), known()).await.unwrap();
    let reason = seen.fold.read_only().map(ToOwned::to_owned);
    assert!(reason.is_some_and(|reason| reason.contains("test/required")));
    assert!(seen.damage.is_empty(), "{:?}", seen.damage);
    assert_eq!(events(&*store, "a").await[6].body.kind, "test/required");
    assert_eq!(folded(&*store, "a").await.next_seq(), 7);
}

pub(super) async fn another_store_sees_everything(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "a", 2).await;
    let name = store.put_blob(&id("a"), b"bytes".to_vec()).await.unwrap();
    let other = stage.another();
    if stage.keeps() == Keeps::InTheStore {
        assert!(other.list(Default::default()).await.unwrap().sessions.is_empty());
        return;
    }
    assert_eq!(other.list(Default::default()).await.unwrap().sessions.len(), 1);
    assert_eq!(numbers(&*other, "a").await.len(), 10);
    assert_eq!(other.get_blob(&id("a"), &name).await.unwrap(), b"bytes");
    let session = open(&*other, "a").await;
    append(&session.log, turn(10, 3, "by the other")).await;
    session.log.close().await.unwrap();
    assert_eq!(numbers(&*store, "a").await.len(), 15);
}
