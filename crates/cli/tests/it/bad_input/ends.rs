//! Runs that are ended from outside: limits and signals. What happened stays, the next run is
//! valid, the model is told, and no process is left.

use std::time::{Duration, Instant};

use reins_testkit::{
    Acts, At, Bin, Fault, Finished, Running, StrictServer, Transcript, processes_with_marker,
    script,
};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::{bin, object};

/// Two seconds are promised; a busy machine gets some more. Everything that is interrupted here
/// would take longer by itself.
const SOON: Duration = Duration::from_secs(5);

/// How long the processes of a run may outlive it.
const GONE: Duration = Duration::from_secs(5);

const TOLD: &str = "The user interrupted the previous turn";

fn bash(command: &str) -> serde_json::Value {
    json!({"command": command, "description": "A command of a test"})
}

fn send(run: &Running, signal: Signal) {
    let id = i32::try_from(run.id().unwrap()).unwrap();
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}

/// No process whose environment names this test's folders is left.
async fn assert_nothing_left(bin: &Bin) {
    let marker = format!("HOME={}", bin.project().with_file_name("user").display());
    let begun = Instant::now();
    loop {
        let left = processes_with_marker(&marker);
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < GONE, "processes {left:?} are left");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn transcript(bin: &Bin) -> Transcript {
    let [log] = &bin.logs().unwrap()[..] else { panic!("one session") };
    Transcript::read(log).unwrap()
}

/// The next run in a new process is valid; all its messages as text.
async fn next_run(bin: &Bin, server: &StrictServer) -> String {
    let end = bin.run(["run", "--continue", "go on"]).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "going on\n"), "{}", end.stderr);
    server.assert_clean();
    server.json_bodies().last().unwrap()["messages"].to_string()
}

/// Starts a run of these acts, waits for the event, sends the signal, and waits for the end.
async fn interrupted(acts: Acts, event: &str, signal: Signal) -> (Bin, StrictServer, Finished) {
    let server = StrictServer::start(acts.then().text("going on")).unwrap();
    let bin = bin().model_at(&server.base_url());
    let run = bin.spawn(["run", "--output=json", "do it"], None).await.unwrap();
    bin.until_log(event, 1).await.unwrap();
    let begun = Instant::now();
    send(&run, signal);
    let end = run.finish().await.unwrap();
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    assert_nothing_left(&bin).await;
    (bin, server, end)
}

fn stalled_stream() -> Acts {
    let stall = Fault::Stall(At::Text, Duration::from_secs(600));
    script().text("the first half, the other half").fault(stall)
}

fn long_command() -> Acts {
    script().text("I wait.").call("bash", bash("echo begun; sleep 60 & sleep 60"))
}

#[tokio::test]
async fn ctrl_c_in_a_stream_keeps_what_came() {
    let (bin, server, end) =
        interrupted(stalled_stream(), "\"type\":\"assistant/chunk\"", Signal::INT).await;
    assert_eq!(end.code, Some(130), "{}", end.stderr);
    let object = object(&end);
    assert_eq!(
        (&object["reason"], &object["error"]["code"]),
        (&json!("aborted"), &json!("INTERRUPTED"))
    );
    assert_eq!(object["text"], "the first half,");
    assert!(end.stderr.contains("reins run --continue"), "{}", end.stderr);
    let log = transcript(&bin).only(&["assistant/message", "turn/end"]);
    assert!(log.as_str().contains("the first half,"), "{log}");
    assert!(log.as_str().contains("aborted"), "{log}");
    let messages = next_run(&bin, &server).await;
    assert!(messages.contains("the first half,") && messages.contains(TOLD), "{messages}");
    assert_eq!(messages.matches("\"do it\"").count(), 1, "{messages}");
}

#[tokio::test]
async fn ctrl_c_in_a_tool_ends_the_tool() {
    let (bin, server, end) =
        interrupted(long_command(), "\"type\":\"tool/start\"", Signal::INT).await;
    assert_eq!(end.code, Some(130), "{}", end.stderr);
    assert_eq!(object(&end)["tool_calls"], 1);
    let log = transcript(&bin).only(&["tool/result", "turn/end"]);
    assert!(log.as_str().contains("ABORTED"), "{log}");
    let messages = next_run(&bin, &server).await;
    assert!(messages.contains("cancelled") && messages.contains(TOLD), "{messages}");
}

#[tokio::test]
async fn ctrl_c_in_the_wait_for_a_retry_ends_the_wait() {
    let acts = script().status(503, &[("retry-after", "9")]);
    let (bin, server, end) = interrupted(acts, "\"type\":\"llm/retry\"", Signal::INT).await;
    assert_eq!(end.code, Some(130), "{}", end.stderr);
    assert_eq!(object(&end)["reason"], "aborted");
    assert_eq!(server.requests().len(), 1, "no further attempt");
    let messages = next_run(&bin, &server).await;
    assert!(messages.contains(TOLD), "{messages}");
    assert_eq!(messages.matches("\"do it\"").count(), 1, "{messages}");
}

