//! Writers that are killed. The test binary runs itself as the writer.
#![expect(clippy::disallowed_methods, reason = "the killed writer is a process of its own")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use reins_store::{JsonlStore, ListFilter, Store, StoreConfig, StoreError};

use crate::setup::{append, create, folder, header, id, inspect, note, on_disk, open, store};

pub(crate) const HOME: &str = "REINS_STORE_TEST_HOME";

/// A store whose segments are full after some ten events.
fn rolling(home: &Path) -> JsonlStore {
    JsonlStore::new(StoreConfig { segment_bytes: 25_000, ..StoreConfig::new(home) })
}

/// The writer: appends and flushes for ever, and prints each number that is durable. Does nothing
/// unless a test below starts it.
#[tokio::test]
async fn writer_process() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let store = rolling(Path::new(&home));
    let session = match open(&store).await {
        Err(StoreError::NotFound { .. }) => create(&store).await,
        opened => opened.unwrap(),
    };
    let mut seq = session.log.next_seq();
    println!("\nopen");
    loop {
        let group = 1 + seq % 4;
        for _ in 0..group {
            let text = "k".repeat(usize::try_from(seq * 37 % 5000).unwrap());
            session.log.append(note(seq, &text)).await.unwrap();
            seq += 1;
        }
        session.log.flush().await.unwrap();
        println!("ack {}", seq - 1);
    }
}

/// One of several that want the same session; each waits for its turn. Does nothing unless a test
/// below starts it.
#[tokio::test]
async fn competing_process() {
    let Some(home) = std::env::var_os(HOME) else { return };
    let store = store(Path::new(&home));
    for _ in 0..ROUNDS {
        let session = loop {
            let opened = match open(&store).await {
                Err(StoreError::NotFound { .. }) => {
                    store.create(header(&id()), Default::default()).await
                }
                opened => opened,
            };
            match opened {
                Ok(session) => break session,
                Err(StoreError::Busy { .. } | StoreError::AlreadyExists { .. }) => {
                    tokio::task::yield_now().await;
                }
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(session.recovered, []);
        let next = session.log.next_seq();
        append(&session, next..next + GROUP).await;
        session.log.close().await.unwrap();
    }
}

const ROUNDS: u64 = 20;
const GROUP: u64 = 25;

#[tokio::test]
async fn competing_processes_never_mix_their_events() {
    let home = tempfile::tempdir().unwrap();
    let children: Vec<Child> =
        (0..4).map(|_| start("crash::competing_process", home.path())).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    let store = store(home.path());
    assert_eq!(on_disk(&store).await, (0..4 * ROUNDS * GROUP).collect::<Vec<u64>>());
    assert_eq!(inspect(&store).await.unwrap().damage, []);
}

fn start_writer(home: &Path) -> Child {
    start("crash::writer_process", home)
}

pub(crate) fn start(test: &str, home: &Path) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(HOME, home);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Kills after this many acknowledgements and a little later, and returns the last number that
/// the writer could have acknowledged to us.
fn kill_after(mut child: Child, acks: u64, spin: u32) -> Option<u64> {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut last = None;
    let mut seen = 0;
    let parse = |line: &str| line.strip_prefix("ack ").and_then(|n| n.parse::<u64>().ok());
    while seen < acks {
        let Some(line) = lines.next() else { break };
        if let Some(number) = parse(&line.unwrap()) {
            (last, seen) = (Some(number), seen + 1);
        }
    }
    for _ in 0..spin {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // What it acknowledged before it died is in the pipe; a half line is no acknowledgement.
    for line in lines.map_while(Result::ok) {
        last = parse(&line).or(last);
    }
    let mut trouble = String::new();
    child.stderr.take().unwrap().read_to_string(&mut trouble).unwrap();
    assert!(!trouble.contains("panicked"), "{trouble}");
    last
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9() {
    let home = tempfile::tempdir().unwrap();
    let store = rolling(home.path());
    let mut acknowledged = None;
    let mut random = u64::from(std::process::id()) | 1;
    println!("seed {random}");
    for round in 0..25 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        let spin = u32::try_from((random >> 33) % 200_000).unwrap();
        let acks = (random >> 20) % 12;
        let last = kill_after(start_writer(home.path()), acks, spin);
        acknowledged = last.max(acknowledged);
        if !folder(home.path()).exists() {
            continue;
        }
        assert_eq!(inspect(&store).await.unwrap().lease, None, "round {round}");
        let session = open(&store).await.unwrap();
        let next = session.log.next_seq();
        assert!(
            acknowledged.is_none_or(|seq| seq < next),
            "round {round}: {acknowledged:?} of {next}"
        );
        append(&session, next..next + 1).await;
        session.log.close().await.unwrap();
        assert_eq!(on_disk(&store).await, (0..=next).collect::<Vec<u64>>());
    }
    assert!(
        acknowledged.is_some_and(|seq| seq > 25),
        "the writer did too little: {acknowledged:?}"
    );
    let listing = store.list(ListFilter::default()).await.unwrap();
    assert_eq!((listing.sessions.len(), listing.damaged.len()), (1, 0));
    // Segments were rolled over and compressed meanwhile, and killing left nothing else behind.
    let files = std::fs::read_dir(folder(home.path())).unwrap();
    let mut names: Vec<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let sealed = names.iter().filter(|name| name.ends_with(".log.zst")).count();
    assert!(sealed > 5, "{names:?}");
    let plain = names.iter().filter(|name| name.ends_with(".log")).count();
    assert_eq!(plain, 1, "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with('.')), "{names:?}");
    let seen = inspect(&store).await.unwrap();
    assert_eq!(seen.damage, []);
}

#[tokio::test]
async fn another_process_is_named() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    let mut child = start_writer(home.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while lines.next().unwrap().unwrap() != "ack 0" {}
    let error = open(&store).await.unwrap_err();
    assert!(
        matches!(&error, StoreError::Busy { holder: Some(h), .. } if h.pid == child.id()),
        "{error}"
    );
    assert!(error.to_string().contains(&format!("in use by pid {}", child.id())), "{error}");
    // Reading goes on meanwhile, and a record in the middle of being written is no damage.
    for _ in 0..50 {
        let seen = inspect(&store).await.unwrap();
        assert_eq!(seen.damage, []);
        assert_eq!(seen.lease.map(|lease| lease.pid), Some(child.id()));
        lines.next().unwrap().unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let session = open(&store).await.unwrap();
    session.log.close().await.unwrap();
    std::io::stdout().flush().unwrap();
}
