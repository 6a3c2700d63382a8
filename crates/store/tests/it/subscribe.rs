//! Live reading without gap or double.

use std::time::Duration;

use reins_store::{JsonlStore, StoreConfig, Subscription};

use crate::setup::{append, create, filled, note, open, store};

async fn take(subscription: &mut Subscription, events: usize) -> Vec<u64> {
    let mut numbers = Vec::new();
    while numbers.len() < events {
        let next = tokio::time::timeout(Duration::from_secs(60), subscription.next()).await;
        match next.unwrap() {
            Some(event) => numbers.push(event.seq),
            None => break,
        }
    }
    numbers
}

#[tokio::test]
async fn old_events_come_from_the_file_and_new_ones_live() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    filled(&store, 2000).await;
    let session = open(&store).await.unwrap();
    let mut all = session.log.subscribe(0);
    let mut some = session.log.subscribe(1500);
    let mut future = session.log.subscribe(2005);
    append(&session, 2000..2010).await;
    assert_eq!(take(&mut all, 2010).await, (0..2010).collect::<Vec<u64>>());
    assert_eq!(take(&mut some, 510).await, (1500..2010).collect::<Vec<u64>>());
    assert_eq!(take(&mut future, 5).await, (2005..2010).collect::<Vec<u64>>());
    session.log.close().await.unwrap();
    for subscription in [&mut all, &mut some, &mut future] {
        assert!(take(subscription, 1).await.is_empty());
        assert!(subscription.failure().is_none());
    }
}

#[tokio::test]
async fn a_slow_reader_misses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let mut config = StoreConfig::new(home.path());
    (config.recent_events, config.recent_bytes, config.queue_events) = (8, 2000, 16);
    let store = JsonlStore::new(config);
    let session = create(&store).await;
    let mut slow = session.log.subscribe(0);
    append(&session, 0..3).await;
    assert_eq!(take(&mut slow, 2).await, [0, 1]);
    append(&session, 3..700).await;
    assert_eq!(take(&mut slow, 600).await, (2..602).collect::<Vec<u64>>());
    append(&session, 700..900).await;
    session.log.close().await.unwrap();
    assert_eq!(take(&mut slow, 1000).await, (602..900).collect::<Vec<u64>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_race_with_the_writer() {
    let home = tempfile::tempdir().unwrap();
    let mut config = StoreConfig::new(home.path());
    (config.recent_events, config.queue_events, config.write_within_ms) = (4, 32, 1);
    let store = JsonlStore::new(config);
    let session = create(&store).await;
    let mut readers = tokio::task::JoinSet::new();
    for from in [0, 0, 100, 2999] {
        let mut subscription = session.log.subscribe(from);
        readers.spawn(async move { (from, take(&mut subscription, usize::MAX).await) });
    }
    for seq in 0..3000 {
        session.log.append(note(seq, "race")).await.unwrap();
    }
    session.log.close().await.unwrap();
    while let Some(reader) = readers.join_next().await {
        let (from, numbers) = reader.unwrap();
        assert_eq!(numbers, (from..3000).collect::<Vec<u64>>());
    }
}

#[tokio::test]
async fn a_dropped_wait_loses_nothing() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    filled(&store, 600).await;
    let session = open(&store).await.unwrap();
    let mut subscription = session.log.subscribe(0);
    let mut numbers = Vec::new();
    while numbers.len() < 600 {
        // Polled once and dropped: the read of the file is thrown away each time.
        let once = futures_util::future::poll_immediate(subscription.next()).await;
        match once {
            Some(event) => numbers.push(event.unwrap().seq),
            None => numbers.extend(take(&mut subscription, 1).await),
        }
    }
    assert_eq!(numbers, (0..600).collect::<Vec<u64>>());
    session.log.close().await.unwrap();
}

#[tokio::test]
async fn a_reader_whose_file_is_gone_says_so() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    filled(&store, 10).await;
    let session = open(&store).await.unwrap();
    let mut subscription = session.log.subscribe(0);
    std::fs::remove_file(crate::setup::log_path(home.path())).unwrap();
    assert!(take(&mut subscription, 1).await.is_empty());
    let failure = subscription.failure().unwrap().to_string();
    assert!(failure.contains("event 0 was written and is no longer there"), "{failure}");
    assert!(take(&mut subscription, 1).await.is_empty());
}
