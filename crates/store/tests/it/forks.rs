//! Forks: children that share what their parent had, and lose nothing with it.

use std::sync::Arc;

use reins_schema::{Event, SessionId, SourceRange};
use reins_store::{JsonlStore, OpenSession, Store, StoreError};

use crate::segments::{extend, tiny, turn};
use crate::setup::{create, id, log_path, put};

async fn open(store: &JsonlStore, id: &SessionId) -> OpenSession {
    store.open(id, Default::default()).await.unwrap()
}

async fn numbers(store: &JsonlStore, id: &SessionId) -> Vec<u64> {
    store.read(id, 0, 10_000).await.unwrap().iter().map(|event| event.seq).collect()
}

/// A parent of 100 events in several segments, that nobody uses.
async fn parent(store: &JsonlStore) {
    let mut session = create(store).await;
    for _ in 0..10 {
        extend(&mut session, 10).await;
    }
    session.log.close().await.unwrap();
}

fn seen(events: &[Event]) -> Vec<(u64, String)> {
    events.iter().map(|event| (event.seq, event.body.data.get().to_owned())).collect()
}

#[tokio::test]
async fn a_child_has_the_events_up_to_the_boundary_and_goes_on_by_itself() {
    let home = tempfile::tempdir().unwrap();
    let store = tiny(home.path());
    parent(&store).await;
    let before = store.read(&id(), 0, 1000).await.unwrap();
    for at in [0, 1, 13, 50, 98, 99] {
        let header = store.fork(&id(), Some(at)).await.unwrap();
        let facts = header.parent.clone().unwrap();
        assert_eq!((facts.session, facts.at.seq), (id(), at));
        let events = store.read(&header.id, 0, 1000).await.unwrap();
        let count = usize::try_from(at).unwrap() + 1;
        assert_eq!(seen(&events[..count]), seen(&before[..count]));
        assert_eq!(events[count].body.kind, "session/end-seed");
        assert_eq!(events.len(), count + 1);
        let mut child = open(&store, &header.id).await;
        assert_eq!((child.header.clone(), &child.recovered[..]), (header.clone(), &[][..]));
        extend(&mut child, 25).await;
        child.log.close().await.unwrap();
        assert_eq!(numbers(&store, &header.id).await, (0..at + 27).collect::<Vec<_>>());
        let verified = store.verify(&header.id, Default::default(), Arc::new(|_, _| {})).await;
        assert_eq!(verified.unwrap().damage, []);
    }
    assert_eq!(seen(&store.read(&id(), 0, 1000).await.unwrap()), seen(&before));
    store.remove(&id()).await.unwrap();
    assert!(matches!(store.read(&id(), 0, 1).await, Err(StoreError::NotFound { .. })));
}

#[tokio::test]
async fn chains_of_forks_survive_the_removal_of_their_ancestors() {
    let home = tempfile::tempdir().unwrap();
    let store = tiny(home.path());
    parent(&store).await;
    let blob = store.put_blob(&id(), b"kept".to_vec()).await.unwrap();
    let (mut ancestors, mut last) = (vec![id()], id());
    for at in [90, 80, 60, 30, 10] {
        last = store.fork(&last, Some(at)).await.unwrap().id;
        let mut child = open(&store, &last).await;
        extend(&mut child, 60).await;
        child.log.close().await.unwrap();
        ancestors.push(last.clone());
    }
    ancestors.pop();
    for ancestor in ancestors {
        store.remove(&ancestor).await.unwrap();
    }
    assert_eq!(numbers(&store, &last).await, (0..72).collect::<Vec<_>>());
    assert_eq!(store.get_blob(&last, &blob).await.unwrap(), b"kept");
    let child = open(&store, &last).await;
    assert_eq!((child.fold.next_seq(), child.recovered.len()), (72, 0));
    child.log.close().await.unwrap();
}

#[tokio::test]
async fn a_parent_in_use_is_forked_and_not_disturbed() {
    let home = tempfile::tempdir().unwrap();
    let store = tiny(home.path());
    let mut session = create(&store).await;
    let mut children = Vec::new();
    for round in 1..20 {
        extend(&mut session, 7).await;
        children.push((store.fork(&id(), None).await.unwrap().id, round * 7));
    }
    session.log.close().await.unwrap();
    for (child, events) in children {
        assert_eq!(numbers(&store, &child).await, (0..=events).collect::<Vec<_>>());
    }
    assert_eq!(numbers(&store, &id()).await, (0..133).collect::<Vec<_>>());
}

