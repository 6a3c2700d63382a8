//! Moving, archiving, removing, checking, mending.

use std::path::Path;
use std::sync::{Arc, Mutex};

use reins_schema::SourceRange;
use reins_store::{DamageKind, ListFilter, Progress, Store, StoreError};

use crate::segments::{extend, tiny, turn};
use crate::setup::{create, folder, id, log_path, open, put};

#[tokio::test]
async fn a_moved_session_belongs_to_the_other_directory() {
    let home = tempfile::tempdir().unwrap();
    let store = tiny(home.path());
    let mut session = create(&store).await;
    extend(&mut session, 3).await;
    let busy = store.move_to(&id(), Path::new("/elsewhere"), Default::default()).await;
    assert!(matches!(busy, Err(StoreError::Busy { .. })));
    session.log.close().await.unwrap();
    for _ in 0..2 {
        store.move_to(&id(), Path::new("/elsewhere"), Default::default()).await.unwrap();
        let seen = store.inspect(&id(), Default::default()).await.unwrap();
        assert_eq!((seen.fold.cwd(), seen.fold.next_seq()), (Path::new("/elsewhere"), 4));
    }
    let mut session = open(&store).await.unwrap();
    let event = turn(4, 1)[0].clone();
    session.fold.apply(&event).unwrap();
    session.log.append(event).await.unwrap();
    session.log.close().await.unwrap();
    let error = store.move_to(&id(), Path::new("/third"), Default::default()).await.unwrap_err();
    assert!(matches!(error, StoreError::TurnOpen { .. }), "{error}");
}

#[tokio::test]
async fn an_archived_session_is_compressed_and_still_opens() {
    let home = tempfile::tempdir().unwrap();
    let store = tiny(home.path());
    let mut session = create(&store).await;
    extend(&mut session, 5).await;
    session.log.close().await.unwrap();
    store.archive(&id(), true).await.unwrap();
    let plain = ListFilter::default();
    let all = ListFilter { archived: true, ..ListFilter::default() };
    assert_eq!(store.list(plain.clone()).await.unwrap().sessions.len(), 0);
    let listed = store.list(all).await.unwrap().sessions;
    assert!(listed[0].archived);
    let mut session = open(&store).await.unwrap();
    extend(&mut session, 5).await;
    session.log.close().await.unwrap();
    assert_eq!(store.read(&id(), 0, 100).await.unwrap().len(), 10);
    store.archive(&id(), false).await.unwrap();
    assert_eq!(store.list(plain).await.unwrap().sessions.len(), 1);
}

#[tokio::test]
async fn a_session_in_use_is_not_removed() {
    let home = tempfile::tempdir().unwrap();
    let store = tiny(home.path());
    let session = create(&store).await;
    assert!(matches!(store.remove(&id()).await, Err(StoreError::Busy { .. })));
    session.log.close().await.unwrap();
    store.remove(&id()).await.unwrap();
    assert!(matches!(store.remove(&id()).await, Err(StoreError::NotFound { .. })));
    create(&store).await.log.close().await.unwrap();
}

fn silent() -> Progress {
    Arc::new(|_, _| {})
}

#[tokio::test]
async fn everything_is_checked_and_the_progress_is_told() {
    let home = tempfile::tempdir().unwrap();
    let store = tiny(home.path());
    let mut session = create(&store).await;
    for _ in 0..10 {
        extend(&mut session, 10).await;
    }
    let good = store.put_blob(&id(), b"good".to_vec()).await.unwrap();
    let bad = store.put_blob(&id(), b"bad".to_vec()).await.unwrap();
    session.log.close().await.unwrap();
    assert_eq!(store.blobs(&id()).await.unwrap().len(), 2);
    put(&folder(home.path()).join("blobs").join(&bad), b"bat");
    let sealed = folder(home.path()).join("00000001.log.zst");
    let mut frame = std::fs::read(&sealed).unwrap();
    let middle = frame.len() / 2;
    frame[middle] ^= 1;
    put(&sealed, &frame);
    let told = Arc::new(Mutex::new(Vec::new()));
    let inner = Arc::clone(&told);
    let progress: Progress = Arc::new(move |done, total| inner.lock().unwrap().push((done, total)));
    let verified = store.verify(&id(), Default::default(), progress).await.unwrap();
    let kinds: Vec<DamageKind> = verified.damage.iter().map(|damage| damage.kind).collect();
    assert!(matches!(kinds[..], [DamageKind::Hole { .. }, DamageKind::Blob]), "{verified:?}");
    assert!(verified.damage[1].path.ends_with(&bad));
    assert_eq!(store.get_blob(&id(), &good).await.unwrap(), b"good");
    assert_eq!(verified.blobs, 2);
    let told = told.lock().unwrap();
    assert!(told.is_sorted(), "{told:?}");
    let (done, total) = told.last().unwrap();
    assert_eq!(done, total);
}

/// Damage before the snapshot: opening does not see it, checking does, mending logs it.
#[tokio::test]
async fn mending_reads_all_and_is_done_once() {
    let home = tempfile::tempdir().unwrap();
    let store = crate::setup::store(home.path());
    let mut session = create(&store).await;
    extend(&mut session, 30).await;
    session.log.offer_snapshot(&session.fold);
    session.log.close().await.unwrap();
    let path = log_path(home.path());
    let mut log = std::fs::read(&path).unwrap();
    let line = log.len() / 30;
    log[line * 4 + 20] ^= 1;
    put(&path, &log);
    let session = open(&store).await.unwrap();
    assert_eq!(session.recovered, []);
    session.log.close().await.unwrap();

    let dry = store.repair(&id(), Default::default(), true, silent()).await.unwrap();
    assert!(dry.dry_run);
    assert_eq!(dry.done[0].lost, [SourceRange::One(4)]);
    assert_eq!(std::fs::read(&path).unwrap(), log);
    let done = store.repair(&id(), Default::default(), false, silent()).await.unwrap();
    assert_eq!(done.done[0].lost, [SourceRange::One(4)]);
    let kept = std::fs::read(folder(home.path()).join(&done.done[0].kept_in)).unwrap();
    assert_eq!(kept, log);
    let events = store.read(&id(), 29, 10).await.unwrap();
    assert_eq!(events[1].body.kind, "session/recovered");
    let again = store.repair(&id(), Default::default(), false, silent()).await.unwrap();
    assert_eq!(again.done, []);
    let verified = store.verify(&id(), Default::default(), silent()).await.unwrap();
    assert_eq!((verified.events, &verified.damage[..]), (30, &[][..]));
    let session = open(&store).await.unwrap();
    assert_eq!((session.recovered.len(), session.fold.next_seq()), (0, 31));
    session.log.close().await.unwrap();
}
