//! Children that share what their parents wrote.

use reins_schema::SessionId;
use reins_store::{Store, StoreError};

use super::stage::{
    Stage, TURN, append, create, events, id, known, lines, note, notes, open, turn, turns,
};

/// The child has the parent's events up to `at`, and one more that says so.
async fn check(store: &dyn Store, parent: &[String], child: &SessionId, at: u64) {
    let own = lines(&events(store, child.as_str()).await);
    let shared = usize::try_from(at).unwrap() + 1;
    assert_eq!(own[..shared], parent[..shared], "{child} at {at}");
    assert!(own[shared].contains("\"session/end-seed\""), "{}", own[shared]);
    let seen = store.inspect(child, known()).await.unwrap();
    assert_eq!(seen.fold.next_seq(), own.len() as u64);
    assert!(seen.damage.is_empty(), "{:?}", seen.damage);
}

pub(super) async fn at_every_boundary(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "a", 3).await;
    let session = open(&*store, "a").await;
    // Enough for sealed segments before and between.
    notes(&session.log, 700).await;
    append(&session.log, turn(700, 4, "last")).await;
    session.log.close().await.unwrap();
    let parent = lines(&events(&*store, "a").await);
    let boundaries = [4, 9, 14, 15, 16, 200, 450, 699, 704];
    for at in boundaries {
        let header = store.fork(&id("a"), Some(at)).await.unwrap();
        assert_eq!(header.parent.as_ref().map(|p| p.at.seq), Some(at));
        check(&*store, &parent, &header.id, at).await;
        let session = open(&*store, header.id.as_str()).await;
        let (next, last) = (session.log.next_seq(), session.fold.last_turn());
        append(&session.log, turn(next, last + 1, "of the child")).await;
        session.log.close().await.unwrap();
        assert_eq!(open(&*store, header.id.as_str()).await.fold.last_turn(), last + 1);
    }
    // Without a number: the last event outside of a turn.
    let header = store.fork(&id("a"), None).await.unwrap();
    check(&*store, &parent, &header.id, 704).await;
    assert_eq!(lines(&events(&*store, "a").await), parent, "the parent did not change");
    let listing = store.list(Default::default()).await.unwrap();
    assert_eq!(listing.sessions.len(), boundaries.len() + 2);
}

pub(super) async fn outside_of_turns_only(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "a", 2).await;
    for (at, turn, before) in [(0, 1, None), (3, 1, None), (5, 2, Some(4)), (8, 2, Some(4))] {
        match store.fork(&id("a"), Some(at)).await {
            Err(StoreError::InsideTurn { turn: found, before: nearest, .. }) => {
                assert_eq!((found, nearest), (turn, before), "at {at}");
            }
            other => panic!("at {at}: {other:?}"),
        }
    }
    let beyond = store.fork(&id("a"), Some(10)).await;
    assert!(matches!(beyond, Err(StoreError::NoEvent { .. })), "{beyond:?}");
    let absent = store.fork(&id("b"), None).await;
    assert!(matches!(absent, Err(StoreError::NotFound { .. })), "{absent:?}");
    assert_eq!(store.list(Default::default()).await.unwrap().sessions.len(), 1);
}

pub(super) async fn chains_outlive_their_parents(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "generation-0", 2).await;
    let mut names = vec!["generation-0".to_owned()];
    let mut logs = vec![lines(&events(&*store, "generation-0").await)];
    for generation in 1..5_u64 {
        let parent = names.last().unwrap().clone();
        let header = store.fork(&id(&parent), None).await.unwrap();
        let name = header.id.as_str().to_owned();
        let session = open(&*store, &name).await;
        let next = session.log.next_seq();
        append(&session.log, turn(next, 2 + generation, &name)).await;
        notes(&session.log, next + TURN + 150).await;
        session.log.close().await.unwrap();
        logs.push(lines(&events(&*store, &name).await));
        names.push(name);
    }
    // A grandchild may also begin before its parent did.
    let early = store.fork(&id(&names[4]), Some(4)).await.unwrap();
    check(&*store, &logs[0], &early.id, 4).await;
    while !names.is_empty() {
        for (name, log) in names.iter().zip(&logs) {
            assert_eq!(&lines(&events(&*store, name).await), log, "{name}");
            let silent = std::sync::Arc::new(|_, _| {});
            let verified = store.verify(&id(name), known(), silent).await.unwrap();
            assert_eq!((verified.events, verified.damage.len()), (log.len() as u64, 0));
        }
        store.remove(&id(&names.remove(0))).await.unwrap();
        logs.remove(0);
    }
    assert_eq!(events(&*store, early.id.as_str()).await.len(), 6);
}

pub(super) async fn of_a_session_in_use(stage: &Stage<'_>) {
    let store = stage.store();
    let session = create(&*store, "a").await;
    append(&session.log, turn(0, 1, "first")).await;
    notes(&session.log, 400).await;
    append(&session.log, turn(400, 2, "second")).await;
    append(&session.log, turn(405, 3, "open").into_iter().take(3)).await;
    session.log.flush().await.unwrap();
    let parent = lines(&events(&*store, "a").await);
    let last = stage.store().fork(&id("a"), None).await.unwrap();
    check(&*store, &parent, &last.id, 404).await;
    let early = stage.store().fork(&id("a"), Some(4)).await.unwrap();
    check(&*store, &parent, &early.id, 4).await;
    // The writer goes on as if nothing had happened.
    append(&session.log, turn(405, 3, "open").into_iter().skip(3)).await;
    notes(&session.log, 600).await;
    session.log.close().await.unwrap();
    assert_eq!(events(&*store, "a").await.len(), 600);
    check(&*store, &parent, &last.id, 404).await;
}

pub(super) async fn parent_and_child_go_their_ways(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "a", 2).await;
    let child = store.fork(&id("a"), Some(4)).await.unwrap();
    let child = child.id.as_str();
    let (parent, own) = (open(&*store, "a").await, open(&*store, child).await);
    append(&parent.log, turn(10, 3, "of the parent")).await;
    append(&own.log, turn(6, 2, "of the child")).await;
    append(&own.log, [note(11, "a note")]).await;
    parent.log.close().await.unwrap();
    own.log.close().await.unwrap();
    let (parent, own) = (events(&*store, "a").await, events(&*store, child).await);
    assert_eq!((parent.len(), own.len()), (15, 12));
    assert_eq!(lines(&parent)[..5], lines(&own)[..5]);
    assert!(lines(&own)[8].contains("of the child"));
    assert!(!lines(&own).concat().contains("of the parent"));
    assert!(!lines(&parent).concat().contains("of the child"));
}
