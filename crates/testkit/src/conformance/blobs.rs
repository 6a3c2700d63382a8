//! Contents that events name.

use reins_store::StoreError;

use super::stage::{Stage, id, turns};

pub(super) async fn kept_by_content(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "a", 1).await;
    turns(&*store, "b", 1).await;
    let large = vec![7_u8; 300_000];
    let name = store.put_blob(&id("a"), large.clone()).await.unwrap();
    assert_eq!(store.put_blob(&id("a"), large.clone()).await.unwrap(), name);
    let empty = store.put_blob(&id("a"), Vec::new()).await.unwrap();
    assert_eq!(empty, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(stage.store().get_blob(&id("a"), &name).await.unwrap(), large);
    assert!(store.get_blob(&id("a"), &empty).await.unwrap().is_empty());
    let blobs = store.blobs(&id("a")).await.unwrap();
    let mut expected = vec![(name.clone(), 300_000), (empty, 0)];
    expected.sort();
    assert_eq!(blobs, expected);
    // The content is shared, a session's right to it is not.
    for (session, name) in [("b", name.as_str()), ("a", "no name"), ("a", &"0".repeat(64))] {
        let absent = store.get_blob(&id(session), name).await;
        assert!(matches!(absent, Err(StoreError::BlobNotFound { .. })), "{absent:?}");
    }
    store.put_blob(&id("b"), large.clone()).await.unwrap();
    store.remove(&id("a")).await.unwrap();
    assert_eq!(store.get_blob(&id("b"), &name).await.unwrap(), large);
    let absent = store.put_blob(&id("a"), large).await;
    assert!(matches!(absent, Err(StoreError::NotFound { .. })), "{absent:?}");
}

pub(super) async fn forks_have_them_too(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "a", 1).await;
    let name = store.put_blob(&id("a"), b"bytes".to_vec()).await.unwrap();
    let child = store.fork(&id("a"), None).await.unwrap().id;
    store.remove(&id("a")).await.unwrap();
    assert_eq!(store.get_blob(&child, &name).await.unwrap(), b"bytes");
    assert_eq!(store.blobs(&child).await.unwrap(), [(name, 5)]);
}
