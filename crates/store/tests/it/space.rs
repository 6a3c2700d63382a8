//! What sessions take on the disk.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use reins_schema::SessionId;
use reins_store::{JsonlStore, SqliteStore, Store, StoreConfig};

use crate::setup::{header, id, note};

/// Bytes on the disk, each file once however many names it has.
fn used(folder: &Path, files: &mut BTreeMap<u64, u64>) -> u64 {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let meta = entry.metadata().unwrap();
        files.insert(meta.ino(), meta.blocks() * 512);
        if meta.is_dir() {
            used(&entry.path(), files);
        }
    }
    files.values().sum()
}

/// Bytes that do not get smaller.
fn picture(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56).to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

async fn forked_often(store: &dyn Store, home: &Path, log_bytes: usize) {
    let open = store.create(header(&id()), Default::default()).await.unwrap();
    let mut blobs = Vec::new();
    for seed in 0..5 {
        let bytes = (5 * (1 << 20) - log_bytes) / 5;
        blobs.push(store.put_blob(&id(), picture(seed, bytes)).await.unwrap());
    }
    for seq in 0..log_bytes as u64 / 1000 {
        let words: String =
            picture(seq, 110).iter().map(|byte| format!("word{} ", byte % 64)).collect();
        open.log.append(note(seq, &words)).await.unwrap();
    }
    open.log.close().await.unwrap();
    let events = store.read(&id(), 0, 100_000).await.unwrap().len();
    let before = used(home, &mut BTreeMap::new());
    let mut children: Vec<SessionId> = Vec::new();
    for _ in 0..20 {
        children.push(store.fork(&id(), None).await.unwrap().id);
    }
    let after = used(home, &mut BTreeMap::new());
    let grown = after.saturating_sub(before);
    assert!(grown < 1 << 20, "{log_bytes} bytes of log: {grown} bytes more");
    store.remove(&id()).await.unwrap();
    for child in &children {
        assert_eq!(store.read(child, 0, 100_000).await.unwrap().len(), events + 1);
        for blob in &blobs {
            store.get_blob(child, blob).await.unwrap();
        }
        let verified = store.verify(child, Default::default(), std::sync::Arc::new(|_, _| {}));
        assert_eq!(verified.await.unwrap().damage, []);
    }
}

#[tokio::test]
async fn twenty_forks_of_five_megabytes_take_less_than_one() {
    for log_bytes in [20_000, 200_000, 2_000_000] {
        let home = tempfile::tempdir().unwrap();
        let store = JsonlStore::new(StoreConfig::new(home.path()));
        forked_often(&store, home.path(), log_bytes).await;
    }
}

#[tokio::test]
async fn twenty_forks_of_five_megabytes_in_a_database_take_less_than_one() {
    for log_bytes in [20_000, 200_000, 2_000_000] {
        let home = tempfile::tempdir().unwrap();
        let store = SqliteStore::new(StoreConfig::new(home.path()));
        forked_often(&store, home.path(), log_bytes).await;
    }
}
