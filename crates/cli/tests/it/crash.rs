//! SIGKILL at any moment of a run, then the same session in a new process.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use reins_schema::{Block, Event, Payload};
use reins_testkit::{
    Acts, At, Bin, BinError, Fault, StrictServer, processes_with_marker, read_events,
    rebuild_requests, script,
};
use serde_json::{Value, json};
use tempfile::TempDir;

const PROMPT: &str = "look around and leave marks";

/// How long the processes of a run may outlive it.
const GONE: Duration = Duration::from_secs(5);

/// Files of the tree that the parallel calls search.
const FILES: usize = 1500;

fn bin() -> Bin {
    Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap()
}

/// Large enough for a search to be seen while it runs.
fn big_tree() -> TempDir {
    let tree = TempDir::with_prefix("reins-crash-tree-").unwrap();
    let text = "a line of no interest\n".repeat(100);
    for file in 0..FILES {
        let folder = tree.path().join(format!("{:02}", file / 50));
        std::fs::create_dir_all(&folder).unwrap();
        let mut out = std::fs::File::create(folder.join(format!("{file}.txt"))).unwrap();
        std::io::Write::write_all(&mut out, text.as_bytes()).unwrap();
    }
    tree
}

/// Writes a line, then leaves processes behind, one of them in a session of its own.
fn mark(line: &str) -> Value {
    let command =
        format!("echo {line} >> marks; sleep 300 & setsid sleep 300 & sleep 0.1; echo {line} done");
    json!({"command": command, "description": "Leave a mark"})
}

/// A turn with a failed attempt, reasoning, three parallel calls and two commands.
fn acts(tree: &Path) -> Acts {
    let tree = tree.to_str().unwrap();
    script()
        .status(503, &[("retry-after", "0")])
        .then()
        .reasoning("I should look everywhere before I do anything.")
        .text("I look around, in three ways at once, and leave a mark after it.")
        .chunks(8, Duration::from_millis(2))
        .call("grep", json!({"pattern": "no (hit|interest)s", "path": tree}))
        .call("glob", json!({"pattern": "**/*7.txt", "path": tree}))
        .call("read", json!({"file_path": format!("{tree}/00/0.txt")}))
        .call("bash", mark("one"))
        .then()
        .text("Another mark.")
        .call("bash", mark("two"))
        .call("read", json!({"file_path": "marks"}))
        .then()
        .text("Two marks are left.")
}

fn log_of(bin: &Bin) -> PathBuf {
    let [log] = &bin.logs().unwrap()[..] else { panic!("one session") };
    log.clone()
}

/// The bytes up to the last line break, and the events in them.
fn durable(bin: &Bin) -> (Vec<u8>, Vec<Event>) {
    let mut bytes = std::fs::read(log_of(bin)).unwrap();
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    bytes.truncate(end);
    (bytes, read_events(&log_of(bin)).unwrap())
}

/// The moments of a run, by event type: how often each comes.
async fn moments(tree: &Path) -> Vec<(String, usize)> {
    let server = StrictServer::start(acts(tree)).unwrap();
    let bin = bin().model_at(&server.base_url());
    let end = bin.run(["run", PROMPT]).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "Two marks are left.\n"));
    server.assert_clean();
    let mut counts = BTreeMap::new();
    for event in durable(&bin).1 {
        *counts.entry(event.body.kind.to_string()).or_insert(0) += 1;
    }
    for kind in ["assistant/attempt", "assistant/chunk", "llm/retry", "tool/start", "turn/end"] {
        assert!(counts.contains_key(kind), "no {kind} in {counts:?}");
    }
    // How deltas are packed depends on the machine.
    counts.insert("assistant/chunk".to_owned(), 2);
    counts.into_iter().collect()
}

/// A sequence of numbers from a seed (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % limit as u64).unwrap()
    }
}

fn seed() -> u64 {
    match std::env::var_os("REINS_CRASH_SEED") {
        Some(seed) => seed.to_str().unwrap().parse().unwrap(),
        None => std::collections::hash_map::RandomState::new().build_hasher().finish(),
    }
}

