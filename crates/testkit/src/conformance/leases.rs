//! One writer per session.

use reins_store::StoreError;

use super::Keeps;
use super::stage::{Stage, append, create, id, known, open, turn, turns};

pub(super) async fn the_holder_is_named(stage: &Stage<'_>) {
    let store = stage.store();
    let session = create(&*store, "a").await;
    let lease = stage.store().inspect(&id("a"), known()).await.unwrap().lease.unwrap();
    assert_eq!(lease.pid, std::process::id());
    let refused = stage.store().open(&id("a"), known()).await.unwrap_err();
    assert!(matches!(refused, StoreError::Busy { .. }), "{refused}");
    assert!(refused.to_string().contains("in use by this process"), "{refused}");
    let refused = store.remove(&id("a")).await.unwrap_err();
    assert!(matches!(refused, StoreError::Busy { .. }), "{refused}");
    session.log.close().await.unwrap();
    assert_eq!(store.inspect(&id("a"), known()).await.unwrap().lease, None);
    open(&*store, "a").await.log.close().await.unwrap();
}

pub(super) async fn preparing_holds_and_changes_nothing(stage: &Stage<'_>) {
    turns(&*stage.store(), "a", 3).await;
    let before = stage.files();
    let store = stage.store();
    let prepared = store.prepare(&id("a"), known()).await.unwrap();
    assert_eq!((prepared.fold().next_seq(), prepared.damage().len()), (15, 0));
    let refused = stage.store().prepare(&id("a"), known()).await.map(|_| ()).unwrap_err();
    assert!(matches!(refused, StoreError::Busy { .. }), "{refused}");
    prepared.release();
    drop(store);
    if stage.keeps() == Keeps::InTheHome {
        let leases = |path: &std::path::PathBuf| path.to_string_lossy().contains("lease");
        let changed: Vec<_> = stage
            .files()
            .into_iter()
            .filter(|(path, content)| !leases(path) && before.get(path) != Some(content))
            .map(|(path, _)| path)
            .collect();
        assert!(changed.is_empty(), "{changed:?}");
    }
    let store = stage.store();
    let prepared = store.prepare(&id("a"), known()).await.unwrap();
    let session = prepared.publish().await.unwrap();
    append(&session.log, turn(15, 4, "published")).await;
    session.log.close().await.unwrap();
    // Dropping is releasing.
    drop(store.prepare(&id("a"), known()).await.unwrap());
    assert_eq!(open(&*store, "a").await.fold.last_turn(), 4);
}
