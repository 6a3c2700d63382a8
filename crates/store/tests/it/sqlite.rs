//! The rows of the stores on a database.

use std::path::Path;
use std::sync::Arc;

use reins_kernel::{Catalog, Generation, Layer, References, RowError, compose};
use reins_store::{ListFilter, PLUGINS, SqliteStore, Store, StoreConfig, StoreError};

use crate::setup::{header, id};

async fn mounted(home: &Path, plugin: &str, config: &str) -> Result<Generation, String> {
    let catalog = Catalog::new(PLUGINS).unwrap();
    let text = format!("[[insert]]\nid = \"store\"\nplugin = \"{plugin}\"\nconfig = {config}\n");
    let layer = Layer { name: "base".to_owned(), file: None, head: &[], text };
    let references = References { env: &|_| None, home };
    let say = |errors: Vec<RowError>| errors[0].to_string();
    let composition = compose(&[layer], &catalog, &references).map_err(say)?;
    composition.build(&catalog, 1, reins_kernel::Root::default()).await.map_err(say)
}

async fn use_it(generation: &Generation) -> Arc<dyn Store> {
    let store = generation.scope.need::<dyn Store>().unwrap();
    let session = store.create(header(&id()), Default::default()).await.unwrap();
    session.log.close().await.unwrap();
    assert_eq!(store.list(ListFilter::default()).await.unwrap().sessions.len(), 1);
    store
}

#[tokio::test]
async fn a_row_keeps_sessions_in_a_database() {
    let home = tempfile::tempdir().unwrap();
    let config = "{ home = \"${home}/new\", file = \"work.sqlite\", busy_ms = 100 }";
    let generation = mounted(home.path(), "store-sqlite", config).await.unwrap();
    assert!(!home.path().join("new").exists(), "mounting touches nothing");
    drop(use_it(&generation).await);
    assert!(home.path().join("new/work.sqlite").is_file());
    generation.stop().await;
}

#[tokio::test]
async fn a_row_keeps_sessions_nowhere() {
    let home = tempfile::tempdir().unwrap();
    let config = "{ queue_events = 100 }";
    let generation = mounted(home.path(), "store-memory", config).await.unwrap();
    drop(use_it(&generation).await);
    generation.stop().await;
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
    let generation = mounted(home.path(), "store-memory", config).await.unwrap();
    let store = generation.scope.need::<dyn Store>().unwrap();
    let gone = store.open(&id(), Default::default()).await;
    assert!(matches!(gone, Err(StoreError::NotFound { .. })), "{gone:?}");
    drop(store);
    generation.stop().await;
}

#[tokio::test]
async fn a_wrong_row_is_refused_with_its_field() {
    let home = tempfile::tempdir().unwrap();
    for (plugin, config, part) in [
        ("store-sqlite", "{ home = \"relative\" }", "`relative` is not an absolute path"),
        ("store-sqlite", "{ home = \"/x\", file = \"a/b\" }", "`a/b` cannot be the name"),
        ("store-sqlite", "{ home = \"/x\", file = \"\" }", "file"),
        ("store-sqlite", "{ home = \"/x\", file = \"index.sqlite\" }", "cannot be the name"),
        ("store-sqlite", "{ home = \"/x\", busy = 1 }", "busy_ms"),
        ("store-sqlite", "{ home = \"/x\", busy_ms = 600001 }", "busy_ms"),
        ("store-sqlite", "{ home = \"/x\", queue_bytes = 0 }", "queue_bytes"),
        ("store-memory", "{ home = \"/x\" }", "home"),
        ("store-memory", "{ segment_bytes = 1 }", "segment_bytes"),
    ] {
        let error = mounted(home.path(), plugin, config).await.map(|_| ()).unwrap_err();
        assert!(error.contains(part), "{config}: {error}");
    }
}

/// A database that cannot be used is named, with what to do, by every call.
#[tokio::test]
async fn a_foreign_file_is_named() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("sessions.sqlite");
    crate::setup::put(&path, b"notes of somebody\n");
    let store = SqliteStore::new(StoreConfig::new(home.path()));
    for error in [
        store.create(header(&id()), Default::default()).await.map(|_| ()).unwrap_err(),
        store.open(&id(), Default::default()).await.map(|_| ()).unwrap_err(),
        store.inspect(&id(), Default::default()).await.map(|_| ()).unwrap_err(),
        store.list(ListFilter::default()).await.map(|_| ()).unwrap_err(),
    ] {
        let text = error.to_string();
        assert!(text.contains("sessions.sqlite: this is no database"), "{text}");
        assert!(text.contains("move it away"), "{text}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"notes of somebody\n");
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
}
