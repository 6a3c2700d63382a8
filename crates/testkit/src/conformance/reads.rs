//! Reading, in all ways.

use super::Keeps;
use super::stage::{
    Stage, append, create, events, folded, id, known, lines, notes, numbers, open, state, turn,
    turns,
};

pub(super) async fn from_every_position(stage: &Stage<'_>) {
    const EVENTS: u64 = 900;
    let store = stage.store();
    let session = create(&*store, "a").await;
    notes(&session.log, EVENTS).await;
    session.log.flush().await.unwrap();
    for closed in [false, true] {
        let all = lines(&events(&*store, "a").await);
        assert_eq!(all.len() as u64, EVENTS);
        for from in (0..EVENTS).step_by(13).chain([EVENTS - 1, EVENTS, EVENTS + 1, u64::MAX]) {
            for limit in [1, 7, 2_000] {
                let read = lines(&store.read(&id("a"), from, limit).await.unwrap());
                let expected = usize::try_from(from).unwrap_or(usize::MAX);
                let expected = all.iter().skip(expected).take(limit);
                assert!(read.iter().eq(expected), "{from}, {limit}, closed: {closed}");
            }
        }
        if !closed {
            session.log.clone().close().await.unwrap();
        }
    }
    assert!(store.read(&id("a"), 0, 0).await.unwrap().is_empty());
}

pub(super) async fn looking_never_writes(stage: &Stage<'_>) {
    turns(&*stage.store(), "a", 60).await;
    if stage.keeps() == Keeps::InTheStore {
        return;
    }
    // The list may bring its index up to date; what follows may not.
    drop(stage.store().list(Default::default()).await.unwrap());
    let before = stage.files();
    let store = stage.store();
    let seen = store.inspect(&id("a"), known()).await.unwrap();
    assert_eq!((seen.fold.last_turn(), seen.damage.len(), seen.lease), (60, 0, None));
    assert_eq!(numbers(&*store, "a").await.len(), 300);
    let verified = store.verify(&id("a"), known(), std::sync::Arc::new(|_, _| {})).await.unwrap();
    assert_eq!((verified.events, verified.damage.len()), (300, 0));
    assert!(store.blobs(&id("a")).await.unwrap().is_empty());
    drop(store.path(&id("a")).await.unwrap());
    drop(store);
    assert!(stage.files() == before, "looking changed files");
}

pub(super) async fn a_snapshot_changes_nothing_but_time(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "a", 100).await;
    for n in 100..106 {
        let session = open(&*store, "a").await;
        let whole = folded(&*store, "a").await;
        assert!(state(&session.fold) == state(&whole), "opened with {n} turns");
        append(&session.log, turn(n * 5, n + 1, "more")).await;
        let mut fold = session.fold;
        for event in turn(n * 5, n + 1, "more") {
            fold.apply(&event).unwrap();
        }
        session.log.offer_snapshot(&fold);
        session.log.close().await.unwrap();
        let seen = store.inspect(&id("a"), known()).await.unwrap();
        assert!(state(&seen.fold) == state(&fold), "inspected after {n} turns");
    }
}

pub(super) async fn segments_roll_over_and_are_compressed(stage: &Stage<'_>) {
    let store = stage.store();
    let session = create(&*store, "a").await;
    let mut plain = 0;
    while plain < 600_000 {
        let until = session.log.next_seq() + 50;
        notes(&session.log, until).await;
        session.log.flush().await.unwrap();
        let new = store.read(&id("a"), until - 50, 50).await.unwrap();
        plain += lines(&new).iter().map(|line| line.len() as u64).sum::<u64>();
    }
    let count = session.log.next_seq();
    let mut live = session.log.subscribe(0);
    for seq in 0..count {
        assert_eq!(live.next().await.map(|event| event.seq), Some(seq));
    }
    session.log.close().await.unwrap();
    let verified = store.verify(&id("a"), known(), std::sync::Arc::new(|_, _| {})).await.unwrap();
    assert!(verified.segments > 5, "{verified:?}");
    assert_eq!((verified.events, verified.bytes), (count, plain));
    let listing = store.list(Default::default()).await.unwrap();
    assert!(listing.sessions[0].bytes < plain / 2, "{} of {plain}", listing.sessions[0].bytes);
    let session = open(&*store, "a").await;
    assert_eq!(session.log.next_seq(), count);
    notes(&session.log, count + 1).await;
    session.log.close().await.unwrap();
    assert_eq!(numbers(&*store, "a").await, (0..=count).collect::<Vec<u64>>());
}
