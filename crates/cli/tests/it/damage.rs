//! What stands in the home where a log, a header or a lease belongs.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use reins_testkit::{Bin, StrictServer, script};
use serde_json::Value;

fn bin() -> Bin {
    Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap()
}

/// A home with one session of one turn, and its id.
async fn with_session(bin: &Bin) -> String {
    let end = bin.run(["run", "--output", "json", "the first prompt"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    let object: Value = serde_json::from_str(&end.stdout).unwrap();
    object["session"].as_str().unwrap().to_owned()
}

fn folder(bin: &Bin, id: &str) -> PathBuf {
    bin.home().join("sessions").join(id)
}

fn put(path: &std::path::Path, bytes: &[u8]) {
    std::fs::File::create(path).unwrap().write_all(bytes).unwrap();
}

#[tokio::test]
async fn a_log_that_lost_more_than_its_end_is_kept_and_the_session_goes_on() {
    let server = StrictServer::start(script().text("hello").forever()).unwrap();
    let bin = bin().model_at(&server.base_url());
    let id = with_session(&bin).await;
    let log = folder(&bin, &id).join("00000000.log");
    let text = std::fs::read_to_string(&log).unwrap();
    let crlf = text.replace('\n', "\r\n");
    let half = text.match_indices('\n').nth(3).unwrap().0 + 1;
    let lost = text[half..].replace("\"sum\"", "\"mus\"");
    for (changed, kept) in [(crlf.clone(), crlf), (format!("{}{lost}", &text[..half]), lost)] {
        put(&log, changed.as_bytes());
        let end = bin.run(["run", "--session", &id, "go on"]).await.unwrap();
        assert_eq!((end.code, end.stdout.as_str()), (Some(0), "hello\n"), "{}", end.stderr);
        let files = std::fs::read_dir(folder(&bin, &id)).unwrap();
        let mut contents = files.filter_map(|file| std::fs::read(file.unwrap().path()).ok());
        assert!(contents.any(|content| content.ends_with(kept.as_bytes())), "{}", end.stderr);
    }
    let end = bin.run(["run", "--continue", "go on"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
}

#[tokio::test]
async fn pipes_and_devices_in_the_home_are_named_and_block_nothing() {
    let acts = script().text("hello").then().text("hello").then().text("fine").forever();
    let server = StrictServer::start(acts).unwrap();
    let bin = bin().model_at(&server.base_url()).limit(Duration::from_secs(20));
    let good = with_session(&bin).await;
    for name in ["header.json", "00000000.log", "lease"] {
        for what in ["FIFO", "symbolic link"] {
            let broken = with_session(&bin).await;
            let path = folder(&bin, &broken).join(name);
            std::fs::remove_file(&path).unwrap();
            if what == "FIFO" {
                let mode = rustix::fs::Mode::RWXU;
                rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
                    .unwrap();
            } else {
                std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
            }
            let list = bin.run(["session", "list"]).await.unwrap();
            assert_eq!(list.code, Some(0), "{name}: {}", list.stderr);
            assert!(list.stdout.contains(&good), "{name}: {}", list.stdout);
            let show = bin.run(["session", "show", &broken]).await.unwrap();
            let shown = if name == "lease" { 0 } else { 6 };
            assert_eq!(show.code, Some(shown), "{name}, {what}: {}", show.stderr);
            let end = bin.run(["run", "--session", &broken, "go on"]).await.unwrap();
            let stands = "stands where a file belongs";
            match name {
                // Only the header says which directory it belongs to.
                "header.json" => {
                    assert_eq!(end.code, Some(2), "{what}: {}", end.stderr);
                    assert!(end.stderr.contains("say where it is now, with --cwd"), "{what}");
                }
                "lease" => {
                    assert_eq!(end.code, Some(6), "{what}: {}", end.stderr);
                    assert!(end.stderr.contains(stands), "{what}: {}", end.stderr);
                }
                _ => {
                    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "fine\n"), "{what}");
                    assert!(end.stderr.contains(stands), "{what}: {}", end.stderr);
                }
            }
            std::fs::remove_dir_all(folder(&bin, &broken)).unwrap();
        }
    }
}

#[tokio::test]
async fn what_can_be_shown_is_shown_and_what_is_wrong_is_said() {
    let server = StrictServer::start(script().text("hello").times(1)).unwrap();
    let bin = bin().model_at(&server.base_url());
    let id = with_session(&bin).await;
    let log = folder(&bin, &id).join("00000000.log");
    let header = folder(&bin, &id).join("header.json");
    let (whole, head) = (std::fs::read(&log).unwrap(), std::fs::read(&header).unwrap());
    let show = async || bin.run(["session", "show", &id]).await.unwrap();
    let good = show().await;
    assert_eq!((good.code, good.stderr.as_str()), (Some(0), ""));
    assert!(good.stdout.contains("the first prompt"), "{}", good.stdout);

    for broken in [&b"no header"[..], b""] {
        put(&header, broken);
        let end = show().await;
        // Where it began may be known from elsewhere.
        let events = |shown: &str| shown.split_once('\n').unwrap().1.to_owned();
        assert_eq!(end.code, Some(6), "{}", end.stderr);
        assert_eq!(events(&end.stdout), events(&good.stdout));
        assert!(end.stderr.contains("the header is not JSON"), "{}", end.stderr);
    }
    put(&header, &head);
    put(&log, &[&whole[..], b"torn"].concat());
    let end = show().await;
    assert_eq!((end.code, end.stdout), (Some(6), good.stdout.clone()), "{}", end.stderr);
    let place = format!("byte {}: ", whole.len());
    assert!(end.stderr.contains(&place), "{}", end.stderr);
    assert!(end.stderr.contains("\nhint: the next run of the session"), "{}", end.stderr);

    let mut flipped = whole.clone();
    let at = whole.windows(7).rposition(|part| part == b"\"hello\"").unwrap();
    flipped[at + 1] = b'H';
    put(&log, &flipped);
    let end = show().await;
    assert_eq!(end.code, Some(6), "{}", end.stderr);
    assert!(end.stdout.contains("the first prompt"), "{}", end.stdout);
    assert!(end.stderr.contains("00000000.log"), "{}", end.stderr);
    assert_eq!(std::fs::read(&log).unwrap(), flipped);
}

#[tokio::test]
async fn a_name_with_a_line_feed_stays_on_its_line_of_the_list() {
    let server = StrictServer::start(script().text("hello").times(1)).unwrap();
    let bin = bin().model_at(&server.base_url());
    let odd = bin.project().join("odd\n\x1bplace");
    std::fs::create_dir(&odd).unwrap();
    let args = ["run".as_ref(), "hi".as_ref(), "--cwd".as_ref(), odd.as_os_str()];
    let end = bin.run(args).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    std::fs::create_dir(bin.home().join("sessions/bad\nname")).unwrap();
    let list = bin.run(["session", "list"]).await.unwrap();
    assert_eq!(list.code, Some(0), "{}", list.stderr);
    assert_eq!(list.stdout.lines().count(), 1, "{}", list.stdout);
    assert!(list.stdout.contains("odd\\u{a}\\u{1b}place  hi\n"), "{}", list.stdout);
    assert_eq!(list.stderr.lines().count(), 1, "{}", list.stderr);
    assert!(list.stderr.contains("bad\\u{a}name"), "{}", list.stderr);
}
