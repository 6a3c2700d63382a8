//! Homes that cannot be used, ids that cannot be names, disks without space.

use std::path::Path;

use reins_schema::SessionId;
use reins_store::{JsonlStore, ListFilter, Store, StoreConfig, StoreError};
use rustix::mount::{MountFlags, UnmountFlags};

use crate::setup::{
    append, create, filled, folder, header, id, log_path, on_disk, open, put, store,
};

fn skipped(needs: &str) {
    reins_testkit::needs_condition(needs, false).unwrap();
}

pub(crate) struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        rustix::mount::unmount(self.0, UnmountFlags::DETACH).unwrap();
    }
}

/// A small file system of its own, for root.
pub(crate) fn tmpfs(at: &Path) -> Option<Mounted<'_>> {
    match rustix::mount::mount("none", at, "tmpfs", MountFlags::empty(), c"size=2m") {
        Ok(()) => Some(Mounted(at)),
        Err(_) => {
            skipped("root");
            None
        }
    }
}

async fn create_error(store: &JsonlStore) -> StoreError {
    store.create(header(&id()), Default::default()).await.map(|_| ()).unwrap_err()
}

#[tokio::test]
async fn a_full_disk_is_said_and_survived() {
    let home = tempfile::tempdir().unwrap();
    let Some(_mounted) = tmpfs(home.path()) else { return };
    let store = store(home.path());
    let session = create(&store).await;
    append(&session, 0..10).await;
    session.log.flush().await.unwrap();
    let ballast = home.path().join("ballast");
    put(&ballast, &vec![1; 1 << 20]);
    let mut seq = 10;
    let error = loop {
        let text = "z".repeat(50_000);
        if let Err(error) = session.log.append(crate::setup::note(seq, &text)).await {
            break error;
        }
        seq += 1;
        if let Err(error) = session.log.flush().await {
            break error;
        }
        assert!(seq < 1000, "the disk never filled");
    };
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().starts_with("disk full: "), "{error}");
    assert!(error.to_string().contains(log_path(home.path()).to_str().unwrap()));
    assert!(matches!(session.log.flush().await, Err(StoreError::Full { .. })));
    assert!(session.log.close().await.is_err());
    let log = std::fs::read(log_path(home.path())).unwrap();
    assert_eq!(log.last(), Some(&b'\n'), "the tail is whole");

    std::fs::remove_file(&ballast).unwrap();
    let durable = on_disk(&store).await.len() as u64;
    assert!((10..seq).contains(&durable), "{durable} of {seq}");
    let session = open(&store).await.unwrap();
    assert_eq!(session.recovered, []);
    append(&session, durable..durable + 3).await;
    session.log.close().await.unwrap();
    assert_eq!(on_disk(&store).await, (0..durable + 3).collect::<Vec<u64>>());
}

