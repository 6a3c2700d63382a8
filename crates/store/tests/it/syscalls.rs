//! A writer whose system calls fail, or that dies at one of them: at each one that touches the
//! home, in turn. What it had acknowledged is there afterwards, and the session goes on.
#![expect(clippy::disallowed_methods, reason = "the writer is a process of its own, under strace")]
#![expect(clippy::print_stdout, reason = "a failed run says which fault it was")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use reins_schema::SessionId;
use reins_store::{JsonlStore, SqliteStore, Store, StoreConfig, StoreError};
use reins_testkit::needs;

use crate::setup::{append, header, id, note};

const HOME: &str = "REINS_STORE_FAULT_HOME";
const BACK_END: &str = "REINS_STORE_FAULT_BACK_END";
/// How many faults of a kind a run tries; all of them with `REINS_STORE_FAULTS=all`.
const SAMPLE: usize = 25;
const SAMPLE_OF_ALL: usize = 150;

const CALLS: &str = "write,pwrite64,fdatasync,fsync,ftruncate,unlink,unlinkat,openat,rename,\
                     renameat,renameat2,link,linkat,mkdir,mkdirat";

/// After so long a run has hung.
const PATIENCE_S: &str = "60";

const EVENTS: u64 = 60;

/// Of the back end with small segments, or for names that end with `-whole` with one large one.
fn store(back_end: &str, home: &Path) -> Arc<dyn Store> {
    let (back_end, segment_bytes) = match back_end.strip_suffix("-whole") {
        Some(back_end) => (back_end, 8 << 20),
        None => (back_end, 64 << 10),
    };
    let config = StoreConfig { segment_bytes, snapshot_events: 20, ..StoreConfig::new(home) };
    match back_end {
        "jsonl" => Arc::new(JsonlStore::new(config)),
        _ => Arc::new(SqliteStore::new(config)),
    }
}

fn text(seq: u64) -> String {
    "k".repeat(usize::try_from(seq * 937 % 5_000).unwrap())
}

fn other() -> SessionId {
    SessionId::new("0193-bbbb")
}

/// Tells what is done; nobody may be listening any more.
fn tell(what: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "\n{what}").and_then(|()| out.flush()));
}

/// Writes, and says what is durable. Does nothing unless a test below starts it.
#[tokio::test]
async fn faulted_process() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let back_end = std::env::var_os(BACK_END).unwrap();
    let store = store(back_end.to_str().unwrap(), Path::new(&home));
    match work(&*store).await {
        Ok(()) => tell("done"),
        Err(error) => tell(&format!("error {error}")),
    }
}

async fn work(store: &dyn Store) -> Result<(), StoreError> {
    let session = store.create(header(&id()), Default::default()).await?;
    tell("created");
    for seq in 0..EVENTS {
        session.log.append(note(seq, &text(seq))).await?;
        if seq % 3 == 2 {
            session.log.flush().await?;
            tell(&format!("ack {seq}"));
        }
    }
    let blob = store.put_blob(&id(), vec![7; 10_000]).await?;
    tell(&format!("blob {blob}"));
    session.log.close().await?;
    tell(&format!("ack {}", EVENTS - 1));
    let child = store.fork(&id(), Some(40)).await?.id;
    tell(&format!("fork {child}"));
    let gone = store.create(header(&other()), Default::default()).await?;
    append(&gone, 0..3).await;
    gone.log.close().await?;
    store.remove(&other()).await?;
    tell("removed");
    store.archive(&id(), true).await?;
    tell("archived");
    Ok(())
}

/// What the writer said.
#[derive(Debug, Default)]
struct Said {
    created: bool,
    durable: Option<u64>,
    blob: Option<String>,
    fork: Option<String>,
    removed: bool,
    archived: bool,
    done: bool,
    error: Option<String>,
}

fn listen(output: &[u8]) -> Said {
    let mut said = Said::default();
    for line in String::from_utf8_lossy(output).lines() {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("created", "") => said.created = true,
            ("ack", number) => said.durable = number.parse().ok(),
            ("blob", name) => said.blob = Some(name.to_owned()),
            ("fork", id) => said.fork = Some(id.to_owned()),
            ("removed", "") => said.removed = true,
            ("archived", "") => said.archived = true,
            ("done", "") => said.done = true,
            ("error", text) => said.error = Some(text.to_owned()),
            _ => {}
        }
    }
    said
}

