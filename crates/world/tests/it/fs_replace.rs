use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reins_world::{ContentHash, Expect, Fs, FsError, LocalFs, Replaced};
use rustix::fs::XattrFlags;
use sha2::{Digest, Sha256};
use tempfile::{TempDir, tempdir};

use crate::child::{NOBODY, as_ordinary_user, this_binary};
use crate::files::{make_fifo, put, skipped};

fn hash(content: impl AsRef<[u8]>) -> ContentHash {
    ContentHash(Sha256::digest(content).into())
}

fn had(content: &str) -> Expect {
    Expect::Hash(hash(content))
}

async fn replace(
    cwd: &Path,
    path: &str,
    content: &str,
    expect: Expect,
) -> Result<Replaced, FsError> {
    LocalFs::default().replace(cwd, path, content.into(), expect).await
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn folder_with(name: &str, content: &str) -> TempDir {
    let folder = tempdir().unwrap();
    put(&folder.path().join(name), content);
    folder
}

#[tokio::test]
async fn creates_with_parents_and_an_editors_mode() {
    let folder = folder_with("by hand", "");
    let top = folder.path().canonicalize().unwrap();
    let done = replace(&top, "a/b/new", "x", Expect::Absent).await.unwrap();
    let expected = Replaced { real: top.join("a/b/new"), created: true, hash: hash("x") };
    assert_eq!(done, expected);
    assert_eq!(fs::read(top.join("a/b/new")).unwrap(), b"x");
    assert_eq!(mode(&top.join("a/b/new")), mode(&top.join("by hand")));
    assert_eq!(names(&top.join("a/b")), ["new"]);
    let empty = replace(&top, "empty", "", Expect::Any).await.unwrap();
    assert!(empty.created);
    assert_eq!(fs::read(top.join("empty")).unwrap(), b"");
}

#[tokio::test]
async fn keeps_mode_attributes_and_links() {
    let folder = tempdir().unwrap();
    let top = folder.path();
    for (name, bits) in [("run.sh", 0o755), ("k.txt", 0o600), ("odd", 0o640)] {
        let path = top.join(name);
        put(&path, "old");
        set_mode(&path, bits);
        let done = replace(top, name, "new", had("old")).await.unwrap();
        assert!(!done.created);
        assert_eq!((fs::read(&path).unwrap().as_slice(), mode(&path)), (b"new".as_slice(), bits));
    }
    symlink("run.sh", top.join("link")).unwrap();
    replace(top, "link", "through", had("new")).await.unwrap();
    assert_eq!(fs::read_link(top.join("link")).unwrap(), Path::new("run.sh"));
    assert_eq!(fs::read(top.join("run.sh")).unwrap(), b"through");

    symlink("later", top.join("dangling")).unwrap();
    assert!(replace(top, "dangling", "born", Expect::Absent).await.unwrap().created);
    assert_eq!(fs::read_link(top.join("dangling")).unwrap(), Path::new("later"));
    assert_eq!(fs::read(top.join("later")).unwrap(), b"born");

    fs::hard_link(top.join("k.txt"), top.join("twin")).unwrap();
    let inode = fs::metadata(top.join("k.txt")).unwrap().ino();
    for text in ["a longer text", "short"] {
        let old = fs::read_to_string(top.join("twin")).unwrap();
        replace(top, "k.txt", text, had(&old)).await.unwrap();
        assert_eq!(fs::read_to_string(top.join("twin")).unwrap(), text);
        assert_eq!(fs::metadata(top.join("twin")).unwrap().ino(), inode);
    }
    assert!(names(top).iter().all(|name| !name.ends_with(".tmp")), "{:?}", names(top));
}

#[tokio::test]
async fn what_must_stay_whole_is_not_written_in_place() {
    let folder = folder_with("f", "old");
    let top = folder.path();
    let whole = |content: &str, old: &str| {
        LocalFs::default().replace_whole(top, "f", content.into(), had(old))
    };
    fs::hard_link(top.join("f"), top.join("twin")).unwrap();
    let error = whole("new", "old").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "a new file cannot take the place of `f`: it has 2 names (hard links)"
    );
    assert_eq!(fs::read(top.join("f")).unwrap(), b"old");
    assert_eq!(names(top), ["f", "twin"]);
    fs::remove_file(top.join("twin")).unwrap();
    whole("new", "old").await.unwrap();
    assert_eq!(fs::read(top.join("f")).unwrap(), b"new");
}