/// So many moments; every event type has its turn before one comes again.
fn drawn(moments: &[(String, usize)], rounds: usize, seed: u64) -> Vec<(String, usize)> {
    let mut numbers = Numbers(seed);
    let mut drawn = Vec::new();
    while drawn.len() < rounds {
        let mut left = moments.to_vec();
        while !left.is_empty() && drawn.len() < rounds {
            let (kind, count) = left.swap_remove(numbers.below(left.len()));
            drawn.push((kind, numbers.below(count) + 1));
        }
    }
    drawn
}

#[tokio::test]
async fn a_killed_run_goes_on_in_a_new_process() {
    let rounds = if std::env::var_os("CI").is_some_and(|ci| ci == "true") { 25 } else { 8 };
    let seed = seed();
    println!("REINS_CRASH_SEED={seed}");
    let tree = big_tree();
    let moments = moments(tree.path()).await;
    let mut killed = 0;
    for (round, (kind, nth)) in drawn(&moments, rounds, seed).into_iter().enumerate() {
        println!("round {round}: SIGKILL at {kind} number {nth}");
        killed += usize::from(kill_and_go_on(tree.path(), &kind, nth).await);
    }
    // At the very end of a run the kill may come too late.
    println!("{killed} of {rounds} runs were killed");
    assert!(killed + 2 >= rounds, "only {killed} of {rounds} runs were killed");
}

/// Kills a run at this moment and goes on. Whether the kill came in time.
#[expect(clippy::print_stdout, reason = "shown when the test fails")]
async fn kill_and_go_on(tree: &Path, kind: &str, nth: usize) -> bool {
    let first = StrictServer::start(acts(tree)).unwrap();
    let bin = bin().model_at(&first.base_url());
    let run = bin.spawn(["run", PROMPT], None).await.unwrap();
    let moment = format!("\"type\":\"{kind}\"");
    let killed = match run.kill9_after(bin.until_log(&moment, nth)).await {
        Ok(end) => end.signal == Some(9),
        Err(BinError::EndedEarly { .. }) => false,
        Err(error) => panic!("{error}"),
    };
    assert_nothing_left(&bin).await;
    let (before, events) = durable(&bin);
    let open = open_calls(&events);
    println!("  {} events, calls without a result, started or not: {open:?}", events.len());
    let log = log_of(&bin);
    let id = log.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();

    let second = StrictServer::start(script().text("going on").forever()).unwrap();
    let bin = bin.model_at(&second.base_url());
    let end = bin.run(["run", "--session", &id, "go on"]).await.unwrap();

    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "going on\n"), "{}", end.stderr);
    first.assert_clean();
    second.assert_clean();
    let after = std::fs::read(&log).unwrap();
    assert!(after.starts_with(&before), "what was on disk stays, byte for byte");
    assert_repaired(&durable(&bin).1, &open);
    assert_marks(&bin);
    let accepted = events.iter().any(|event| event.body.data.get().contains(PROMPT));
    assert_prompts(&first, true);
    assert_prompts(&second, accepted);
    assert_requests_from_log(&log, [&first, &second]);
    assert_nothing_left(&bin).await;
    killed
}

/// The calls of a log without a result, and whether each was started.
fn open_calls(events: &[Event]) -> BTreeMap<String, bool> {
    let mut open = BTreeMap::new();
    for event in events {
        match Payload::read(&event.body).unwrap() {
            Payload::AssistantMessage(answer) => {
                for block in &answer.message.content {
                    if let Block::ToolCall(call) = block {
                        open.insert(call.id.to_string(), false);
                    }
                }
            }
            Payload::ToolStart(start) => {
                open.insert(start.call_id.to_string(), true);
            }
            Payload::ToolResult(result) => {
                for id in answered(&result.message.content) {
                    open.remove(&id);
                }
            }
            _ => {}
        }
    }
    open
}

