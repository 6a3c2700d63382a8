//! The list with its rows kept is the list without them, on real homes.

use std::fs::{self, FileTimes};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use reins_schema::SessionId;
use reins_store::{
    JsonlStore, ListFilter, Listing, OpenSession, SessionState, SqliteStore, Store, StoreConfig,
};

use crate::crash::{HOME, start};
use crate::places::tmpfs;
use crate::segments::{extend, turn};
use crate::setup::{create, folder, header, id, line, log_path, note, open, put, store};

const FILE: &str = "index.sqlite";

fn all() -> ListFilter {
    ListFilter { archived: true, ..ListFilter::default() }
}

async fn list(store: &dyn Store) -> Listing {
    store.list(all()).await.unwrap()
}

/// Lists with the rows that are kept, which may be stale, and without any.
async fn same(store: &dyn Store, home: &Path, step: &str) -> Listing {
    let with = list(store).await;
    fs::remove_file(home.join(FILE)).unwrap();
    let without = list(store).await;
    assert_eq!(format!("{with:?}"), format!("{without:?}"), "{step}");
    with
}

async fn session(store: &dyn Store, name: &str, events: u64) -> OpenSession {
    let header = header(&SessionId::new(name));
    let mut session = store.create(header, Default::default()).await.unwrap();
    extend(&mut session, events).await;
    session
}

/// Everything that a store can do to a session, each with a list before and after it.
async fn changes(store: &dyn Store, home: &Path) {
    let (a, b) = (SessionId::new("a"), SessionId::new("b"));
    let mut writing = session(store, "a", 3).await;
    session(store, "b", 3).await.log.close().await.unwrap();
    same(store, home, "create").await;
    extend(&mut writing, 1).await;
    same(store, home, "append").await;
    // Some segments more.
    extend(&mut writing, 60).await;
    writing.log.close().await.unwrap();
    let listing = same(store, home, "roll over").await;
    assert_eq!(listing.sessions[0].events, 64);
    let child = store.fork(&a, Some(20)).await.unwrap().id;
    assert_eq!(same(store, home, "fork").await.sessions.len(), 3);
    store.move_to(&b, Path::new("/elsewhere"), Default::default()).await.unwrap();
    let listing = same(store, home, "move").await;
    assert_eq!(listing.sessions[0].cwd, Path::new("/elsewhere"));
    store.archive(&a, true).await.unwrap();
    same(store, home, "archive").await;
    let plain = store.list(ListFilter::default()).await.unwrap();
    assert!(plain.sessions.iter().all(|it| it.header.id != a) && plain.total == 2);
    store.archive(&a, false).await.unwrap();
    assert_eq!(store.list(ListFilter::default()).await.unwrap().total, 3);
    same(store, home, "unarchive").await;
    store.remove(&child).await.unwrap();
    assert_eq!(same(store, home, "remove").await.sessions.len(), 2);
    let mut opened = store.open(&a, Default::default()).await.unwrap();
    for event in turn(64, 1).into_iter().take(1) {
        opened.fold.apply(&event).unwrap();
        opened.log.append(event).await.unwrap();
    }
    opened.log.flush().await.unwrap();
    let listing = list(store).await;
    let live = listing.sessions.iter().find(|it| it.header.id == a).unwrap();
    assert!(matches!(&live.state, SessionState::Live(who) if who.pid == std::process::id()));
    opened.log.close().await.unwrap();
    let listing = same(store, home, "close").await;
    assert_eq!(listing.sessions[0].state, SessionState::InTurn);
}

#[tokio::test]
async fn whatever_changes_is_listed_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let config = || StoreConfig { segment_bytes: 2000, ..StoreConfig::new(home.path()) };
    changes(&JsonlStore::new(config()), home.path()).await;
    fs::remove_file(home.path().join(FILE)).unwrap();
    changes(&SqliteStore::new(config()), home.path()).await;
}

