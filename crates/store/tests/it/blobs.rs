//! Content-addressed files beside a log.

use reins_store::{JsonlStore, Store, StoreConfig, StoreError};

use crate::setup::{filled, folder, id, put};

#[tokio::test]
async fn blobs_are_named_by_their_content() {
    let home = tempfile::tempdir().unwrap();
    let mut config = StoreConfig::new(home.path());
    config.blob_bytes_max = 10;
    let store = JsonlStore::new(config);
    filled(&store, 0).await;
    let name = store.put_blob(&id(), b"abc".to_vec()).await.unwrap();
    assert_eq!(name, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(store.put_blob(&id(), b"abc".to_vec()).await.unwrap(), name);
    assert_eq!(store.get_blob(&id(), &name).await.unwrap(), b"abc");
    let empty = store.put_blob(&id(), Vec::new()).await.unwrap();
    assert_eq!(store.get_blob(&id(), &empty).await.unwrap(), b"");
    assert_eq!(std::fs::read_dir(folder(home.path()).join("blobs")).unwrap().count(), 2);

    let large = store.put_blob(&id(), vec![0; 11]).await.unwrap_err();
    assert!(matches!(large, StoreError::BlobTooLarge { bytes: 11, limit: 10 }), "{large}");
    for absent in ["x", "../header.json", &"0".repeat(64)] {
        let error = store.get_blob(&id(), absent).await.unwrap_err();
        assert!(matches!(error, StoreError::BlobNotFound { .. }), "{error}");
    }
    put(&folder(home.path()).join("blobs").join(&name), b"abd");
    let error = store.get_blob(&id(), &name).await.unwrap_err();
    assert!(matches!(error, StoreError::BlobDamaged { .. }), "{error}");
}
