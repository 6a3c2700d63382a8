//! Export and import.

use std::sync::Arc;

use reins_store::{ExportOrder, ImportOrder, Progress};

use super::stage::{Stage, append, events, id, lines, open, turn, turns};

fn silent() -> Progress {
    Arc::new(|_, _| {})
}

pub(super) async fn an_export_is_imported_elsewhere(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "a", 150).await;
    let blob = store.put_blob(&id("a"), b"bytes".to_vec()).await.unwrap();
    let child = store.fork(&id("a"), Some(24)).await.unwrap().id;
    let session = open(&*store, child.as_str()).await;
    append(&session.log, turn(26, 6, "of the child")).await;
    session.log.close().await.unwrap();

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.zip");
    let pages = vec![(id("a"), "# A".to_owned()), (child.clone(), "# Child".to_owned())];
    let order = ExportOrder { id: id("a"), to: file.clone(), replace: false, forks: true, pages };
    let exported = store.export(order.clone(), silent()).await.unwrap();
    assert_eq!(exported.sessions.len(), 2);
    assert_eq!(exported.bytes, std::fs::metadata(&file).unwrap().len());
    assert!(store.export(order, silent()).await.is_err(), "nothing is written over");

    let home = tempfile::tempdir().unwrap();
    let other = stage.elsewhere(home.path());
    let order = ImportOrder { file, as_new: false };
    let imported = other.import(order.clone(), silent()).await.unwrap();
    assert_eq!((imported.sessions.len(), imported.already.len()), (2, 0));
    for name in ["a", child.as_str()] {
        let (here, there) = (events(&*store, name).await, events(&*other, name).await);
        assert_eq!(lines(&here), lines(&there), "{name}");
    }
    assert_eq!(other.get_blob(&id("a"), &blob).await.unwrap(), b"bytes");
    let again = other.import(order.clone(), silent()).await.unwrap();
    assert_eq!((again.sessions.len(), again.already.len()), (0, 2));
    let session = open(&*other, "a").await;
    append(&session.log, turn(750, 151, "goes on")).await;
    session.log.close().await.unwrap();
    assert_eq!(events(&*other, "a").await.len(), 755);
    let copies = other.import(ImportOrder { as_new: true, ..order }, silent()).await.unwrap();
    assert_eq!(copies.sessions.len(), 2);
    assert!(!copies.sessions.contains(&id("a")), "{copies:?}");
    assert_eq!(other.list(Default::default()).await.unwrap().sessions.len(), 4);
}
