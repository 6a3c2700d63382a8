//! Fifty steps that depend on each other, then the same session in further processes.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use reins_schema::{Draft, Event};
use reins_testkit::{
    Acts, Bin, Finished, RebuildError, RebuiltRequest, StrictServer, read_events, rebuild_requests,
    script,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Steps of the long turn.
const STEPS: usize = 50;
/// Files that are edited in turn.
const FILES: usize = 5;
const DONE: &str = "All fifty steps are done.";

/// Files by path.
type Tree = BTreeMap<String, String>;

fn name(step: usize) -> String {
    format!("chain/{}.txt", step % FILES)
}

fn tree() -> Tree {
    (0..FILES).map(|file| (name(file), format!("file {file}\nend\n"))).collect()
}

/// Step `k` edits file `k` and reads file `k - 1`, which the step before has edited. The line that
/// it sees last goes into the edit of step `k + 1`: a wrong reading would show in the end.
fn long_turn() -> Acts {
    let mut acts = script();
    for step in 1..=STEPS {
        acts = acts.reasoning(format!("Step {step} follows."));
        // A file is edited only after it was read.
        for file in (0..FILES).filter(|_| step == 1) {
            acts = acts.call("read", json!({"file_path": name(file)}));
        }
        let seen = if step == 1 { "nothing\n" } else { "{{last_tool_result}}" };
        acts = acts
            .call("edit", edit(step, &format!("{step} saw {seen}")))
            .call("read", json!({"file_path": name(step - 1)}))
            .call("bash", look(step - 1))
            .usage(1000, 10, 900)
            .then();
    }
    acts.text(DONE)
}

fn edit(step: usize, line: &str) -> Value {
    json!({"file_path": name(step), "old_string": "end\n", "new_string": format!("{line}end\n")})
}

/// Shows the last line before the end.
fn look(step: usize) -> Value {
    let command = format!("tail -n 2 {} | head -n 1", name(step));
    json!({"command": command, "description": "look at the last line"})
}

/// What the files hold after each step, beginning with step 0, computed without Reins.
fn simulated() -> Vec<Tree> {
    let mut trees = vec![tree()];
    let mut seen = "nothing".to_owned();
    for step in 1..=STEPS {
        let mut tree = trees[step - 1].clone();
        let file = tree.get_mut(&name(step)).unwrap();
        let body = file.strip_suffix("end\n").unwrap();
        *file = format!("{body}{step} saw {seen}\nend\n");
        tree[&name(step - 1)].lines().rev().nth(1).unwrap().clone_into(&mut seen);
        trees.push(tree);
    }
    trees
}

/// Everything below a folder.
fn found(root: &Path, folder: &Path, tree: &mut Tree) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found(root, &path, tree);
        } else {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            tree.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
}

/// A body in its parts, as they are written.
#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    tools: &'a RawValue,
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

fn parts(body: &[u8]) -> Body<'_> {
    serde_json::from_slice(body).unwrap()
}

/// Each body is its predecessor with messages after it.
fn assert_prefixes(bodies: &[Vec<u8>]) {
    for (index, pair) in bodies.windows(2).enumerate() {
        let (before, after) = (parts(&pair[0]), parts(&pair[1]));
        let number = index + 1;
        assert_eq!(before.tools.get(), after.tools.get(), "tools after request {number}");
        assert!(before.messages.len() < after.messages.len(), "after request {number}");
        for (place, (old, new)) in before.messages.iter().zip(&after.messages).enumerate() {
            assert_eq!(old.get(), new.get(), "message {place} after request {number}");
        }
        let open = pair[0].strip_suffix(b"]}").unwrap();
        assert!(pair[1].starts_with(open), "the bytes around the messages after {number}");
    }
}

/// Each request says that it begins with all items of its predecessor.
fn assert_all_shared(requests: &[RebuiltRequest]) {
    assert_eq!((requests[0].sent.shared, &requests[0].sent.cause), (0, &None));
    for pair in requests.windows(2) {
        let (before, after) = (&pair[0].sent, &pair[1].sent);
        assert_eq!((after.shared, &after.cause), (before.items, &None), "{after:?}");
        assert!(after.items > before.items, "{after:?}");
    }
}

/// The log gives back every body that arrived.
fn assert_rebuilt(server: &StrictServer, log: &Path) -> Vec<RebuiltRequest> {
    let rebuilt = rebuild_requests(log).unwrap();
    let sent = server.requests();
    assert_eq!(rebuilt.len(), sent.len());
    for (request, rebuilt) in sent.iter().zip(&rebuilt) {
        let number = request.number;
        assert!(request.body == rebuilt.body, "request {number} and event {}", rebuilt.seq);
    }
    assert_all_shared(&rebuilt);
    rebuilt
}