#[tokio::test]
async fn a_create_without_space_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let Some(_mounted) = tmpfs(home.path()) else { return };
    let store = store(home.path());
    std::fs::create_dir(home.path().join("sessions")).unwrap();
    let mut ballast = std::fs::File::create(home.path().join("ballast")).unwrap();
    let filled = std::io::copy(&mut std::io::repeat(1), &mut ballast);
    assert!(filled.is_err());
    let error = create_error(&store).await;
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert_eq!(std::fs::read_dir(home.path().join("sessions")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_read_only_disk_is_said_before_anything_is_written() {
    let home = tempfile::tempdir().unwrap();
    let Some(_mounted) = tmpfs(home.path()) else { return };
    let with = store(home.path());
    filled(&with, 2).await;
    rustix::mount::mount_remount(home.path(), MountFlags::RDONLY, "").unwrap();
    assert!(matches!(create_error(&with).await, StoreError::ReadOnly { .. }));
    assert!(matches!(open(&with).await, Err(StoreError::ReadOnly { .. })));
    let below = store(&home.path().join("not/yet"));
    assert!(matches!(create_error(&below).await, StoreError::ReadOnly { .. }));
    // Reading needs no writing.
    assert_eq!(on_disk(&with).await, [0, 1]);
    assert_eq!(crate::setup::inspect(&with).await.unwrap().fold.next_seq(), 2);
    assert_eq!(with.list(ListFilter::default()).await.unwrap().sessions.len(), 1);
}

#[tokio::test]
async fn a_home_at_or_below_a_file_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    put(&file, b"x");
    for home in [file.clone(), file.join("home"), file.join("a/b/c")] {
        let store = store(&home);
        let error = create_error(&store).await;
        assert!(
            matches!(&error, StoreError::HomeNotDirectory { path } if *path == file),
            "{error}"
        );
        assert!(matches!(
            store.list(ListFilter::default()).await,
            Err(StoreError::HomeNotDirectory { .. })
        ));
        let error = open(&store).await.unwrap_err();
        assert!(matches!(error, StoreError::HomeNotDirectory { .. }), "{error}");
    }
    let home = root.path().join("home");
    std::fs::create_dir(&home).unwrap();
    put(&home.join("sessions"), b"x");
    assert!(matches!(create_error(&store(&home)).await, StoreError::HomeNotDirectory { .. }));
}

#[tokio::test]
async fn a_place_where_no_folder_can_be_is_said() {
    let root = tempfile::tempdir().unwrap();
    let homes = [root.path().join("x".repeat(300)).join("home"), "/proc/no-such/home".into()];
    for home in homes {
        let error = create_error(&store(&home)).await;
        let StoreError::HomeImpossible { path, .. } = &error else { panic!("{error}") };
        assert!(home.starts_with(path), "{error}");
        let text = error.to_string();
        assert!(text.starts_with("the home cannot be made at "), "{text}");
        assert!(text.ends_with("; set REINS_HOME to a place where you can make folders"), "{text}");
    }
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn folders_and_files_in_each_others_place_are_named() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    filled(&store, 0).await;
    let path = folder(home.path()).join("lease");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let text = open(&store).await.unwrap_err().to_string();
    assert!(text.contains(path.to_str().unwrap()), "{text}");
    assert!(text.contains("a folder stands where a file belongs"), "{text}");
    assert_eq!(on_disk(&store).await, [0; 0], "reading needs no lease");
    std::fs::remove_dir_all(folder(home.path())).unwrap();
    put(&folder(home.path()), b"x");
    let text = open(&store).await.unwrap_err().to_string();
    assert!(text.contains("a file stands where a session's folder belongs"), "{text}");
    assert!(matches!(create_error(&store).await, StoreError::AlreadyExists { .. }));
}

#[tokio::test]
async fn ids_are_names_and_absent_ones_are_said() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    filled(&store, 0).await;
    let long = "x".repeat(129);
    for bad in ["", ".", "..", "a/b", "a\\b", "a.b", "ä", "a b", "a\0", long.as_str()] {
        let bad = SessionId::new(bad);
        let created = store.create(header(&bad), Default::default()).await;
        assert!(matches!(created, Err(StoreError::InvalidId { .. })), "{bad}");
        assert!(matches!(store.read(&bad, 0, 1).await, Err(StoreError::InvalidId { .. })));
    }
    let error = store.read(&SessionId::new("0193"), 0, 1).await.unwrap_err();
    assert!(matches!(error, StoreError::NotFound { .. }));
    assert!(error.to_string().contains("did you mean `0193-aaaa`?"), "{error}");
    let error = store.read(&SessionId::new("zzz"), 0, 1).await.unwrap_err();
    assert!(error.to_string().contains("list the sessions"), "{error}");
}

#[tokio::test]
async fn headers_that_would_mislead_are_not_written() {
    let home = tempfile::tempdir().unwrap();
    let store = JsonlStore::new(StoreConfig::new(home.path()));
    let mut old = header(&id());
    old.created_at = -1;
    let mut new = header(&id());
    new.format += 1;
    for header in [old, new] {
        let error = store.create(header, Default::default()).await.map(|_| ()).unwrap_err();
        assert!(matches!(error, StoreError::InvalidHeader { .. }), "{error}");
    }
    assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_newer_format_says_upgrade() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    filled(&store, 1).await;
    put(&folder(home.path()).join("header.json"), br#"{"format":3,"id":{"new":1}}"#);
    let error = open(&store).await.unwrap_err();
    assert!(matches!(error, StoreError::NewerFormat { found: 3, .. }), "{error}");
    assert!(error.to_string().contains("upgrade Reins"));
}

/// Runs a future as another user. Threads that the runtime starts for it are that user's too.
fn as_nobody<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let run = || {
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534)).ok()?;
        Some(work())
    };
    let result = std::thread::spawn(run).join().unwrap();
    if result.is_none() {
        skipped("root");
    }
    result
}

#[test]
fn a_home_that_is_not_ours_is_said_before_anything_is_written() {
    use std::os::unix::fs::PermissionsExt;
    let root = tempfile::tempdir().unwrap();
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let errors = |home: std::path::PathBuf| {
        as_nobody(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let store = store(&home);
            runtime.block_on(create_error(&store))
        })
    };
    let path = root.path().to_path_buf();
    let Some(closed) = errors(path.clone()) else { return };
    assert!(matches!(closed, StoreError::NotOurs { owner: 0, .. }), "{closed}");
    let Some(below) = errors(path.join("home")) else { return };
    assert!(matches!(below, StoreError::Permission { .. }), "{below}");
    // Even where the system would let us write.
    mode(&path, 0o777);
    let Some(open) = errors(path.clone()) else { return };
    assert!(matches!(open, StoreError::NotOurs { owner: 0, .. }), "{open}");
    mode(&path, 0o755);
    let Some(below) = errors(path.join("home")) else { return };
    assert!(matches!(&below, StoreError::Permission { path: p } if *p == path), "{below}");
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
}
