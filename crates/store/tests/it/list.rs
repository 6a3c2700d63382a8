//! The list of sessions beside folders that are none.

use std::fs::{FileTimes, create_dir, create_dir_all};
use std::time::{Duration, UNIX_EPOCH};

use reins_schema::{InboxSpliced, InboxTarget, Message, MessageId, Payload, SessionId};
use reins_store::{ListFilter, Store};

use crate::setup::{header, line, note, put, store};

#[tokio::test]
async fn a_home_without_sessions_has_an_empty_list() {
    let home = tempfile::tempdir().unwrap();
    for place in [home.path().to_path_buf(), home.path().join("absent/deep")] {
        let listing = store(&place).list(ListFilter::default()).await.unwrap();
        assert!(listing.sessions.is_empty() && listing.damaged.is_empty());
    }
}

/// Folders beside the good ones: some can be opened, some are no sessions.
fn spoil(sessions: &std::path::Path) {
    let good = |name: &str| {
        create_dir(sessions.join(name)).unwrap();
        let text = serde_json::to_vec(&header(&SessionId::new(name))).unwrap();
        put(&sessions.join(name).join("header.json"), &text);
        sessions.join(name).join("00000000.log")
    };
    put(&good("zero-log"), b"");
    put(&good("torn-first"), &line(0, "cut")[..40]);
    put(&good("random-log"), &(0..=255).rev().cycle().take(9000).collect::<Vec<u8>>());
    put(&good("words-log"), b"not a log\n");
    put(&good("zero-header").with_file_name("header.json"), b"");
    put(&good("newer").with_file_name("header.json"), br#"{"format":99,"id":7}"#);
    put(&good("renamed").with_file_name("header.json"), &{
        serde_json::to_vec(&header(&SessionId::new("other"))).unwrap()
    });
    create_dir_all(good("log-is-dir")).unwrap();
    create_dir(sessions.join("empty-folder")).unwrap();
    create_dir(sessions.join("bad name!")).unwrap();
    create_dir(sessions.join(".hidden")).unwrap();
    put(&sessions.join("file"), b"x");
}

#[tokio::test]
async fn damaged_folders_never_hide_good_ones() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    for n in 0..48_u64 {
        let id = SessionId::new(format!("s-{n}"));
        let session = store.create(header(&id), Default::default()).await.unwrap();
        session.log.append(note(0, "x")).await.unwrap();
        session.log.close().await.unwrap();
        let log = home.path().join(format!("sessions/s-{n}/00000000.log"));
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000 + n);
        let file = std::fs::OpenOptions::new().append(true).open(log).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    }
    spoil(&home.path().join("sessions"));

    let listing = store.list(ListFilter::default()).await.unwrap();
    assert_eq!((listing.sessions.len(), listing.total), (54, 54));
    let order: Vec<_> = listing.sessions.iter().map(|s| s.modified).collect();
    assert!(order.is_sorted_by(|a, b| a >= b), "{order:?}");
    assert_eq!(listing.sessions[53].header.id.as_str(), "s-0");
    assert_eq!(listing.sessions[53].modified, 1_000_000_000);
    assert_eq!(listing.sessions[53].bytes, line(0, "x").len() as u64);
    let damaged: Vec<_> = listing
        .damaged
        .iter()
        .map(|(path, _)| path.file_name().unwrap().to_str().unwrap())
        .collect();
    let expected = ["bad name!", "empty-folder", "file", "newer", "zero-header"];
    assert_eq!(damaged, expected);
    for (path, reason) in &listing.damaged {
        let name = path.file_name().unwrap().to_str().unwrap();
        let part = match name {
            "bad name!" => "is not a session id",
            "empty-folder" => "the header is missing",
            "newer" => "upgrade Reins",
            _ => name,
        };
        assert!(reason.contains(part), "{name}: {reason}");
    }
    // What can be opened is a session, with what is wrong with it.
    let problems: Vec<_> = listing
        .sessions
        .iter()
        .filter_map(|s| Some((s.header.id.as_str(), s.problem.as_deref()?)))
        .collect();
    for (name, part) in [
        ("log-is-dir", "a folder stands where a file belongs"),
        ("random-log", "00000000.log, line 1, byte 0"),
        ("renamed", "that of session `other`"),
        ("torn-first", "byte 0"),
        ("words-log", "byte 0"),
    ] {
        let found = problems.iter().find(|(id, _)| *id == name);
        assert!(found.is_some_and(|(_, problem)| problem.contains(part)), "{name}: {problems:?}");
    }
    assert_eq!(problems.len(), 5);
}

#[tokio::test]
async fn the_first_prompt_is_found_in_the_inbox_or_the_surface() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let person = Message::user(MessageId::new("m1"), "fix the ünïcode bug");
    let plugin = Message::notice(MessageId::new("m0"), "facts", "the time");
    let spliced = Payload::from(InboxSpliced {
        target: InboxTarget::NextTurn,
        at: None,
        inserted: vec![plugin, person],
        removed: Vec::new(),
        outcome: None,
    });
    let body = spliced.draft(Vec::new()).unwrap();
    let event = reins_schema::Event { seq: 1, time: 0, body };
    let session = crate::setup::create(&store).await;
    session.log.append(note(0, &"long ".repeat(20_000))).await.unwrap();
    session.log.append(std::sync::Arc::new(event)).await.unwrap();
    session.log.close().await.unwrap();
    let listing = store.list(ListFilter::default()).await.unwrap();
    assert_eq!(listing.sessions[0].first_prompt.as_deref(), Some("fix the ünïcode bug"));
}

#[tokio::test]
async fn what_a_killed_create_left_is_removed_by_a_list() {
    const DEAD: u32 = 2_000_000_000;
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let sessions = home.path().join("sessions");
    let left = |name: String, lease: Option<&str>| {
        let path = sessions.join(&name);
        create_dir_all(&path).unwrap();
        put(&path.join("header.json"), b"{}");
        lease.inspect(|text| put(&path.join("lease"), text.as_bytes()));
        name
    };
    let elsewhere = r#"{"pid":1,"host":"another-machine","start":1}"#;
    left(format!(".new-before-lease-{DEAD}"), None);
    left(format!(".new-with-lease-{DEAD}"), Some(""));
    let mut kept = vec![
        left(format!(".new-locked-{DEAD}"), Some("")),
        left(format!(".new-alive-{}", std::process::id()), Some("")),
        left(format!(".new-elsewhere-{DEAD}"), Some(elsewhere)),
        left(".new-words".to_owned(), None),
        left(format!(".other-{DEAD}"), None),
        format!(".new-file-{DEAD}"),
        format!(".new-link-{DEAD}"),
    ];
    put(&sessions.join(&kept[5]), b"");
    std::os::unix::fs::symlink(&sessions, sessions.join(&kept[6])).unwrap();
    let lease = std::fs::File::open(sessions.join(&kept[0]).join("lease")).unwrap();
    lease.lock().unwrap();

    let listing = store.list(ListFilter::default()).await.unwrap();
    assert!(listing.sessions.is_empty() && listing.damaged.is_empty());
    let names = || {
        let entries = std::fs::read_dir(&sessions).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    kept.sort();
    assert_eq!(names(), kept);
    drop(lease);
    store.list(ListFilter::default()).await.unwrap();
    kept.retain(|name| !name.starts_with(".new-locked"));
    assert_eq!(names(), kept);
}
