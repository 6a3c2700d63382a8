//! A host with its reports sorted by command, and looks at the system's processes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use reins_sandbox::{CommandSpec, HostClient, Report};

/// Nothing a test waits for takes this long on a machine that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn test_host() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_reins-sandbox-test-host"))
}

pub(crate) fn bash(script: &str) -> CommandSpec {
    let mut command = CommandSpec::new(["/bin/bash", "-c", script], Path::new("/"));
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    command.env = vec![("PATH".into(), path.into())];
    command
}

/// A string that no other test run puts into an environment.
pub(crate) fn marker(name: &str) -> String {
    format!("{name}-{}-{:?}", std::process::id(), Instant::now()).replace([' ', '{', '}'], "")
}

pub(crate) struct Host {
    pub(crate) client: HostClient,
    waiting: BTreeMap<u64, Vec<Report>>,
    next_id: u64,
}

/// How a command went.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) output: Vec<u8>,
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) survivors: u32,
    pub(crate) left: u32,
}

impl Host {
    pub(crate) fn start() -> Host {
        let client = HostClient::start_program(test_host()).unwrap();
        Host { client, waiting: BTreeMap::new(), next_id: 1 }
    }

    /// Starts a command with both outputs in one pipe.
    pub(crate) fn spawn(&mut self, command: &CommandSpec) -> (u64, File) {
        let (reader, writer) = std::io::pipe().unwrap();
        let id = self.next_id;
        self.next_id += 1;
        self.client.spawn(id, command, &writer, &writer).unwrap();
        (id, File::from(OwnedFd::from(reader)))
    }

    /// The next report of this command.
    pub(crate) fn report(&mut self, id: u64) -> Report {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(reports) = self.waiting.get_mut(&id)
                && !reports.is_empty()
            {
                return reports.remove(0);
            }
            let rest = deadline.saturating_duration_since(Instant::now());
            let report = self.client.recv(rest).unwrap().expect("a report in time");
            self.waiting.entry(report.id()).or_default().push(report);
        }
    }

    pub(crate) fn started(&mut self, id: u64) -> u32 {
        match self.report(id) {
            Report::Started { pid, .. } => pid,
            other => panic!("expected Started, got {other:?}"),
        }
    }

    /// Code, signal, survivors.
    pub(crate) fn exited(&mut self, id: u64) -> (Option<i32>, Option<i32>, u32) {
        match self.report(id) {
            Report::Exited { code, signal, survivors, .. } => (code, signal, survivors),
            other => panic!("expected Exited, got {other:?}"),
        }
    }

    pub(crate) fn gone(&mut self, id: u64) -> u32 {
        match self.report(id) {
            Report::Gone { left, .. } => left,
            other => panic!("expected Gone, got {other:?}"),
        }
    }

    /// Runs a command to its end.
    pub(crate) fn run(&mut self, command: &CommandSpec) -> Outcome {
        let (id, mut reader) = self.spawn(command);
        let mut output = Vec::new();
        reader.read_to_end(&mut output).unwrap();
        self.started(id);
        let (code, signal, survivors) = self.exited(id);
        Outcome { output, code, signal, survivors, left: self.gone(id) }
    }
}

/// Reads until this text has appeared.
pub(crate) fn read_until(reader: &mut File, text: &str) -> String {
    let mut seen = String::new();
    let mut byte = [0];
    while !seen.contains(text) {
        assert_eq!(reader.read(&mut byte).unwrap(), 1, "ended after {seen:?}");
        seen.push(byte[0].into());
    }
    seen
}

/// Numbers of the living processes that have this text in their environment.
pub(crate) fn marked(text: &str) -> Vec<u32> {
    processes()
        .filter(|pid| {
            let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.windows(text.len()).any(|window| window == text.as_bytes())
        })
        .collect()
}

/// State letter and parent of a process.
pub(crate) fn state(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.get(stat.rfind(')')? + 2..)?.split(' ');
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Children of a process, zombies included.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    processes().filter(|pid| state(*pid).is_some_and(|(_, of)| of == parent)).collect()
}

fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
}

/// Waits until something holds that no descriptor announces, such as the end of a process that is
/// not ours.
pub(crate) fn eventually(within: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + within;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {within:?}: {what}");
        std::thread::yield_now();
    }
}
