//! Sessions that go from one home to another in a zip file.

use std::path::Path;
use std::sync::Arc;

use reins_schema::SessionId;
use reins_store::{
    ExportOrder, ImportOrder, JsonlStore, ListFilter, MemoryStore, Progress, SqliteStore, Store,
    StoreConfig, StoreError,
};

use crate::segments::{extend, turn};
use crate::setup::{header, id};

fn silent() -> Progress {
    Arc::new(|_, _| {})
}

fn small(home: &Path) -> StoreConfig {
    StoreConfig { segment_bytes: 2000, snapshot_events: 10, ..StoreConfig::new(home) }
}

fn order(id: &SessionId, to: &Path) -> ExportOrder {
    ExportOrder { id: id.clone(), to: to.into(), replace: false, forks: true, pages: Vec::new() }
}

/// All events of a session as their lines.
async fn lines(store: &dyn Store, id: &SessionId) -> Vec<Vec<u8>> {
    let events = store.read(id, 0, 10_000).await.unwrap();
    events.iter().map(|event| event.encode().unwrap().0).collect()
}

#[tokio::test]
async fn a_family_goes_from_any_back_end_to_any_other() {
    let homes = tempfile::tempdir().unwrap();
    let home = |name: &str| homes.path().join(name);
    let stores: [(&str, Arc<dyn Store>); 3] = [
        ("jsonl", Arc::new(JsonlStore::new(small(&home("jsonl"))))),
        ("sqlite", Arc::new(SqliteStore::new(small(&home("sqlite"))))),
        ("memory", Arc::new(MemoryStore::new(small(&home("memory"))).unwrap())),
    ];
    for (number, (from, source)) in stores.iter().enumerate() {
        let top = SessionId::new(format!("{from}-top"));
        let mut session = source.create(header(&top), Default::default()).await.unwrap();
        extend(&mut session, 50).await;
        let blob = source.put_blob(&top, b"an image".to_vec()).await.unwrap();
        let fork = source.fork(&top, Some(30)).await.unwrap().id;
        let grandchild = source.fork(&fork, None).await.unwrap().id;
        let file = homes.path().join(format!("{from}.zip"));
        // The session is in use, and goes on.
        let exported = source.export(order(&top, &file), silent()).await.unwrap();
        assert_eq!(exported.sessions, [top.clone(), fork.clone(), grandchild.clone()]);
        extend(&mut session, 1).await;
        session.log.close().await.unwrap();

        let (to, target) = &stores[(number + 1) % stores.len()];
        let wanted = || ImportOrder { file: file.clone(), as_new: false };
        let imported = target.import(wanted(), silent()).await.unwrap();
        assert_eq!((imported.sessions, imported.already), (exported.sessions.clone(), vec![]));
        for id in [&top, &fork, &grandchild] {
            let mut expected = lines(&**source, id).await;
            if *id == top {
                expected.pop();
            }
            assert_eq!(lines(&**target, id).await, expected, "{from} to {to}, {id}");
            let verified = target.verify(id, Default::default(), silent()).await.unwrap();
            assert_eq!((&verified.damage[..], verified.read_only), (&[][..], None), "{to}, {id}");
            let seen = source.inspect(id, Default::default()).await.unwrap();
            let mut opened = target.open(id, Default::default()).await.unwrap();
            assert_eq!(opened.recovered, []);
            assert_eq!(opened.fold.surface().nodes().len(), seen.fold.surface().nodes().len());
            for event in turn(opened.fold.next_seq(), 1) {
                opened.fold.apply(&event).unwrap();
                opened.log.append(event).await.unwrap();
            }
            opened.log.close().await.unwrap();
        }
        assert_eq!(target.get_blob(&top, &blob).await.unwrap(), b"an image");
        let listing = target.list(ListFilter::default()).await.unwrap();
        assert!(listing.sessions.iter().all(|it| it.problem.is_none()));

        // It went on there, so it is another one now.
        let error = target.import(wanted(), silent()).await.unwrap_err();
        assert!(matches!(error, StoreError::OtherContent { .. }), "{error}");
        let new = target.import(ImportOrder { as_new: true, ..wanted() }, silent()).await.unwrap();
        assert_eq!(new.sessions.len(), 3);
        assert_eq!(lines(&**target, &new.sessions[1]).await, lines(&**source, &fork).await);
    }
}

#[tokio::test]
async fn no_more_is_taken_over_than_the_configuration_allows() {
    let home = tempfile::tempdir().unwrap();
    let store = JsonlStore::new(small(home.path()));
    let mut session = store.create(header(&id()), Default::default()).await.unwrap();
    extend(&mut session, 200).await;
    session.log.close().await.unwrap();
    let file = home.path().join("session.zip");
    store.export(order(&id(), &file), silent()).await.unwrap();
    let elsewhere = home.path().join("elsewhere");
    let config = StoreConfig { import_bytes_max: 10_000, ..StoreConfig::new(&elsewhere) };
    let wanted = ImportOrder { file, as_new: false };
    let error = JsonlStore::new(config).import(wanted, silent()).await.unwrap_err();
    assert!(error.to_string().contains("`import_bytes_max` (10000)"), "{error}");
    assert!(!elsewhere.exists(), "nothing was made");
}