/// Runs the writer under strace and returns what it said.
fn run(back_end: &str, home: &Path, log: &Path, more: &[String]) -> Said {
    let mut command = Command::new("timeout");
    command.args([PATIENCE_S, "strace", "-f", "-y", "-qq", "-s", "16", "-e", "signal=none", "-o"]);
    command.arg(log).args(["-e", &format!("trace={CALLS}")]).args(more);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "syscalls::faulted_process", "--nocapture", "--test-threads=1"]);
    command.env(HOME, home).env(BACK_END, back_end).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = listen(&output.stdout);
    assert_ne!(output.status.code(), Some(124), "it hangs, after {said:?}");
    let trouble = String::from_utf8_lossy(&output.stderr);
    let is_ours = |line: &&str| line.contains("panicked at") && line.contains("crates/store/");
    assert_eq!(trouble.lines().find(is_ours), None, "{trouble}");
    said
}

/// The calls of a run that touch the home.
#[derive(Debug, Default)]
struct Calls {
    /// The name, and its number among the calls of that name of its thread, as strace counts.
    calls: BTreeSet<(String, usize)>,
    /// What they touch.
    paths: BTreeSet<String>,
}

fn calls(log: &Path, home: &Path) -> Calls {
    let text = std::fs::read_to_string(log).unwrap();
    let home = home.to_str().unwrap();
    let mut counts: HashMap<(&str, &str), usize> = HashMap::new();
    let mut found = Calls::default();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let Some((name, arguments)) = rest.trim_start().split_once('(') else { continue };
        // The second half of an interrupted call begins with `<...`.
        if name.contains(' ') || !arguments.contains(home) {
            continue;
        }
        let count = counts.entry((thread, name)).or_default();
        *count += 1;
        found.calls.insert((name.to_owned(), *count));
        let paths = arguments.split(['"', '<', '>']).filter(|part| part.starts_with(home));
        found.paths.extend(paths.map(ToOwned::to_owned));
    }
    found
}

/// Some of the calls, or all of them when they are few.
fn sample(calls: BTreeSet<(String, usize)>) -> Vec<(String, usize)> {
    let all = std::env::var_os("REINS_STORE_FAULTS").is_some_and(|value| value == "all");
    let limit = if all { SAMPLE_OF_ALL } else { SAMPLE };
    let mut random = u64::from(std::process::id()) | 1;
    println!("{} calls, at most {limit} of them, seed {random}", calls.len());
    let mut calls: Vec<_> = calls.into_iter().collect();
    while calls.len() > limit {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        calls.swap_remove(usize::try_from(random >> 33).unwrap() % calls.len());
    }
    calls
}

/// Everything that was acknowledged is there, and everything can be used.
async fn check(back_end: &str, home: &Path, said: &Said) {
    let store = store(back_end, home);
    let listing = store.list(reins_store::ListFilter { archived: true, ..Default::default() });
    let listing = listing.await.unwrap();
    assert!(listing.damaged.is_empty(), "{:?}", listing.damaged);
    if said.removed {
        let gone = store.open(&other(), Default::default()).await;
        assert!(matches!(gone, Err(StoreError::NotFound { .. })), "{gone:?}");
    }
    let session = match store.open(&id(), Default::default()).await {
        Ok(session) => session,
        Err(StoreError::NotFound { .. }) if !said.created => return,
        Err(error) => panic!("{error}"),
    };
    let next = session.log.next_seq();
    assert!(said.durable.is_none_or(|durable| durable < next), "{next} events");
    session.log.append(note(next, "after")).await.unwrap();
    session.log.close().await.unwrap();
    check_events(&*store, &id(), next).await;
    if let Some(blob) = &said.blob {
        assert_eq!(store.get_blob(&id(), blob).await.unwrap(), vec![7; 10_000]);
    }
    if let Some(fork) = &said.fork {
        check_events(&*store, &SessionId::new(fork.as_str()), 41).await;
    }
    if said.archived {
        assert!(listing.sessions.iter().any(|s| s.header.id == id() && s.archived));
    }
}

/// The first events are those that were written.
async fn check_events(store: &dyn Store, id: &SessionId, count: u64) {
    let mut seen = 0;
    while seen < count {
        let events = store.read(id, seen, 1_000).await.unwrap();
        assert!(!events.is_empty(), "{seen} of {count}");
        for event in events.iter().take_while(|event| event.seq < count) {
            assert_eq!(event, &*note(seen, &text(seen)));
            seen += 1;
        }
    }
}

