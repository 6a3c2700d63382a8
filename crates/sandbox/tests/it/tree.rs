//! Descendants that outlive the main process, and the end of them all.

use std::io::Read;
use std::time::{Duration, Instant};

use reins_sandbox::Report;

use crate::support::{
    Host, PATIENCE, bash, children, eventually, marked, marker, read_until, state,
};

/// Ways to leave a process behind; each prints `ok` when it is there and holds the output open.
const LEAVERS: [(&str, &str); 5] = [
    ("background", "sleep 1000 & echo ok"),
    ("own session", "setsid sleep 1000 & echo ok"),
    ("double fork", "( ( setsid bash -c 'echo ok; sleep 1000' & ) & ) ; wait"),
    ("deaf to SIGTERM", "bash -c \"trap '' TERM; echo ok; while :; do sleep 1000; done\" & exit 0"),
    ("stopped", "sleep 1000 & kill -STOP $!; echo ok"),
];

#[test]
fn the_exit_is_told_at_once_though_descendants_hold_the_output() {
    for (name, script) in LEAVERS {
        let mark = marker("leaver");
        let mut host = Host::start();
        let mut command = bash(script);
        command.env.push(("MARK".into(), mark.clone().into()));
        let started = Instant::now();
        let (id, mut reader) = host.spawn(&command);
        host.started(id);
        let (code, _, survivors) = host.exited(id);
        assert!(started.elapsed() < Duration::from_secs(10), "{name}");
        assert_eq!(code, Some(0), "{name}");
        assert!(survivors >= 1, "{name}");
        assert_eq!(read_until(&mut reader, "ok\n"), "ok\n", "{name}");
        assert!(!marked(&mark).is_empty(), "{name}");

        host.client.kill(id, 300).unwrap();
        assert_eq!(host.gone(id), 0, "{name}");
        assert_eq!(marked(&mark), [0u32; 0], "{name}");
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"", "{name}");
        eventually(PATIENCE, "the reaper is collected", || children(host.client.pid()).is_empty());
    }
}

#[test]
fn a_survivor_that_ends_by_itself_ends_the_command() {
    let mut host = Host::start();
    let (id, _reader) = host.spawn(&bash("sleep 0.5 & exit 3"));
    host.started(id);
    assert_eq!(host.exited(id), (Some(3), None, 1));
    assert_eq!(host.gone(id), 0);
}

#[test]
fn nothing_written_late_after_a_kill() {
    for script in [
        "echo start; (sleep 2; touch late) & wait",
        "trap '' TERM; echo start; (trap '' TERM; sleep 2; touch late) & wait; sleep 3; touch late",
        "echo start; setsid bash -c 'sleep 2; touch late' & wait",
    ] {
        let directory = tempfile::tempdir().unwrap();
        let mut host = Host::start();
        let mut command = bash(script);
        command.cwd = directory.path().to_owned();
        let (id, mut reader) = host.spawn(&command);
        host.started(id);
        read_until(&mut reader, "start\n");
        host.client.kill(id, 200).unwrap();
        let (code, signal, _) = host.exited(id);
        assert!(code.is_none() && signal.is_some(), "{script}");
        // Nobody is left who could write it later.
        assert_eq!(host.gone(id), 0, "{script}");
        assert!(!directory.path().join("late").exists(), "{script}");
    }
}

#[test]
fn sigterm_comes_first_once_and_its_handler_may_choose_the_exit_code() {
    let mut host = Host::start();
    let script = "n=0; trap 'n=$((n+1))' TERM; echo ready; \
                  while [ $n = 0 ]; do read -t 1000 < <(sleep 1000); done; \
                  read -t 0.2 < <(sleep 1); echo terms $n; exit 7";
    let (id, mut reader) = host.spawn(&bash(script));
    host.started(id);
    read_until(&mut reader, "ready\n");
    host.client.kill(id, 20_000).unwrap();
    let (code, signal, _) = host.exited(id);
    assert_eq!((code, signal), (Some(7), None));
    assert_eq!(read_until(&mut reader, "terms 1\n"), "terms 1\n");
}

#[test]
fn a_second_request_shortens_the_grace() {
    let mut host = Host::start();
    let script = "trap '' TERM; echo ready; while :; do sleep 1000; done";
    let (id, mut reader) = host.spawn(&bash(script));
    host.started(id);
    read_until(&mut reader, "ready\n");
    host.client.kill(id, 3_600_000).unwrap();
    host.client.kill(id, 0).unwrap();
    assert_eq!(host.exited(id).1, Some(9));
    assert_eq!(host.gone(id), 0);
    // An id that has ended is not an error.
    host.client.kill(id, 0).unwrap();
}

#[test]
fn a_kill_right_behind_the_request_finds_its_command() {
    let mut host = Host::start();
    for _ in 0..20 {
        let (id, _reader) = host.spawn(&bash("sleep 1000"));
        host.client.kill(id, 0).unwrap();
        host.started(id);
        assert_eq!(host.exited(id).1, Some(9));
        assert_eq!(host.gone(id), 0);
    }
}

#[test]
fn a_tree_that_keeps_forking_is_caught() {
    let mark = marker("forking");
    let mut host = Host::start();
    // Each generation hands over to a new session and ends: no number stays valid for long.
    let script = "f() { setsid bash -c \"$body\" & }; export body='setsid bash -c \"$body\" & \
                  sleep 0.01'; echo ready; f; f; f; sleep 1000";
    let mut command = bash(script);
    command.env.push(("MARK".into(), mark.clone().into()));
    let (id, mut reader) = host.spawn(&command);
    host.started(id);
    read_until(&mut reader, "ready\n");
    eventually(PATIENCE, "generations come and go", || marked(&mark).len() > 3);
    host.client.kill(id, 50).unwrap();
    host.exited(id);
    assert_eq!(host.gone(id), 0);
    assert_eq!(marked(&mark), [0u32; 0]);
}

#[test]
fn one_command_can_end_while_others_go_on() {
    let mut host = Host::start();
    let (first, _first_reader) = host.spawn(&bash("sleep 1000 & sleep 1000"));
    let (second, mut reader) = host.spawn(&bash("echo up; sleep 1000 & wait"));
    host.started(first);
    host.started(second);
    read_until(&mut reader, "up\n");
    host.client.kill(first, 1000).unwrap();
    assert_eq!(host.exited(first).1, Some(15));
    assert_eq!(host.gone(first), 0);
    host.client.kill(second, 1000).unwrap();
    assert_eq!(host.exited(second).1, Some(15));
    assert_eq!(host.gone(second), 0);
}

#[test]
fn a_command_that_stops_its_supervisor_is_ended_all_the_same() {
    let mark = marker("stopper");
    let mut host = Host::start();
    let mut command = bash("echo up; kill -STOP $PPID; sleep 1000");
    command.env.push(("MARK".into(), mark.clone().into()));
    let (id, mut reader) = host.spawn(&command);
    read_until(&mut reader, "up\n");
    let reaper = children(host.client.pid())[0];
    eventually(PATIENCE, "it is stopped", || {
        state(reaper).is_some_and(|(letter, _)| letter == 'T')
    });
    host.client.kill(id, 0).unwrap();
    // Told by the host: the reaper does not see the exit, and may not have told the start.
    match host.report(id) {
        Report::Started { .. } => assert_eq!(host.gone(id), 0),
        other => assert_eq!(other, Report::Gone { id, left: 0 }),
    }
    assert_eq!(marked(&mark), [0u32; 0]);
}
