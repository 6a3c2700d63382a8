//! One writer per session.

use std::io::Write;

use reins_store::{ListFilter, Store, StoreError};

use crate::setup::{
    append, create, filled, folder, header, id, inspect, log_path, note, on_disk, open, put, store,
};

#[tokio::test]
async fn the_second_opener_learns_who_has_it() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let session = create(&store).await;
    append(&session, 0..1).await;
    let error = open(&store).await.unwrap_err();
    let StoreError::Busy { holder: Some(holder), .. } = &error else { panic!("{error}") };
    assert_eq!(holder.pid, std::process::id());
    let text = error.to_string();
    assert!(text.contains("in use by this process"), "{error}");
    assert!(text.ends_with("; wait for it or end that process"), "{error}");
    let lease = inspect(&store).await.unwrap().lease.unwrap();
    assert_eq!(lease.pid, std::process::id());
    session.log.close().await.unwrap();
    assert_eq!(inspect(&store).await.unwrap().lease, None);
    open(&store).await.unwrap().log.close().await.unwrap();
}

#[tokio::test]
async fn the_lease_of_a_dead_process_is_taken_over() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    filled(&store, 1).await;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let stale = serde_json::json!({ "pid": 2_000_000_000, "host": host, "start": 1 });
    put(&folder(home.path()).join("lease"), stale.to_string().as_bytes());
    assert_eq!(inspect(&store).await.unwrap().lease, None);
    let session = open(&store).await.unwrap();
    assert_eq!(inspect(&store).await.unwrap().lease.map(|l| l.pid), Some(std::process::id()));
    session.log.close().await.unwrap();
}

#[tokio::test]
async fn a_foreign_write_stops_the_writer() {
    type Change = fn(&std::path::Path);
    let changes: [(&str, Change, &str); 4] = [
        (
            "longer",
            |path| {
                let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
                file.write_all(b"foreign\n").unwrap();
            },
            " bytes instead of ",
        ),
        (
            "shorter",
            |path| {
                let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
                file.set_len(10).unwrap();
            },
            " has 10 bytes instead of ",
        ),
        ("removed", |path| std::fs::remove_file(path).unwrap(), " was removed: another program"),
        (
            "replaced",
            |path| {
                let other = path.with_extension("other");
                std::fs::copy(path, &other).unwrap();
                std::fs::rename(other, path).unwrap();
            },
            " was replaced: another program",
        ),
    ];
    for (name, change, words) in changes {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path());
        let session = create(&store).await;
        append(&session, 0..2).await;
        session.log.flush().await.unwrap();
        let path = log_path(home.path());
        change(&path);
        let before = std::fs::read(&path).ok();
        append(&session, 2..3).await;
        let error = session.log.flush().await.unwrap_err();
        assert!(matches!(error, StoreError::Lost { .. }), "{name}: {error}");
        assert!(error.to_string().contains(words), "{name}: {error}");
        assert!(matches!(session.log.failed(), Some(StoreError::Lost { .. })));
        assert_eq!(std::fs::read(&path).ok(), before, "{name}");
        let again = session.log.append(crate::setup::note(3, "x")).await;
        assert!(matches!(again, Err(StoreError::Lost { .. })));
        assert!(session.log.close().await.is_err());
    }
}

#[tokio::test]
async fn an_id_is_created_once() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let (first, second) = futures_util::future::join(
        store.create(header(&id()), Default::default()),
        store.create(header(&id()), Default::default()),
    )
    .await;
    assert!(first.is_ok() != second.is_ok());
    let loser = if first.is_ok() { second } else { first }.map(|_| ()).unwrap_err();
    assert!(matches!(loser, StoreError::AlreadyExists { .. }), "{loser}");
    let third = store.create(header(&id()), Default::default()).await.unwrap_err();
    assert!(matches!(third, StoreError::AlreadyExists { .. }), "{third}");
    let names: Vec<_> = std::fs::read_dir(home.path().join("sessions")).unwrap().collect();
    assert_eq!(names.len(), 1);
}

#[tokio::test]
async fn sixteen_sessions_at_once() {
    let home = tempfile::tempdir().unwrap();
    let store = &store(home.path());
    let runs = (0..16).map(|n| async move {
        let id = reins_schema::SessionId::new(format!("many-{n}"));
        let session = store.create(header(&id), Default::default()).await.unwrap();
        append(&session, 0..200).await;
        session.log.close().await.unwrap();
        store.read(&id, 0, 1000).await.unwrap().len()
    });
    assert_eq!(futures_util::future::join_all(runs).await, [200; 16]);
    assert_eq!(store.list(ListFilter::default()).await.unwrap().sessions.len(), 16);
}

/// A new session that nobody wants leaves nothing, whatever became of its log; one that was there
/// stays as it is.
#[tokio::test]
async fn a_session_is_discarded_by_who_made_it() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    for spoiled in [false, true] {
        let session = create(&store).await;
        append(&session, 0..2).await;
        if spoiled {
            put(&log_path(home.path()), b"not what the writer wrote");
        }
        session.log.clone().discard().await.unwrap();
        session.log.append(note(2, "late")).await.unwrap_err();
        let left = std::fs::read_dir(home.path().join("sessions")).unwrap().count();
        assert_eq!(left, 0, "spoiled: {spoiled}");
        assert_eq!(store.list(ListFilter::default()).await.unwrap().sessions.len(), 0);
    }
    filled(&store, 2).await;
    let session = open(&store).await.unwrap();
    append(&session, 2..3).await;
    session.log.discard().await.unwrap();
    assert_eq!(on_disk(&store).await, [0, 1, 2]);

    let header = header(&reins_schema::SessionId::new("another"));
    let session = store.create(header, Default::default()).await.unwrap();
    session.log.clone().close().await.unwrap();
    session.log.discard().await.unwrap();
    assert_eq!(
        store.list(ListFilter::default()).await.unwrap().sessions.len(),
        2,
        "somebody may have it by now"
    );
    open(&store).await.unwrap().log.close().await.unwrap();
}