async fn every_fault(back_end: &str, fault: &str) {
    if !needs("strace").unwrap() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (home, log) = (folder.path().join("home"), folder.path().join("trace"));
    let said = run(back_end, &home, &log, &[]);
    assert!(said.done && said.durable == Some(EVENTS - 1), "{said:?}");
    check(back_end, &home, &said).await;
    let Calls { calls, paths } = calls(&log, &home);
    // No other file: a failing call of the test's own output or of the runtime proves nothing.
    let paths: Vec<String> = paths.into_iter().flat_map(|path| ["-P".to_owned(), path]).collect();
    let mut ends = BTreeMap::<&str, usize>::new();
    for (name, number) in sample(calls) {
        std::fs::remove_dir_all(&home).unwrap_or_default();
        println!("{fault} at {name} {number}");
        let inject = format!("inject={name}:{fault}:when={number}");
        let more = [paths.clone(), vec!["-e".to_owned(), inject]].concat();
        let said = run(back_end, &home, &log, &more);
        if let Some(error) = &said.error {
            assert!(error.contains(home.to_str().unwrap()), "{error}");
        }
        let end = match &said {
            Said { error: Some(_), .. } => "told",
            Said { done: true, .. } => "unharmed",
            _ => "killed",
        };
        *ends.entry(end).or_default() += 1;
        check(back_end, &home, &said).await;
    }
    println!("{back_end}, {fault}: {ends:?}");
    let expected = if fault.starts_with("signal") { "killed" } else { "told" };
    assert!(ends.contains_key(expected), "{ends:?}");
}

/// Kills the writer at any moment, also in the middle of what is one step for strace.
async fn kills(back_end: &str) {
    let mut random = u64::from(std::process::id()) | 1;
    println!("{back_end}, seed {random}");
    for round in 0..20 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "syscalls::faulted_process", "--nocapture", "--test-threads=1"]);
        command.env(HOME, home.path()).env(BACK_END, back_end).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let told = usize::try_from(random >> 33).unwrap() % 50;
        let mut heard: Vec<String> = lines.by_ref().take(told).map_while(Result::ok).collect();
        for _ in 0..(random >> 20) % 100_000 {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        heard.extend(lines.map_while(Result::ok));
        let said = listen(heard.join("\n").as_bytes());
        println!("round {round}: {said:?}");
        check(back_end, home.path(), &said).await;
    }
}

#[tokio::test]
async fn jsonl_killed_at_any_moment() {
    kills("jsonl").await;
}

#[tokio::test]
async fn sqlite_killed_at_any_moment() {
    kills("sqlite").await;
}

#[tokio::test]
async fn jsonl_killed_at_a_system_call() {
    every_fault("jsonl", "signal=SIGKILL").await;
}

#[tokio::test]
async fn jsonl_on_a_full_disk() {
    every_fault("jsonl", "error=ENOSPC").await;
}

#[tokio::test]
async fn jsonl_on_a_broken_disk() {
    every_fault("jsonl", "error=EIO").await;
}

#[tokio::test]
async fn sqlite_killed_at_a_system_call() {
    every_fault("sqlite", "signal=SIGKILL").await;
}

#[tokio::test]
async fn sqlite_on_a_full_disk() {
    every_fault("sqlite", "error=ENOSPC").await;
}

#[tokio::test]
async fn sqlite_on_a_broken_disk() {
    every_fault("sqlite", "error=EIO").await;
}

/// Before an acknowledgement, what was written last is synced.
#[tokio::test]
async fn what_is_acknowledged_was_synced() {
    if !needs("strace").unwrap() {
        return;
    }
    // No thread seals meanwhile, whose writes need not be synced.
    for back_end in ["jsonl-whole", "sqlite-whole"] {
        let folder = tempfile::tempdir().unwrap();
        let (home, log) = (folder.path().join("home"), folder.path().join("log"));
        assert!(run(back_end, &home, &log, &[]).done);
        let text = std::fs::read_to_string(&log).unwrap();
        let is_log = |line: &str| line.contains(".log>") || line.contains("sqlite-wal>");
        let (mut unsynced, mut acknowledged, mut synced) = (false, 0, 0);
        for line in text.lines() {
            let call = line.split_once(' ').map_or("", |(_, call)| call.trim_start());
            let name = call.split('(').next().unwrap_or_default();
            match name {
                "write" | "pwrite64" if is_log(call) => unsynced = true,
                // An unfinished one is followed by its end before the thread goes on.
                "fdatasync" | "fsync" if is_log(call) => (unsynced, synced) = (false, synced + 1),
                "write" if call.contains("ack ") => {
                    assert!(!unsynced, "{back_end}: acknowledged before it was synced: {line}");
                    acknowledged += 1;
                }
                _ => {}
            }
        }
        assert!(acknowledged >= 20 && synced >= acknowledged, "{acknowledged}, {synced}");
    }
}
