use std::path::PathBuf;
use std::time::Duration;

use super::LocalFs;
use crate::fs::{Fs, GlobQuery, Incomplete, SearchQuery};

/// All places are taken by operations that never return; who searches is answered all the same.
#[tokio::test]
async fn a_walk_that_gets_no_turn_ends_at_its_limit() {
    let fs = LocalFs::new(1);
    let _taken = fs.permits.acquire().await.unwrap();
    let (root, time_limit) = (PathBuf::from("/"), Duration::ZERO);
    let search = fs.search(SearchQuery {
        pattern: "x".into(),
        root: root.clone(),
        include: None,
        max_matches: 1,
        max_line_bytes: 1,
        time_limit,
    });
    let glob = fs.glob(GlobQuery { pattern: "*".into(), root, max_files: 1, time_limit });
    let both = async { (search.await.unwrap().incomplete, glob.await.unwrap().incomplete) };
    let both = tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
    assert_eq!(both, (Some(Incomplete::TimeLimit), Some(Incomplete::TimeLimit)));
}