#[tokio::test]
async fn what_people_do_to_folders_is_listed_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let mut writing = create(&store).await;
    extend(&mut writing, 3).await;
    let older = home.path().join("older");
    fs::copy(log_path(home.path()), &older).unwrap();
    writing.log.close().await.unwrap();
    list(&store).await;

    // Another log of the same size, as a backup would bring it.
    let text = fs::read_to_string(&older).unwrap();
    let other: String = (0..3)
        .map(|seq| {
            String::from_utf8(line(seq, "SOMETHING that takes its room in the log")).unwrap()
        })
        .collect();
    assert_eq!(other.len(), text.len());
    put(&log_path(home.path()), other.as_bytes());
    same(&store, home.path(), "restored").await;

    let copied = home.path().join("sessions/copied");
    fs::create_dir(&copied).unwrap();
    fs::copy(&older, copied.join("00000000.log")).unwrap();
    put(
        &copied.join("header.json"),
        &serde_json::to_vec(&header(&SessionId::new("copied"))).unwrap(),
    );
    assert_eq!(same(&store, home.path(), "copied in").await.sessions.len(), 2);
    fs::remove_dir_all(&copied).unwrap();
    assert_eq!(same(&store, home.path(), "removed by hand").await.sessions.len(), 1);

    put(&folder(home.path()).join("header.json"), b"{");
    fs::remove_file(home.path().join(FILE)).unwrap();
    let listing = same(&store, home.path(), "damaged header").await;
    assert!(listing.sessions[0].problem.as_deref().unwrap().contains("header"));
    put(&folder(home.path()).join("header.json"), &serde_json::to_vec(&header(&id())).unwrap());
    let listing = same(&store, home.path(), "mended header").await;
    assert_eq!(listing.sessions[0].problem, None);
}

/// It is not read for a list, but what a list says of it is in it.
#[tokio::test]
async fn a_large_log_without_a_snapshot_says_where_it_belongs_and_whether_a_turn_is_open() {
    let home = tempfile::tempdir().unwrap();
    let config = StoreConfig { snapshot_events: 0, ..StoreConfig::new(home.path()) };
    let store = JsonlStore::new(config);
    create(&store).await.log.close().await.unwrap();
    store.move_to(&id(), Path::new("/elsewhere"), Default::default()).await.unwrap();
    let mut session = open(&store).await.unwrap();
    let [begin, end] = turn(1, 1);
    session.fold.apply(&begin).unwrap();
    session.log.append(begin).await.unwrap();
    let text = "z".repeat(50_000);
    for seq in 2..120 {
        // A text is no event, whatever it says.
        let text = format!("\"type\":\"session/moved\" {text}");
        session.log.append(note(seq, &text)).await.unwrap();
    }
    session.log.close().await.unwrap();
    // Derived, so it may be gone at any time.
    let snapshot = folder(home.path()).join("snapshot.json");
    drop(fs::remove_file(&snapshot));
    let listing = list(&store).await;
    let listed = &listing.sessions[0];
    assert!(listed.bytes > 5_000_000, "{}", listed.bytes);
    assert_eq!((listed.cwd.as_path(), listed.events), (Path::new("/elsewhere"), 120));
    assert_eq!(listed.state, SessionState::InTurn);

    let session = open(&store).await.unwrap();
    session.log.append(Arc::new(reins_schema::Event { seq: 120, ..(*end).clone() })).await.unwrap();
    session.log.close().await.unwrap();
    drop(fs::remove_file(&snapshot));
    let listing = list(&store).await;
    assert_eq!(listing.sessions[0].state, SessionState::Idle);
    assert_eq!(listing.sessions[0].cwd, Path::new("/elsewhere"));
}

/// Writes the folders of that many sessions, the last one used last, each a second after the other.
fn generate(home: &Path, sessions: u64) {
    for n in 0..sessions {
        let name = SessionId::new(format!("s-{n:05}"));
        let folder = home.join("sessions").join(name.as_str());
        fs::create_dir_all(&folder).unwrap();
        put(&folder.join("header.json"), &serde_json::to_vec(&header(&name)).unwrap());
        let log = folder.join("00000000.log");
        put(&log, &line(0, "x"));
        let time = UNIX_EPOCH + Duration::from_secs(1_000_000_000 + n);
        let file = fs::File::options().append(true).open(log).unwrap();
        file.set_times(FileTimes::new().set_modified(time)).unwrap();
    }
}

