//! Round trips, barriers, the write window, refusals of the log.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use reins_store::{JsonlStore, Store, StoreConfig, StoreError};

use crate::setup::{append, create, folder, header, id, log_path, note, on_disk, open, store};

#[tokio::test]
async fn events_come_back_byte_for_byte() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let texts = ["plain", "line\nbreak", "\u{2028} ünïcödé 漢字", "", "\"quoted\" \\ \u{0}"];
    let session = create(&store).await;
    let mut written = Vec::new();
    for (seq, text) in (0..).zip(texts) {
        let event = note(seq, text);
        written.extend_from_slice(&event.encode().unwrap().0);
        session.log.append(event).await.unwrap();
    }
    session.log.close().await.unwrap();
    assert_eq!(std::fs::read(log_path(home.path())).unwrap(), written);

    let events = store.read(&id(), 0, 100).await.unwrap();
    let seen: Vec<u8> = events.iter().flat_map(|event| event.encode().unwrap().0).collect();
    let session = store.open(&id(), Default::default()).await.unwrap();
    assert_eq!(session.header, header(&id()));
    assert_eq!(session.fold.next_seq(), 5);
    assert_eq!(session.log.next_seq(), 5);
    assert_eq!(session.recovered, []);
    session.log.append(note(5, "more")).await.unwrap();
    session.log.close().await.unwrap();
    assert_eq!(seen, written);
    assert_eq!(on_disk(&store).await, [0, 1, 2, 3, 4, 5]);
}

#[tokio::test]
async fn only_the_owner_may_read() {
    let home = tempfile::tempdir().unwrap();
    let below = home.path().join("a/b");
    let store = store(&below);
    let session = create(&store).await;
    store.put_blob(&id(), b"x".to_vec()).await.unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    for dir in [&below, &below.join("sessions"), &folder(&below), &folder(&below).join("blobs")] {
        assert_eq!(mode(dir), 0o700, "{}", dir.display());
    }
    let mut files = 0;
    for entry in std::fs::read_dir(folder(&below)).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            assert_eq!(mode(&path), 0o600, "{}", path.display());
            files += 1;
        }
    }
    assert_eq!(files, 3);
    session.log.close().await.unwrap();
}

#[tokio::test]
async fn flush_is_a_barrier_and_nothing_else_syncs_early() {
    let home = tempfile::tempdir().unwrap();
    let mut config = StoreConfig::new(home.path());
    config.write_within_ms = 3_600_000;
    let store = JsonlStore::new(config);
    let session = create(&store).await;
    for round in 0..50 {
        append(&session, round * 3..round * 3 + 3).await;
        assert_eq!(on_disk(&store).await.len() as u64, round * 3);
        session.log.flush().await.unwrap();
        assert_eq!(on_disk(&store).await.len() as u64, round * 3 + 3);
    }
    session.log.flush().await.unwrap();
    session.log.close().await.unwrap();
}

#[tokio::test]
async fn without_a_flush_events_reach_the_file() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let session = create(&store).await;
    append(&session, 0..10).await;
    let wait = async {
        while on_disk(&store).await.len() < 10 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.unwrap();
    session.log.close().await.unwrap();
}

#[tokio::test]
async fn a_full_queue_makes_append_wait_and_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut config = StoreConfig::new(home.path());
    (config.queue_events, config.queue_bytes) = (4, 300);
    let store = JsonlStore::new(config);
    let session = create(&store).await;
    append(&session, 0..500).await;
    // Larger than the whole queue.
    session.log.append(note(500, &"x".repeat(5000))).await.unwrap();
    session.log.close().await.unwrap();
    assert_eq!(on_disk(&store).await, (0..=500).collect::<Vec<u64>>());
}

#[tokio::test]
async fn concurrent_flushes_all_resolve() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let session = create(&store).await;
    append(&session, 0..5).await;
    let flushes = (0..20).map(|_| session.log.flush());
    for result in futures_util::future::join_all(flushes).await {
        result.unwrap();
    }
    session.log.close().await.unwrap();
}

#[tokio::test]
async fn dropping_the_last_handle_writes_what_was_appended() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let session = create(&store).await;
    append(&session, 0..7).await;
    drop(session);
    assert_eq!(on_disk(&store).await.len(), 7);
    let session = open(&store).await.unwrap();
    assert_eq!(session.log.next_seq(), 7);
}

#[tokio::test]
async fn a_log_takes_only_the_next_number_and_nothing_after_its_close() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let session = create(&store).await;
    append(&session, 0..2).await;
    for wrong in [0, 1, 3] {
        let error = session.log.append(note(wrong, "x")).await.unwrap_err();
        assert!(matches!(error, StoreError::OutOfOrder { expected: 2, .. }), "{error}");
    }
    let other = session.log.clone();
    session.log.close().await.unwrap();
    assert!(matches!(other.append(note(2, "x")).await, Err(StoreError::Closed)));
    other.flush().await.unwrap();
    assert_eq!(on_disk(&store).await, [0, 1]);
}

#[tokio::test]
async fn reading_starts_anywhere() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let session = create(&store).await;
    for seq in 0..4000 {
        let text = "y".repeat(usize::try_from(seq % 97).unwrap() * 7);
        session.log.append(note(seq, &text)).await.unwrap();
    }
    session.log.close().await.unwrap();
    for from in (0..4000).step_by(61).chain([1, 3999]) {
        let events = store.read(&id(), from, 3).await.unwrap();
        let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (from..(from + 3).min(4000)).collect::<Vec<u64>>());
    }
    assert!(store.read(&id(), 4000, 3).await.unwrap().is_empty());
    assert!(store.read(&id(), u64::MAX, 3).await.unwrap().is_empty());
    assert!(store.read(&id(), 0, 0).await.unwrap().is_empty());
}