fn answered(content: &[Block]) -> Vec<String> {
    let results = content.iter().filter_map(|block| match block {
        Block::ToolResult(answer) => Some(answer.tool_call_id.to_string()),
        _ => None,
    });
    results.collect()
}

/// Every call has one result; those that were open have the one that says what is known.
fn assert_repaired(events: &[Event], open: &BTreeMap<String, bool>) {
    let mut codes: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    for event in events {
        if let Payload::ToolResult(result) = Payload::read(&event.body).unwrap() {
            for id in answered(&result.message.content) {
                let code = result.error.as_ref().map(|error| error.code.clone());
                codes.entry(id).or_default().push(code);
            }
        }
    }
    for (id, codes) in &codes {
        assert_eq!(codes.len(), 1, "results of call {id}: {codes:?}");
        let expected = open.get(id).map(|started| match started {
            true => "TOOL_OUTCOME_UNKNOWN".to_owned(),
            false => "TOOL_NOT_STARTED".to_owned(),
        });
        assert_eq!(codes[0], expected, "call {id}");
    }
    for id in open.keys() {
        assert!(codes.contains_key(id), "call {id} has no result");
    }
    assert_eq!(open_calls(events), BTreeMap::new(), "calls without a result");
}

/// No command ran twice.
fn assert_marks(bin: &Bin) {
    let marks = std::fs::read_to_string(bin.project().join("marks")).unwrap_or_default();
    assert!(["", "one\n", "one\ntwo\n"].contains(&marks.as_str()), "{marks:?}");
}

/// Each request has the first prompt once, or never when it was not accepted.
fn assert_prompts(server: &StrictServer, accepted: bool) {
    for body in server.json_bodies() {
        let messages = body["messages"].as_array().unwrap();
        let is_prompt =
            |message: &&Value| message["role"] == "user" && message["content"] == PROMPT;
        let count = messages.iter().filter(is_prompt).count();
        assert_eq!(count, usize::from(accepted), "{messages:?}");
    }
}

/// What the servers got are requests of the log, in its order; one may not have left.
fn assert_requests_from_log(log: &Path, servers: [&StrictServer; 2]) {
    let rebuilt = rebuild_requests(log).unwrap();
    let mut rebuilt = rebuilt.iter();
    for request in servers.iter().flat_map(|server| server.requests()) {
        let found = rebuilt.any(|rebuilt| rebuilt.body == request.body);
        assert!(found, "request {} is not in the log", request.number);
    }
}

fn marker(bin: &Bin) -> String {
    format!("HOME={}", bin.project().with_file_name("user").display())
}