#[tokio::test]
async fn ten_thousand_sessions_are_read_once() {
    let home = tempfile::tempdir().unwrap();
    generate(home.path(), 10_000);
    let store = store(home.path());
    let begin = Instant::now();
    let first = list(&store).await;
    let reading = begin.elapsed();
    assert_eq!((first.sessions.len(), first.total, first.damaged.len()), (10_000, 10_000, 0));
    assert_eq!(first.sessions[0].header.id.as_str(), "s-09999");
    assert!(first.sessions.is_sorted_by_key(|it| std::cmp::Reverse(it.modified)));
    let mut kept = Duration::MAX;
    for _ in 0..3 {
        let begin = Instant::now();
        let again = list(&store).await;
        kept = kept.min(begin.elapsed());
        assert_eq!(again.sessions, first.sessions);
    }
    assert!(kept * 2 < reading, "{kept:?} with rows, {reading:?} without");
    let ten = store.list(ListFilter { limit: Some(10), ..all() }).await.unwrap();
    assert_eq!((&ten.sessions[..], ten.total), (&first.sessions[..10], 10_000));
    assert_eq!(store.find("S-0999").await.unwrap_err().to_string().matches("s-0999").count(), 8);
    assert_eq!(store.find("s-09998").await.unwrap().as_str(), "s-09998");
}

/// One of several that make sessions and list. Does nothing unless the test below starts it.
#[tokio::test]
async fn listing_process() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let store = store(Path::new(&home));
    let mut mine = Vec::new();
    for n in 0..10 {
        let name = format!("p-{}-{n}", std::process::id());
        session(&store, &name, 2).await.log.close().await.unwrap();
        mine.push(SessionId::new(name));
        let listing = list(&store).await;
        for id in &mine {
            let listed = listing.sessions.iter().find(|it| it.header.id == *id).unwrap();
            assert_eq!(listed.events, 2);
        }
        assert!(listing.damaged.is_empty(), "{:?}", listing.damaged);
    }
}

#[tokio::test]
async fn processes_that_list_at_once_all_see_what_is() {
    let home = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..4).map(|_| start("index::listing_process", home.path())).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let store = store(home.path());
    assert_eq!(same(&store, home.path(), "afterwards").await.sessions.len(), 40);
}

#[tokio::test]
async fn a_full_or_read_only_disk_and_a_broken_file_change_nothing_in_the_list() {
    let home = tempfile::tempdir().unwrap();
    let Some(_mounted) = tmpfs(home.path()) else { return };
    generate(home.path(), 60);
    let store = store(home.path());
    let expected = format!("{:?}", list(&store).await);
    put(&home.path().join(FILE), &b"no database".repeat(1000));
    assert_eq!(format!("{:?}", list(&store).await), expected, "broken");
    fs::remove_file(home.path().join(FILE)).unwrap();
    let ballast = vec![1; 4 << 20];
    let mut file = fs::File::create(home.path().join("ballast")).unwrap();
    assert!(std::io::Write::write_all(&mut file, &ballast).is_err(), "the disk is full");
    assert_eq!(format!("{:?}", list(&store).await), expected, "full");
    fs::remove_file(home.path().join("ballast")).unwrap();
    drop(file);
    assert_eq!(format!("{:?}", list(&store).await), expected, "space again");
    for broken in [false, true] {
        if broken {
            put(&home.path().join(FILE), b"");
        }
        let read_only = rustix::mount::MountFlags::RDONLY;
        rustix::mount::mount_remount(home.path(), read_only, "").unwrap();
        assert_eq!(format!("{:?}", list(&store).await), expected, "read-only, {broken}");
        let writable = rustix::mount::MountFlags::empty();
        rustix::mount::mount_remount(home.path(), writable, "").unwrap();
    }
}
