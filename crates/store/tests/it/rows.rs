//! The store as a row.

use reins_kernel::{Catalog, Layer, References, compose};
use reins_store::{ListFilter, PLUGINS, Store};

use crate::setup::{header, id};

async fn mounted(home: &std::path::Path, config: &str) -> Result<reins_kernel::Generation, String> {
    let catalog = Catalog::new(PLUGINS).unwrap();
    let text = format!("[[insert]]\nid = \"store\"\nplugin = \"store-jsonl\"\nconfig = {config}\n");
    let layer = Layer { name: "base".to_owned(), file: None, head: &[], text };
    let references = References { env: &|_| None, home };
    let say = |errors: Vec<reins_kernel::RowError>| errors[0].to_string();
    let composition = compose(&[layer], &catalog, &references).map_err(say)?;
    composition.build(&catalog, 1, reins_kernel::Root::default()).await.map_err(say)
}

#[tokio::test]
async fn a_row_provides_the_store() {
    let home = tempfile::tempdir().unwrap();
    let generation =
        mounted(home.path(), "{ home = \"${home}\", write_within_ms = 50 }").await.unwrap();
    let store = generation.scope.need::<dyn Store>().unwrap();
    let session = store.create(header(&id()), Default::default()).await.unwrap();
    session.log.close().await.unwrap();
    assert_eq!(store.list(ListFilter::default()).await.unwrap().sessions.len(), 1);
    drop(store);
    generation.stop().await;
}

#[tokio::test]
async fn a_wrong_row_is_refused_with_its_field() {
    let home = tempfile::tempdir().unwrap();
    for (config, part) in [
        ("{ home = \"relative\" }", "`relative` is not an absolute path"),
        ("{ home = \"/x\", queue_events = 0 }", "queue_events"),
        ("{ home = \"/x\", write_within_ms = 60001 }", "write_within_ms"),
        ("{ home = \"/x\", write_within = 1 }", "write_within_ms"),
        ("{ }", "home"),
    ] {
        let error = mounted(home.path(), config).await.map(|_| ()).unwrap_err();
        assert!(error.contains(part), "{config}: {error}");
    }
}
