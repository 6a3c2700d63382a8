//! However harness, host or reaper end, nothing they ran stays.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use reins_sandbox::SandboxError;

use crate::support::{
    Host, PATIENCE, bash, children, eventually, marked, marker, read_until, state, test_host,
};

/// Time within which nothing may be left.
const LIMIT: Duration = Duration::from_secs(5);

const SCRIPTS: [&str; 6] = [
    "sleep 1000",
    "sleep 1000 & setsid sleep 1000 & wait",
    "( ( setsid sleep 1000 & ) & ); exit 0",
    "trap '' TERM HUP INT; while :; do sleep 1000; done",
    "setsid bash -c \"trap '' TERM; while :; do sleep 1000; done\" & exit 0",
    "sleep 1000 & kill -STOP $!; wait",
];

/// A stand-in for a harness that runs all scripts; with the pid of its host.
#[expect(clippy::disallowed_methods, reason = "a harness is not started under a host")]
fn harness(mark: &str) -> (Child, u32) {
    let mut child = Command::new(test_host())
        .arg("harness")
        .arg(mark)
        .args(SCRIPTS)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = File::from(OwnedFd::from(child.stdout.take().unwrap()));
    read_until(&mut reader, "ready ");
    let host = read_until(&mut reader, "\n").trim().parse().unwrap();
    (child, host)
}

fn is_alive(pid: u32) -> bool {
    state(pid).is_some_and(|(letter, _)| letter != 'Z')
}

fn running(mark: &str) -> Vec<u32> {
    marked(&format!("MARKER={mark}"))
}

fn kill(pid: u32) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn sigkill_of_the_harness_leaves_nothing() {
    let mark = marker("harness");
    let (mut child, host) = harness(&mark);
    let reapers = children(host);
    assert_eq!(reapers.len(), SCRIPTS.len());
    assert!(running(&mark).len() > SCRIPTS.len());
    child.kill().unwrap();
    child.wait().unwrap();
    eventually(LIMIT, "every command is gone", || running(&mark).is_empty());
    eventually(LIMIT, "the host and its reapers are gone", || {
        !is_alive(host) && reapers.iter().all(|pid| !is_alive(*pid))
    });
}

#[test]
fn sigkill_of_the_host_leaves_nothing() {
    let mark = marker("host");
    let (mut child, host) = harness(&mark);
    let reapers = children(host);
    kill(host);
    eventually(LIMIT, "every command is gone", || running(&mark).is_empty());
    eventually(LIMIT, "the reapers are gone", || reapers.iter().all(|pid| !is_alive(*pid)));
    // The stand-in ends by itself: it is told.
    assert!(!child.wait().unwrap().success());
}

#[test]
fn sigkill_of_harness_and_host_together_leaves_nothing() {
    let mark = marker("both");
    let (mut child, host) = harness(&mark);
    kill(host);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually(LIMIT, "every command is gone", || running(&mark).is_empty());
}

#[test]
fn a_killed_reaper_takes_its_command_along_and_no_other() {
    let mark = marker("reaper");
    let mut host = Host::start();
    let (other, mut other_reader) = host.spawn(&bash("echo up; sleep 1000 & wait"));
    host.started(other);
    read_until(&mut other_reader, "up\n");
    let mut command = bash("sleep 1000 & setsid sleep 1000 & echo up; wait");
    command.env.push(("MARKER".into(), mark.clone().into()));
    let (id, mut reader) = host.spawn(&command);
    let main = host.started(id);
    read_until(&mut reader, "up\n");
    kill(state(main).unwrap().1);
    // No `Exited`: nobody was there to see the exit.
    assert_eq!(host.gone(id), 0);
    assert_eq!(running(&mark), [0u32; 0]);
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).unwrap();

    host.client.kill(other, 0).unwrap();
    assert_eq!(host.exited(other).1, Some(9));
    eventually(PATIENCE, "no zombie is kept", || children(host.client.pid()).is_empty());
}

#[test]
fn a_reaper_holds_no_pipe_but_its_own_lifeline() {
    // A held output would never end; another's lifeline would keep that one from ending.
    let mut host = Host::start();
    let commands: Vec<_> = (0..3).map(|_| host.spawn(&bash("sleep 1000"))).collect();
    for (id, _reader) in &commands {
        host.started(*id);
    }
    for reaper in children(host.client.pid()) {
        let held = std::fs::read_dir(format!("/proc/{reaper}/fd")).unwrap();
        let held = held.map(|entry| std::fs::read_link(entry.unwrap().path()).unwrap());
        let pipes = held.filter(|target| target.to_string_lossy().starts_with("pipe:"));
        assert_eq!(pipes.count(), 1);
    }
}

#[test]
fn the_client_is_told_of_the_end_of_its_host() {
    let mut host = Host::start();
    let (id, _reader) = host.spawn(&bash("sleep 1000"));
    let main = host.started(id);
    kill(host.client.pid());
    let deadline = Instant::now() + PATIENCE;
    let error = loop {
        match host.client.recv(deadline.saturating_duration_since(Instant::now())) {
            Ok(report) => assert!(report.is_some(), "not told in time"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SandboxError::Gone), "{error}");
    // The end of the socket is also the proof that nothing is left.
    assert!(!is_alive(main));
    assert!(matches!(host.client.kill(id, 0), Err(SandboxError::Gone)));
    let null = File::open("/dev/null").unwrap();
    assert!(matches!(host.client.spawn(9, &bash(":"), &null, &null), Err(SandboxError::Gone)));
    assert!(host.client.close().is_err());
}

#[test]
fn closing_ends_everything_and_waits_for_it() {
    let mark = marker("close");
    let mut host = Host::start();
    let pid = host.client.pid();
    for script in SCRIPTS {
        let mut command = bash(script);
        command.env.push(("MARKER".into(), mark.clone().into()));
        let (id, _reader) = host.spawn(&command);
        host.started(id);
    }
    host.client.close().unwrap();
    assert_eq!(running(&mark), [0u32; 0]);
    assert!(state(pid).is_none(), "the host is waited for");
}

#[test]
fn dropping_an_idle_host_is_quick_and_leaves_no_zombie() {
    let host = Host::start();
    let pid = host.client.pid();
    let started = Instant::now();
    drop(host);
    assert!(started.elapsed() < Duration::from_secs(2));
    assert!(state(pid).is_none());
}

#[test]
fn an_idle_host_and_its_waiting_reapers_use_no_processor_time() {
    let mut host = Host::start();
    let (id, _reader) = host.spawn(&bash("sleep 1000 & exit 0"));
    host.started(id);
    host.exited(id);
    let watched = [vec![host.client.pid()], children(host.client.pid())].concat();
    let ticks = || -> u64 { watched.iter().map(|pid| processor_ticks(*pid)).sum() };
    let before = ticks();
    assert_eq!(host.client.recv(Duration::from_millis(1500)).unwrap(), None);
    assert!(ticks() - before <= 2, "busy: {} ticks", ticks() - before);
}

/// User and system time in hundredths of a second.
fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat[stat.rfind(')').unwrap() + 2..].split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}
