//! Every back end does what a store must do.

use std::path::Path;
use std::sync::Arc;

use reins_store::{JsonlStore, MemoryStore, SqliteStore, StoreConfig};
use reins_testkit::{Keeps, store_conformance};

fn config(home: &Path) -> StoreConfig {
    StoreConfig { segment_bytes: 64 << 10, snapshot_events: 100, ..StoreConfig::new(home) }
}

#[tokio::test]
async fn jsonl() {
    store_conformance(Keeps::InTheHome, |home| Arc::new(JsonlStore::new(config(home)))).await;
}

#[tokio::test]
async fn sqlite() {
    store_conformance(Keeps::InTheHome, |home| Arc::new(SqliteStore::new(config(home)))).await;
}

#[tokio::test]
async fn memory() {
    let make = |home: &Path| -> Arc<dyn reins_store::Store> {
        Arc::new(MemoryStore::new(config(home)).unwrap())
    };
    store_conformance(Keeps::InTheStore, make).await;
}