/// No process whose environment names the folders of this run is left soon.
async fn assert_nothing_left(bin: &Bin) {
    let begun = Instant::now();
    loop {
        let left = processes_with_marker(&marker(bin));
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < GONE, "processes {left:?} are left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn all_processes_of_a_command_end_with_a_killed_run() {
    let command = "sleep 300 & setsid sleep 300 & (setsid sleep 300 &); trap '' TERM; \
                   echo > begun; wait; sleep 300";
    let arguments = json!({"command": command, "description": "Wait in many processes"});
    let server = StrictServer::start(script().call("bash", arguments)).unwrap();
    let bin = bin().model_at(&server.base_url());
    let run = bin.spawn(["run", PROMPT], None).await.unwrap();
    let begun = bin.project().join("begun");
    let four = async {
        // The harness itself, the shell and three that sleep.
        while !begun.exists() || processes_with_marker(&marker(&bin)).len() < 5 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let end = run.kill9_after(four).await.unwrap();
    assert_eq!(end.signal, Some(9));
    assert_nothing_left(&bin).await;
}

#[tokio::test]
async fn what_started_is_unknown_and_what_did_not_is_not_started() {
    let wait = json!({"command": "echo > begun; sleep 300", "description": "Wait"});
    let read = json!({"file_path": "a.txt"});
    let acts = script()
        .call_with_id("done", "read", read.clone())
        .call_with_id("begun", "bash", wait)
        .call_with_id("waiting", "read", read)
        .call_with_id("last", "bash", mark("never"));
    let first = StrictServer::start(acts).unwrap();
    let bin = bin().model_at(&first.base_url());
    bin.file("a.txt", "what is in the file").unwrap();
    let run = bin.spawn(["run", PROMPT], None).await.unwrap();
    let begun = bin.project().join("begun");
    let waits = async {
        while !begun.exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let end = run.kill9_after(waits).await.unwrap();
    assert_eq!(end.signal, Some(9));

    let second = StrictServer::start(script().text("going on")).unwrap();
    let bin = bin.model_at(&second.base_url());
    let end = bin.run(["run", "--continue", "go on"]).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "going on\n"), "{}", end.stderr);
    second.assert_clean();
    let bodies = second.json_bodies();
    let messages = bodies[0]["messages"].as_array().unwrap();
    let answer = |id: &str| {
        let mut results = messages.iter().filter(|message| message["tool_call_id"] == id);
        let only = results.next().unwrap()["content"].as_str().unwrap();
        assert!(results.next().is_none(), "one result of {id}");
        only.to_owned()
    };
    assert!(answer("done").contains("what is in the file"), "{}", answer("done"));
    assert!(answer("begun").contains("ended while this call was running"), "{}", answer("begun"));
    for id in ["waiting", "last"] {
        assert!(answer(id).contains("ended before this call was started"), "{}", answer(id));
    }
    assert!(!bin.project().join("marks").exists());
    assert_prompts(&second, true);
    assert_requests_from_log(&log_of(&bin), [&first, &second]);
    assert_nothing_left(&bin).await;
}

#[tokio::test]
async fn a_second_kill_in_the_repair_loses_and_doubles_nothing() {
    let wait = json!({"command": "echo one >> marks; sleep 300", "description": "Wait"});
    let read = json!({"file_path": "marks"});
    for moment in ["tool/result", "step/end", "turn/end", "session/repaired", "request/sent"] {
        let acts = script().call("bash", wait.clone()).call("read", read.clone());
        let first = StrictServer::start(acts).unwrap();
        let bin = bin().model_at(&first.base_url());
        let run = bin.spawn(["run", PROMPT], None).await.unwrap();
        run.kill9_after(bin.until_log("\"type\":\"tool/start\"", 1)).await.unwrap();
        let (before, events) = durable(&bin);
        let open = open_calls(&events);
        assert_eq!(open.len(), 2);

        let stall = Fault::Stall(At::Start, Duration::from_secs(600));
        let second = StrictServer::start(script().text("no").fault(stall)).unwrap();
        let bin = bin.model_at(&second.base_url());
        let run = bin.spawn(["run", "--continue", "go on"], None).await.unwrap();
        let nth = 1 + usize::from(moment == "request/sent");
        let moment = format!("\"type\":\"{moment}\"");
        run.kill9_after(bin.until_log(&moment, nth)).await.unwrap();
        let (repaired, _) = durable(&bin);
        assert!(repaired.starts_with(&before), "what was on disk stays, byte for byte");

        let third = StrictServer::start(script().text("going on").forever()).unwrap();
        let bin = bin.model_at(&third.base_url());
        let end = bin.run(["run", "--continue", "and on"]).await.unwrap();
        assert_eq!((end.code, end.stdout.as_str()), (Some(0), "going on\n"), "{}", end.stderr);
        third.assert_clean();
        assert!(std::fs::read(log_of(&bin)).unwrap().starts_with(&repaired));
        assert_repaired(&durable(&bin).1, &open);
        assert_prompts(&third, true);
        let messages = third.json_bodies().pop().unwrap()["messages"].to_string();
        assert_eq!(messages.matches("\"and on\"").count(), 1, "{messages}");
        let accepted = String::from_utf8(repaired).unwrap().contains("\"go on\"");
        let count = messages.matches("\"go on\"").count();
        assert_eq!(count, usize::from(accepted), "{messages}");
        assert_nothing_left(&bin).await;
    }
}