#[tokio::test]
async fn a_request_to_end_is_obeyed_with_its_own_code() {
    for signal in [Signal::TERM, Signal::HUP] {
        for (acts, event) in [
            (stalled_stream(), "\"type\":\"assistant/chunk\""),
            (long_command(), "\"type\":\"tool/start\""),
        ] {
            let (bin, server, end) = interrupted(acts, event, signal).await;
            assert_eq!(end.code, Some(143), "{}", end.stderr);
            assert_eq!(object(&end)["error"]["code"], "TERMINATED");
            next_run(&bin, &server).await;
        }
    }
}

#[tokio::test]
async fn a_second_ctrl_c_ends_the_process_at_once() {
    // The command notes the request to end, and stays.
    let stubborn = "trap 'echo > asked' TERM; echo > begun; while :; do sleep 60 & wait; done";
    let acts = script().call("bash", bash(stubborn)).then().text("going on");
    let server = StrictServer::start(acts).unwrap();
    let bin = bin().model_at(&server.base_url());
    // Without the second signal it would be awaited for a minute.
    bin.file("p.toml", "[[row]]\nid = \"bash\"\nconfig = { grace_ms = 60000 }\n").unwrap();
    let run = bin.spawn(["run", "do it", "--patch", "p.toml"], None).await.unwrap();
    appears(&bin, "begun").await;
    send(&run, Signal::INT);
    appears(&bin, "asked").await;
    let begun = Instant::now();
    send(&run, Signal::INT);
    let end = run.finish().await.unwrap();
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    assert_eq!(end.code, Some(130), "{}", end.stderr);
    assert_nothing_left(&bin).await;
    let messages = next_run(&bin, &server).await;
    assert!(messages.contains("Its effects may have happened"), "{messages}");
    let log = transcript(&bin).only(&["tool/result"]);
    assert!(log.as_str().contains("TOOL_OUTCOME_UNKNOWN"), "{log}");
}

#[tokio::test]
async fn a_run_that_waits_for_its_patch_ends_at_the_first_signal() {
    for (signal, code, said) in [
        (Signal::INT, 130, "reins: interrupted\n"),
        (Signal::TERM, 143, "reins: asked to end\n"),
        (Signal::HUP, 143, "reins: asked to end\n"),
    ] {
        let bin = bin();
        let pipe = bin.project().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let run = bin.spawn(["run", "--patch", "pipe", "hi"], None).await.unwrap();
        // Can be opened when somebody reads, and is never written to.
        let writer = loop {
            match open(&pipe, OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()) {
                Ok(writer) => break writer,
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        let begun = Instant::now();
        send(&run, signal);
        let end = run.finish().await.unwrap();
        assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
        assert_eq!((end.code, end.stderr.as_str()), (Some(code), said));
        drop(writer);
    }
}

async fn appears(bin: &Bin, file: &str) {
    let path = bin.project().join(file);
    while !path.exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn the_limit_of_steps_ends_a_run_with_its_own_code() {
    let acts = script().call("bash", bash("echo again >> steps")).times(2).then().text("going on");
    let server = StrictServer::start(acts).unwrap();
    let bin = bin().model_at(&server.base_url());
    let end = bin.run(["run", "--output=json", "--max-steps", "2", "do it"]).await.unwrap();
    assert_eq!(end.code, Some(5), "{}", end.stderr);
    let object = object(&end);
    assert_eq!((&object["steps"], &object["reason"]), (&json!(2), &json!("limit")));
    assert_eq!(object["error"]["message"], "the limit `steps` was reached");
    assert!(end.stderr.contains("hint: continue the session"), "{}", end.stderr);
    assert_eq!(server.requests().len(), 2);
    assert!(transcript(&bin).as_str().contains("limit/reached"));
    next_run(&bin, &server).await;
    assert_eq!(std::fs::read_to_string(bin.project().join("steps")).unwrap(), "again\nagain\n");
}

#[tokio::test]
async fn the_limit_of_time_ends_a_stream_a_tool_and_a_wait() {
    let wait = script().status(503, &[("retry-after", "9")]);
    for acts in [stalled_stream(), long_command(), wait] {
        let server = StrictServer::start(acts.then().text("going on")).unwrap();
        let bin = bin().model_at(&server.base_url());
        let begun = Instant::now();
        let end = bin.run(["run", "--output=json", "--max-time", "500ms", "do it"]).await.unwrap();
        assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
        assert_eq!(end.code, Some(5), "{}", end.stderr);
        let object = object(&end);
        assert_eq!(object["error"]["message"], "the limit `time` was reached");
        assert_nothing_left(&bin).await;
        assert!(transcript(&bin).as_str().contains("limit/reached"));
        next_run(&bin, &server).await;
    }
}
