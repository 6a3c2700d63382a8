//! What the row `barriers` does to the calls that a run makes of the system.

use reins_testkit::{Bin, StrictServer, needs, needs_condition, script};
use serde_json::json;

const REINS: &str = env!("CARGO_BIN_EXE_reins");

/// Runs one command through `bash` twice. How often the disk is waited for from the second request
/// to the third; `None` where nothing can be traced.
async fn syncs(config: &str) -> Option<usize> {
    let command = json!({"command": "true", "description": "Does nothing"});
    let acts = script().call("bash", command.clone()).then().call("bash", command);
    let server = StrictServer::start(acts.then().text("done")).unwrap();
    let bin = Bin::new("strace").unwrap().model_at(&server.base_url());
    let row = format!("[[row]]\nid = \"barriers\"\nconfig = {{ {config} }}\n");
    bin.file("p.toml", row).unwrap();
    let trace = bin.home().parent().unwrap().join("trace");
    let calls = "trace=fdatasync,fsync,write,writev,sendto,sendmsg";
    let through = ["-f", "-qq", "-e", calls, "-s", "16", "-o", trace.to_str().unwrap(), REINS];
    let end = bin.run(through.iter().chain(&["run", "go", "--patch", "p.toml"])).await.unwrap();
    let can_trace = trace.metadata().is_ok_and(|found| found.len() > 0);
    if !needs_condition("a trace", can_trace).unwrap() {
        return None;
    }
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "done\n"), "{}", end.stderr);
    let trace = std::fs::read_to_string(&trace).unwrap();
    let requests: Vec<&str> = trace.split("\"POST /").collect();
    let [_, _, second, _] = &requests[..] else { panic!("not three requests:\n{trace}") };
    let starts = |line: &&str| line.contains("sync(") && !line.contains("resumed>");
    Some(second.lines().filter(starts).count())
}

#[tokio::test]
async fn a_step_waits_for_the_disk_only_at_the_barriers_that_are_on() {
    if !needs("strace").unwrap() {
        return;
    }
    let cases = [
        ("", 2),
        ("at_turn_end = false", 2),
        ("before_request = false", 1),
        ("before_tools = false", 1),
        ("before_request = false, before_tools = false", 0),
    ];
    for (config, expected) in cases {
        let Some(found) = syncs(config).await else { return };
        assert_eq!(found, expected, "with {{ {config} }}");
    }
}

#[tokio::test]
async fn explain_shows_each_barrier_its_place_and_what_is_lost_without_it() {
    let bin = Bin::new(REINS).unwrap();
    bin.file("p.toml", "[[row]]\nid = \"barriers\"\nconfig = { before_tools = false }\n").unwrap();
    let end = bin.run(["explain", "row", "barriers", "--patch", "p.toml"]).await.unwrap();
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    let parts =
        ["before_request", "before_tools", "at_turn_end", "patch p.toml:3", "same thing twice"];
    for part in parts {
        assert!(end.stdout.contains(part), "no `{part}` in\n{}", end.stdout);
    }
}
