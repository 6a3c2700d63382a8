use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn files_are_created_and_updated() {
    let bench = Bench::new().await;
    let answer = bench.ok("write", json!({"file_path": "new/dir/a", "content": "x\ny\n"})).await;
    assert_eq!(answer.text, "Created file `new/dir/a` (2 lines, 4 bytes).");
    assert_eq!(answer.meta["operation"], "create");
    assert_eq!(bench.text("new/dir/a"), "x\ny\n");
    let answer = bench.ok("write", json!({"file_path": "new/dir/a", "content": "x\nz\n"})).await;
    assert_eq!(answer.text, "Updated file `new/dir/a` (2 lines, 4 bytes).");
    assert!(answer.meta["diff"].as_str().unwrap().contains("-y\n+z\n"), "{}", answer.meta);
    let edit = json!({"file_path": "new/dir/a", "old_string": "z", "new_string": "w"});
    bench.ok("edit", edit).await;
    bench.ok("write", json!({"file_path": "new/dir/a", "content": ""})).await;
    assert_eq!(bench.text("new/dir/a"), "");
}

#[tokio::test]
async fn an_unread_file_is_not_overwritten() {
    let bench = Bench::new().await;
    bench.put("there", "old");
    let (code, message) =
        bench.fails("write", json!({"file_path": "there", "content": "new"})).await;
    assert_eq!(code, "FS_NOT_OBSERVED");
    assert!(message.ends_with("read it first, then repeat the call"), "{message}");
    assert_eq!(bench.text("there"), "old");
    let same = bench.ok("write", json!({"file_path": "there", "content": "old"})).await;
    assert_eq!(same.text, "`there` already has exactly this content (1 line, 3 bytes).");
    bench.ok("write", json!({"file_path": "there", "content": "new"})).await;
    assert_eq!(bench.text("there"), "new");
    std::fs::create_dir(bench.path("folder")).unwrap();
    let (code, _) = bench.fails("write", json!({"file_path": "folder", "content": ""})).await;
    assert_eq!(code, "FS_NOT_REGULAR_FILE");
}

/// B09: someone else's work is not lost, and a touched file is no conflict.
#[tokio::test]
async fn newer_work_is_not_overwritten() {
    let bench = Bench::new().await;
    bench.put("s.cfg", "a=1\n");
    bench.ok("read", json!({"file_path": "s.cfg"})).await;
    bench.put("s.cfg", "a=1\nb=2\n");
    let write = json!({"file_path": "s.cfg", "content": "a=3\n"});
    let (code, message) = bench.fails("write", write.clone()).await;
    assert_eq!(code, "FS_STALE_VERSION");
    assert!(message.contains("read it again"), "{message}");
    assert_eq!(bench.text("s.cfg"), "a=1\nb=2\n");
    bench.ok("read", json!({"file_path": "s.cfg"})).await;
    let file = std::fs::File::options().write(true).open(bench.path("s.cfg")).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(5)).unwrap();
    drop(file);
    bench.ok("write", write).await;
    assert_eq!(bench.text("s.cfg"), "a=3\n");
}

#[tokio::test]
async fn a_deleted_file_is_created_again_only_knowingly() {
    let bench = Bench::new().await;
    bench.put("a", "x");
    bench.ok("read", json!({"file_path": "a"})).await;
    std::fs::remove_file(bench.path("a")).unwrap();
    let write = json!({"file_path": "a", "content": "y"});
    assert_eq!(bench.fails("write", write.clone()).await.0, "FS_STALE_VERSION");
    let edit = json!({"file_path": "a", "old_string": "x", "new_string": "y"});
    assert_eq!(bench.fails("edit", edit).await.0, "FS_STALE_VERSION");
    assert_eq!(bench.fails("read", json!({"file_path": "a"})).await.0, "FS_NOT_FOUND");
    bench.ok("write", write).await;
    assert_eq!(bench.text("a"), "y");
}

/// B10: modes stay.
#[tokio::test]
async fn modes_are_kept() {
    let bench = Bench::new().await;
    for (name, mode) in [("run.sh", 0o755), ("k.txt", 0o600)] {
        bench.put(name, "echo word\n");
        std::fs::set_permissions(bench.path(name), PermissionsExt::from_mode(mode)).unwrap();
        bench.ok("read", json!({"file_path": name})).await;
    }
    let edit = json!({"file_path": "run.sh", "old_string": "word", "new_string": "other"});
    bench.ok("edit", edit).await;
    bench.ok("write", json!({"file_path": "k.txt", "content": "secret\n"})).await;
    assert_eq!(bench.text("run.sh"), "echo other\n");
    let mode = |name| std::fs::metadata(bench.path(name)).unwrap().mode() & 0o7777;
    assert_eq!((mode("run.sh"), mode("k.txt")), (0o755, 0o600));
}

/// B11: a link stays a link, its target changes; both names are one file for the session.
#[tokio::test]
async fn links_are_written_through() {
    let bench = Bench::new().await;
    bench.put("real.txt", "one");
    symlink("real.txt", bench.path("link.txt")).unwrap();
    bench.ok("read", json!({"file_path": "real.txt"})).await;
    bench.ok("write", json!({"file_path": "link.txt", "content": "two"})).await;
    let edit = json!({"file_path": "link.txt", "old_string": "two", "new_string": "three"});
    bench.ok("edit", edit).await;
    assert!(std::fs::symlink_metadata(bench.path("link.txt")).unwrap().is_symlink());
    assert_eq!(bench.text("real.txt"), "three");
}

#[tokio::test]
async fn what_is_no_regular_file_is_named() {
    let bench = Bench::new().await;
    let mode = rustix::fs::Mode::RWXU;
    let fifo = bench.path("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::fs::create_dir(bench.path("folder")).unwrap();
    for (path, kind) in [("fifo", "FIFO"), ("folder", "directory")] {
        let write = json!({"file_path": path, "content": "x"});
        let (code, message) = bench.fails("write", write).await;
        assert_eq!(code, "FS_NOT_REGULAR_FILE");
        assert!(message.contains(kind), "{message}");
    }
}