#[tokio::test]
async fn keeps_owner_attributes_and_access_lists() {
    let folder = folder_with("f", "old");
    let path = folder.path().join("f");
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let set =
        |name: &str, value: &[u8]| rustix::fs::setxattr(&path, name, value, XattrFlags::empty());
    if set("user.note", b"kept").is_err() {
        return skipped("a file system with extended attributes");
    }
    // Version 2: owner rw, user 1 r, group r, mask r, others none.
    let entry = |tag: u16, bits: u16, id: u32| {
        [&tag.to_le_bytes()[..], &bits.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let none = u32::MAX;
    let list = [
        2_u32.to_le_bytes().to_vec(),
        entry(0x01, 6, none),
        entry(0x02, 4, 1),
        entry(0x04, 4, none),
        entry(0x10, 4, none),
        entry(0x20, 0, none),
    ]
    .concat();
    let with_list = set("system.posix_acl_access", &list).is_ok();
    let before = fs::metadata(&path).unwrap();
    replace(folder.path(), "f", "new", had("old")).await.unwrap();
    let after = fs::metadata(&path).unwrap();
    assert_ne!(after.ino(), before.ino());
    assert_eq!(
        (after.uid(), after.gid(), after.mode()),
        (before.uid(), before.gid(), before.mode())
    );
    let value = |name: &str| {
        let mut value = vec![0; 256];
        let length = rustix::fs::getxattr(&path, name, &mut value[..]).unwrap();
        value.truncate(length);
        value
    };
    assert_eq!(value("user.note"), b"kept");
    if with_list {
        assert_eq!(value("system.posix_acl_access"), list);
    } else {
        skipped("a file system with access control lists");
    }
}

#[tokio::test]
async fn equal_content_is_not_written() {
    let folder = folder_with("f", "same");
    let before = fs::metadata(folder.path().join("f")).unwrap();
    for expect in [had("same"), Expect::Any] {
        assert!(!replace(folder.path(), "f", "same", expect).await.unwrap().created);
    }
    let after = fs::metadata(folder.path().join("f")).unwrap();
    assert_eq!((after.ino(), after.mtime_nsec()), (before.ino(), before.mtime_nsec()));
}

#[tokio::test]
async fn expectations_are_checked_by_content() {
    let folder = folder_with("f", "theirs");
    let top = folder.path();
    let path = || "f".into();
    assert_eq!(replace(top, "f", "mine", had("old")).await, Err(FsError::Stale { path: path() }));
    assert_eq!(
        replace(top, "f", "mine", Expect::Absent).await,
        Err(FsError::Exists { path: path() })
    );
    let gone = replace(top, "no/such", "mine", had("old")).await;
    assert_eq!(gone, Err(FsError::Stale { path: "no/such".into() }));
    assert_eq!(names(top), ["f"]);
    assert_eq!(fs::read(top.join("f")).unwrap(), b"theirs");
    // A pure touch is no change.
    let file = fs::File::options().append(true).open(top.join("f")).unwrap();
    file.set_modified(std::time::UNIX_EPOCH).unwrap();
    replace(top, "f", "mine", had("theirs")).await.unwrap();
    assert_eq!(fs::read(top.join("f")).unwrap(), b"mine");
}

#[tokio::test]
async fn what_is_no_regular_file_stays() {
    let folder = folder_with("file", "x");
    let top = folder.path();
    fs::create_dir(top.join("dir")).unwrap();
    make_fifo(&top.join("fifo"));
    symlink("dir", top.join("link")).unwrap();
    for expect in [Expect::Any, Expect::Absent, had("x")] {
        for (path, kind) in [
            ("dir", "directory"),
            ("link", "directory"),
            ("fifo", "FIFO"),
            ("/dev/zero", "character device"),
            ("new/", "directory"),
        ] {
            let refused = replace(top, path, "y", expect).await.unwrap_err();
            assert_eq!(refused, FsError::NotRegular { path: path.into(), kind: kind.into() });
        }
        let refused = replace(top, "file/below", "y", expect).await.unwrap_err();
        assert!(matches!(refused, FsError::NotDirectory { .. }), "{refused:?}");
    }
    assert_eq!(names(top), ["dir", "fifo", "file", "link"]);
}

#[tokio::test]
async fn a_link_in_a_judged_path_is_refused() {
    let folder = folder_with("f", "old");
    let top = folder.path().canonicalize().unwrap();
    fs::create_dir(top.join("real")).unwrap();
    symlink("real", top.join("dir")).unwrap();
    symlink("f", top.join("link")).unwrap();
    let fs = LocalFs::default();
    for path in ["dir/new", "link"] {
        let path = top.join(path);
        let refused = fs.replace_at(&path, b"x".to_vec(), Expect::Any).await.unwrap_err();
        assert!(matches!(refused, FsError::Moved { .. }), "{refused:?}");
    }
    let done = fs.replace_at(&top.join("real/new"), b"x".to_vec(), Expect::Absent).await.unwrap();
    assert!(done.created);
    assert_eq!(names(&top.join("real")), ["new"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_writers_with_one_expectation_exactly_one_wins() {
    let folder = folder_with("f", "0");
    let fs = Arc::new(LocalFs::default());
    fs::hard_link(folder.path().join("f"), folder.path().join("twin")).unwrap();
    let mut old = "0".to_owned();
    for round in 1..=50 {
        // In the first half by two names of one file.
        let second = if round <= 25 { "twin" } else { "f" };
        if round == 26 {
            fs::remove_file(folder.path().join("twin")).unwrap();
        }
        let (a, b) = (format!("a{round}"), format!("b{round}"));
        let (left, right) = tokio::join!(
            fs.replace(folder.path(), "f", a.clone().into(), had(&old)),
            fs.replace(folder.path(), second, b.clone().into(), had(&old)),
        );
        let now = fs::read_to_string(folder.path().join("f")).unwrap();
        match (left, right) {
            (Ok(_), Err(FsError::Stale { .. })) => assert_eq!(now, a),
            (Err(FsError::Stale { .. }), Ok(_)) => assert_eq!(now, b),
            both => panic!("round {round}: {both:?}"),
        }
        old = now;
    }
    for round in 0..50 {
        let name = format!("new{round}");
        let (left, right) = tokio::join!(
            fs.replace(folder.path(), &name, b"a".to_vec(), Expect::Absent),
            fs.replace(folder.path(), &name, b"b".to_vec(), Expect::Absent),
        );
        assert_eq!(u8::from(left.is_ok()) + u8::from(right.is_ok()), 1);
    }
    assert!(names(folder.path()).iter().all(|name| !name.ends_with(".tmp")));
}

/// One of the two contents of [`for_ever`], long enough to be torn.
fn long(letter: &str) -> String {
    letter.repeat(200_000)
}

pub(crate) async fn for_ever(place: &Path) {
    let name = std::str::from_utf8(place.file_name().unwrap().as_bytes()).unwrap();
    loop {
        for letter in ["a", "b"] {
            replace(place.parent().unwrap(), name, &long(letter), Expect::Any).await.unwrap();
        }
    }
}

#[test]
fn a_killed_writer_leaves_the_old_or_the_new_content() {
    for round in 0..10_u64 {
        let folder = folder_with("f", &long("a"));
        let path = folder.path().join("f");
        let mut command = this_binary("replace for ever", &path);
        let mut child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        // Kill after some publications, at different moments of the next one.
        let mut seen = 0;
        let mut inode = fs::metadata(&path).unwrap().ino();
        while seen < 3 {
            assert_eq!(child.try_wait().unwrap(), None);
            let now = fs::metadata(&path).unwrap().ino();
            seen += u64::from(now != inode);
            inode = now;
        }
        let until = Instant::now() + Duration::from_micros(round * 150);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let content = fs::read_to_string(&path).unwrap();
        assert!(content == long("a") || content == long("b"), "{} bytes", content.len());
        // What is left can be told from all else.
        let left = names(folder.path()).into_iter().filter(|name| name != "f");
        for name in left {
            assert!(LocalFs::is_temporary(name.as_ref()), "{name}");
        }
    }
}

/// Runs as an ordinary user in a folder that is prepared below.
pub(crate) async fn without_permission(top: &Path) {
    assert!(!rustix::process::geteuid().is_root());
    let refused = |result: Result<Replaced, FsError>| match result {
        Err(FsError::Permission { .. }) => {}
        other => panic!("{other:?}"),
    };
    refused(replace(top, "closed/new", "x", Expect::Absent).await);
    refused(replace(top, "closed/sub/new", "x", Expect::Absent).await);
    refused(replace(top, "closed/locked", "x", Expect::Any).await);
    refused(replace(top, "open/locked", "x", had("old")).await);
    for (path, why) in [
        ("closed/mine", "its folder takes no new files"),
        ("open/theirs", "a file of yours cannot have its owner and group"),
    ] {
        let error = LocalFs::default().replace_whole(top, path, b"x".into(), had("old")).await;
        let error = error.unwrap_err().to_string();
        assert_eq!(error, format!("a new file cannot take the place of `{path}`: {why}"));
    }
    // The folder takes no new name, but the file itself may be written.
    replace(top, "closed/mine", "x", had("old")).await.unwrap();
    // The owner could not be kept by a new file.
    let before = fs::metadata(top.join("open/theirs")).unwrap();
    replace(top, "open/theirs", "x", had("old")).await.unwrap();
    let after = fs::metadata(top.join("open/theirs")).unwrap();
    assert_eq!((after.ino(), after.uid()), (before.ino(), before.uid()));
    let hidden = LocalFs::default().read(top, "open/secret", 10).await.unwrap_err();
    assert!(matches!(hidden, FsError::Permission { .. }), "{hidden:?}");
}

#[test]
fn permissions_of_an_ordinary_user() {
    let folder = tempdir().unwrap();
    let top = folder.path();
    set_mode(top, 0o755);
    for name in ["open", "closed"] {
        fs::create_dir(top.join(name)).unwrap();
    }
    for (path, bits) in [
        ("closed/locked", 0o444),
        ("closed/mine", 0o666),
        ("open/locked", 0o444),
        ("open/theirs", 0o666),
        ("open/secret", 0o000),
    ] {
        put(&top.join(path), "old");
        set_mode(&top.join(path), bits);
    }
    set_mode(&top.join("open"), 0o777);
    set_mode(&top.join("closed"), 0o555);
    as_ordinary_user("without permission", top);
    assert_eq!(names(&top.join("closed")), ["locked", "mine"]);
    assert_eq!(names(&top.join("open")), ["locked", "secret", "theirs"]);
    assert_eq!(fs::read(top.join("closed/mine")).unwrap(), b"x");
    assert_eq!(fs::read(top.join("open/locked")).unwrap(), b"old");
}

struct Mounted(TempDir);

impl Mounted {
    fn tiny() -> Option<Self> {
        let folder = tempdir().unwrap();
        let flags = rustix::mount::MountFlags::empty();
        let options = c"size=64k";
        rustix::mount::mount("tmpfs", folder.path(), "tmpfs", flags, Some(options)).ok()?;
        Some(Self(folder))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let flags = rustix::mount::UnmountFlags::DETACH;
        rustix::mount::unmount(self.0.path(), flags).unwrap();
    }
}

#[tokio::test]
async fn a_full_disk_changes_nothing() {
    let Some(disk) = Mounted::tiny() else { return skipped("the right to mount") };
    let top = disk.0.path();
    put(&top.join("f"), "old");
    put(&top.join("linked"), "old");
    fs::hard_link(top.join("linked"), top.join("twin")).unwrap();
    let big = "x".repeat(200_000);
    for (path, expect) in [("f", had("old")), ("linked", had("old")), ("new/file", Expect::Absent)]
    {
        let refused = replace(top, path, &big, expect).await.unwrap_err();
        let FsError::Io { problem, .. } = &refused else { panic!("{refused:?}") };
        assert_eq!(problem, "No space left on device");
    }
    assert_eq!(names(top), ["f", "linked", "twin"]);
    for name in names(top) {
        assert_eq!(fs::read(top.join(name)).unwrap(), b"old");
    }
}

#[tokio::test]
async fn a_dropped_future_stops_its_work_and_changes_nothing() {
    let folder = folder_with("f", "");
    // Hashing a hole of this size takes minutes.
    let size = 1 << 37;
    fs::File::options().write(true).open(folder.path().join("f")).unwrap().set_len(size).unwrap();
    let fs = LocalFs::new(1);
    let mut writing = fs.replace(folder.path(), "f", b"new".to_vec(), had("old"));
    tokio::select! {
        biased;
        done = &mut writing => panic!("{done:?}"),
        () = tokio::task::yield_now() => {}
    }
    drop(writing);
    // The one permit is free again.
    let resolved = fs.resolve(folder.path(), "f");
    let place = tokio::time::timeout(Duration::from_secs(30), resolved).await.unwrap().unwrap();
    assert_eq!(place.size, size);
    assert_eq!(names(folder.path()), ["f"]);
}
