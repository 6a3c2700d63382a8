//! Checking and mending. What damage does is each back end's own matter.

use std::sync::{Arc, Mutex};

use super::stage::{Stage, events, id, known, lines, turns};

pub(super) async fn a_whole_session_needs_none(stage: &Stage<'_>) {
    let store = stage.store();
    turns(&*store, "a", 200).await;
    store.put_blob(&id("a"), b"bytes".to_vec()).await.unwrap();
    let log = lines(&events(&*store, "a").await);
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hear = Arc::clone(&heard);
    let progress: reins_store::Progress =
        Arc::new(move |done, total| hear.lock().unwrap().push((done, total)));
    let verified = store.verify(&id("a"), known(), progress).await.unwrap();
    assert_eq!((verified.events, verified.blobs), (1_000, 1));
    assert_eq!((verified.damage.len(), verified.read_only), (0, None));
    let heard = heard.lock().unwrap().clone();
    assert!(heard.is_sorted() && heard.iter().all(|(done, total)| done <= total), "{heard:?}");
    for dry_run in [true, false] {
        let silent: reins_store::Progress = Arc::new(|_, _| {});
        let repaired = store.repair(&id("a"), known(), dry_run, silent).await.unwrap();
        assert!(repaired.done.is_empty(), "{repaired:?}");
        assert_eq!(repaired.dry_run, dry_run);
    }
    assert_eq!(lines(&events(&*store, "a").await), log);
}
