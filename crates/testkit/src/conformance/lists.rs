//! Which sessions there are.

use std::path::Path;
use std::time::Duration;

use reins_store::{ListFilter, SessionState, StoreError};

use super::stage::{Stage, append, create, id, known, open, turn, turns};

pub(super) async fn the_last_used_is_first(stage: &Stage<'_>) {
    let store = stage.store();
    assert!(store.list(ListFilter::default()).await.unwrap().sessions.is_empty());
    for name in ["a", "b", "c"] {
        turns(&*store, name, 2).await;
        // The list knows milliseconds.
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    let session = open(&*store, "a").await;
    append(&session.log, turn(10, 3, "third").into_iter().take(3)).await;
    session.log.flush().await.unwrap();
    let listing = stage.store().list(ListFilter::default()).await.unwrap();
    let names: Vec<&str> = listing.sessions.iter().map(|s| s.header.id.as_str()).collect();
    assert_eq!((names, listing.total, listing.damaged.len()), (vec!["a", "c", "b"], 3, 0));
    let first = &listing.sessions[0];
    assert!(matches!(&first.state, SessionState::Live(lease) if lease.pid == std::process::id()));
    assert_eq!((first.events, first.first_prompt.as_deref()), (13, Some("turn 0 of a")));
    assert_eq!((first.cwd.as_path(), first.archived), (Path::new("/somewhere"), false));
    assert_eq!(listing.sessions[1].state, SessionState::Idle);
    session.log.close().await.unwrap();
    let listing = store.list(ListFilter { limit: Some(1), ..Default::default() }).await.unwrap();
    assert_eq!((listing.sessions.len(), listing.total), (1, 3));
    assert_eq!(listing.sessions[0].state, SessionState::InTurn);
    let elsewhere = ListFilter { cwd: Some("/elsewhere".into()), ..Default::default() };
    assert!(store.list(elsewhere).await.unwrap().sessions.is_empty());
    let old = ListFilter { older_than: Some(0), ..Default::default() };
    assert!(store.list(old).await.unwrap().sessions.is_empty());
}

pub(super) async fn short_ids_find_sessions(stage: &Stage<'_>) {
    let store = stage.store();
    for name in ["01a2-beef-1", "01a2-beef-2", "77aa-0000-1"] {
        turns(&*store, name, 1).await;
    }
    for begins in ["7", "77AA", "77aa-0000-1"] {
        assert_eq!(store.find(begins).await.unwrap(), id("77aa-0000-1"), "{begins}");
    }
    assert_eq!(store.find("01a2-beef-2").await.unwrap(), id("01a2-beef-2"));
    match store.find("01a2").await {
        Err(StoreError::Ambiguous { ids, .. }) => assert_eq!(ids.len(), 2),
        other => panic!("{other:?}"),
    }
    let absent = store.find("02").await;
    assert!(matches!(absent, Err(StoreError::NotFound { .. })), "{absent:?}");
}

pub(super) async fn archived_sessions_are_hidden(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "a", 20).await;
    turns(&*store, "b", 1).await;
    store.archive(&id("a"), true).await.unwrap();
    let all = ListFilter { archived: true, ..Default::default() };
    for (archived, in_all) in [(true, 2), (false, 2)] {
        let store = stage.store();
        let plain = store.list(ListFilter::default()).await.unwrap().sessions;
        assert_eq!(plain.len(), if archived { 1 } else { 2 });
        let listed = store.list(all.clone()).await.unwrap().sessions;
        assert_eq!(listed.len(), in_all);
        assert_eq!(listed.iter().filter(|session| session.archived).count(), 2 - plain.len());
        // It can be used as any other one.
        let session = open(&*store, "a").await;
        let (next, last) = (session.log.next_seq(), session.fold.last_turn());
        append(&session.log, turn(next, last + 1, "more")).await;
        session.log.close().await.unwrap();
        store.archive(&id("a"), false).await.unwrap();
    }
    assert_eq!(store.inspect(&id("a"), known()).await.unwrap().fold.last_turn(), 22);
}

pub(super) async fn moved_sessions_belong_elsewhere(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "a", 1).await;
    let there = tempfile::tempdir().unwrap();
    store.move_to(&id("a"), there.path(), known()).await.unwrap();
    let filter = ListFilter { cwd: Some(there.path().to_path_buf()), ..Default::default() };
    let listing = stage.store().list(filter).await.unwrap();
    assert_eq!(listing.sessions.len(), 1);
    assert_eq!(listing.sessions[0].cwd, there.path());
    let session = open(&*store, "a").await;
    assert_eq!(session.fold.cwd(), there.path());
    assert_eq!(session.header.cwd, Path::new("/somewhere"), "the header stays as it was");
}

pub(super) async fn removed_sessions_are_gone(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "a", 5).await;
    create(&*store, "b").await.log.close().await.unwrap();
    store.remove(&id("a")).await.unwrap();
    for refused in [
        store.remove(&id("a")).await.unwrap_err(),
        stage.store().open(&id("a"), known()).await.map(|_| ()).unwrap_err(),
        store.read(&id("a"), 0, 1).await.map(|_| ()).unwrap_err(),
    ] {
        assert!(matches!(refused, StoreError::NotFound { .. }), "{refused}");
    }
    let listing = store.list(ListFilter::default()).await.unwrap();
    assert_eq!((listing.sessions.len(), listing.damaged.len()), (1, 0));
    // The name is free again.
    turns(&*store, "a", 1).await;
    assert_eq!(open(&*store, "a").await.fold.last_turn(), 1);
}