fn object(run: &Finished) -> Value {
    assert_eq!(run.code, Some(0), "{run:?}");
    serde_json::from_str(&run.stdout).unwrap()
}

async fn run(bin: &Bin, args: &[&str]) -> Finished {
    bin.run(["run", "--output", "json"].iter().chain(args)).await.unwrap()
}

/// What the tools told the model is what the simulation says.
fn assert_readings(bodies: &[Vec<u8>], trees: &[Tree]) {
    for step in 1..=STEPS {
        let body: Value = serde_json::from_slice(&bodies[step]).unwrap();
        let messages = body["messages"].as_array().unwrap();
        let results: Vec<&str> = messages
            .iter()
            .filter(|message| message["role"] == "tool")
            .map(|message| message["content"].as_str().unwrap())
            .collect();
        let read = results[results.len() - 2];
        let content = &trees[step][&name(step - 1)];
        let lines: String =
            content.lines().enumerate().map(|(at, line)| format!("{}: {line}\n", at + 1)).collect();
        assert!(read.contains(&format!("<content>\n{lines}\n")), "step {step}: {read}\n{lines}");
    }
}

#[tokio::test]
async fn fifty_steps_and_the_same_session_in_further_processes() {
    let acts = long_turn().then().call("read", json!({"file_path": name(0)}));
    let acts = acts.call("bash", look(0)).then().text("It is as I left it.");
    let server = StrictServer::start(acts.then().text("Still here.")).unwrap();
    let bin = Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap().model_at(&server.base_url());
    let bin = bin.limit(Duration::from_secs(240));
    for (path, content) in tree() {
        bin.file(&path, content).unwrap();
    }

    let first = object(&run(&bin, &["do the fifty steps"]).await);
    assert_eq!((&first["text"], &first["steps"]), (&json!(DONE), &json!(STEPS + 1)));
    assert_eq!(first["tool_calls"], json!(3 * STEPS + FILES));
    let trees = simulated();
    let mut real = Tree::new();
    found(&bin.project(), &bin.project(), &mut real);
    assert_eq!(&real, trees.last().unwrap());
    let bodies = |server: &StrictServer| -> Vec<Vec<u8>> {
        server.requests().iter().map(|request| request.body.to_vec()).collect()
    };
    assert_readings(&bodies(&server), &trees);

    let id = first["session"].as_str().unwrap();
    let second = object(&run(&bin, &["--session", id, "look again"]).await);
    assert_eq!((second["session"].as_str(), &second["turn"]), (Some(id), &json!(2)));
    assert_eq!(second["text"], "It is as I left it.");
    let all = bodies(&server);
    let (before, after) = (parts(&all[STEPS]).messages, parts(&all[STEPS + 1]).messages);
    assert!(after[before.len()].get().contains(DONE), "the last answer comes first");
    assert!(after.last().unwrap().get().contains("look again"));

    // The same directory by another way, and another directory.
    bin.file("sub/other.txt", "").unwrap();
    std::os::unix::fs::symlink("..", bin.project().join("sub/same")).unwrap();
    let third = object(&run(&bin, &["--continue", "--cwd", "sub/same", "and now?"]).await);
    assert_eq!((third["session"].as_str(), &third["text"]), (Some(id), &json!("Still here.")));
    let other = run(&bin, &["--continue", "--cwd", "sub", "and here?"]).await;
    assert_eq!(other.code, Some(6), "{other:?}");

    let logs = bin.logs().unwrap();
    assert_eq!(logs.len(), 1, "no new session: {logs:?}");
    let rebuilt = assert_rebuilt(&server, &logs[0]);
    assert_eq!(rebuilt.len(), STEPS + 4);
    assert_prefixes(&bodies(&server));
    server.assert_clean();
    assert_changes_are_found(&bin, &logs[0]);
}

/// The rebuilding is no tautology: a log that says something else gives something else.
fn assert_changes_are_found(bin: &Bin, log: &Path) {
    let header = std::fs::read(log.with_file_name("header.json")).unwrap();
    bin.file("changed/header.json", header).unwrap();
    let mut lines = Vec::new();
    let mut changed = 0;
    for event in read_events(log).unwrap() {
        let data = event.body.data.get().replace("3 saw 1 saw nothing", "3 saw 1 saw something");
        if data != event.body.data.get() && event.body.kind == "tool/result" {
            changed += 1;
        }
        let body = Draft { data: RawValue::from_string(data).unwrap(), ..event.body };
        lines.extend(Event { body, ..event }.encode().unwrap().0);
    }
    assert!(changed > 0);
    bin.file("changed/00000000.log", lines).unwrap();
    let error = rebuild_requests(&bin.project().join("changed/00000000.log")).unwrap_err();
    assert!(matches!(error, RebuildError::Differs { .. }), "{error}");
}