#[tokio::test]
async fn only_a_boundary_between_turns_can_be_forked() {
    let home = tempfile::tempdir().unwrap();
    let store = tiny(home.path());
    let mut session = create(&store).await;
    assert!(matches!(store.fork(&id(), None).await, Err(StoreError::NoEvent { last: None, .. })));
    extend(&mut session, 3).await;
    for event in turn(3, 1).into_iter().chain([turn(5, 2)[0].clone()]) {
        session.fold.apply(&event).unwrap();
        session.log.append(event).await.unwrap();
    }
    session.log.flush().await.unwrap();
    for (at, before) in [(3, 2), (5, 4)] {
        let error = store.fork(&id(), Some(at)).await.unwrap_err();
        let StoreError::InsideTurn { before: found, .. } = error else { panic!("{error}") };
        assert_eq!(found, Some(before));
    }
    let error = store.fork(&id(), Some(6)).await.unwrap_err();
    assert!(matches!(error, StoreError::NoEvent { seq: 6, last: Some(5), .. }), "{error}");
    let header = store.fork(&id(), None).await.unwrap();
    assert_eq!(header.parent.unwrap().at.seq, 4);
    session.log.close().await.unwrap();
    assert_eq!(store.fork(&id(), None).await.unwrap().parent.unwrap().at.seq, 4);
}

/// What is damaged below the boundary is a hole of the child as well, and of it alone to mend.
#[tokio::test]
async fn a_child_inherits_the_holes_of_its_parent() {
    let home = tempfile::tempdir().unwrap();
    let store = crate::setup::store(home.path());
    let mut session = create(&store).await;
    extend(&mut session, 20).await;
    session.log.close().await.unwrap();
    let path = log_path(home.path());
    let mut log = std::fs::read(&path).unwrap();
    let line = log.len() / 20;
    log[line * 5 + 20] ^= 1;
    put(&path, &log);
    for at in [10, 19] {
        let header = store.fork(&id(), Some(at)).await.unwrap();
        assert_eq!(header.parent.clone().unwrap().at.seq, at);
        assert_eq!(std::fs::read(&path).unwrap(), log, "the parent stays as it was");
        let child = open(&store, &header.id).await;
        assert_eq!(child.recovered.len(), 1, "{:?}", child.recovered);
        assert_eq!(child.recovered[0].lost, [SourceRange::One(5)]);
        assert_eq!(child.fold.next_seq(), at + 2);
        child.log.close().await.unwrap();
        let there: Vec<u64> = (0..at + 2).filter(|seq| *seq != 5).collect();
        assert_eq!(numbers(&store, &header.id).await, there);
    }
    let error = store.fork(&id(), Some(5)).await.unwrap_err();
    assert!(matches!(error, StoreError::NoEvent { seq: 5, .. }), "{error}");
}

/// A child opens from its own snapshot at once, and it means what its log means.
#[tokio::test]
async fn a_child_comes_with_a_snapshot() {
    let home = tempfile::tempdir().unwrap();
    let store = tiny(home.path());
    parent(&store).await;
    let header = store.fork(&id(), Some(70)).await.unwrap();
    let child = open(&store, &header.id).await;
    assert!(!child.log.wants_snapshot(), "it has one");
    let folder = home.path().join("sessions").join(header.id.as_str());
    child.log.close().await.unwrap();
    std::fs::remove_file(folder.join("snapshot.json")).unwrap();
    let again = open(&store, &header.id).await;
    assert_eq!(again.fold.snapshot().unwrap(), child.fold.snapshot().unwrap());
    again.log.close().await.unwrap();
}

/// What counts of a segment is said by its number, so a lost one must not move the others.
#[tokio::test]
async fn a_fork_of_a_log_with_a_lost_segment_hides_nothing() {
    let home = tempfile::tempdir().unwrap();
    let store = tiny(home.path());
    parent(&store).await;
    let first = store.fork(&id(), Some(50)).await.unwrap();
    let mut child = open(&store, &first.id).await;
    extend(&mut child, 3).await;
    child.log.close().await.unwrap();
    let folder = home.path().join("sessions").join(first.id.as_str());
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let lost = files.filter(|path| path.extension().is_some_and(|end| end == "zst")).max();
    std::fs::remove_file(lost.unwrap()).unwrap();
    let expected = numbers(&store, &first.id).await;
    assert_eq!((expected[0], expected.last()), (0, Some(&54)));
    let second = store.fork(&first.id, Some(54)).await.unwrap();
    let folder = home.path().join("sessions").join(second.id.as_str());
    drop(std::fs::remove_file(folder.join("snapshot.json")));
    let seen = numbers(&store, &second.id).await;
    assert_eq!(seen[..seen.len() - 1], expected[..]);
    assert_eq!(seen.last(), Some(&55));
}
