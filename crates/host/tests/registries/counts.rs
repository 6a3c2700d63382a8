//! What a process holds of the system.

use std::fs::{read_dir, read_link, read_to_string};
use std::time::{Duration, Instant};

/// Longer than the system takes to forget a thread.
const PATIENCE: Duration = Duration::from_secs(10);

/// Everything of this process that a plugin could leave behind.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    threads: usize,
    /// What the open descriptors are: `socket`, `anon_inode:[eventpoll]`, a path.
    descriptors: Vec<String>,
    /// Also those that have ended and that nobody waited for.
    children: Vec<u32>,
}

impl Counts {
    /// What is there once only the main thread runs, or after a while what is there instead.
    ///
    /// A thread that was joined is still listed until the system has put it away.
    pub(crate) fn settled() -> Self {
        let end = Instant::now() + PATIENCE;
        while threads() > 1 && Instant::now() < end {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        Self { threads: threads(), descriptors: descriptors(), children: children() }
    }
}

fn threads() -> usize {
    read_dir("/proc/self/task").unwrap().count()
}

fn descriptors() -> Vec<String> {
    let open = read_dir("/proc/self/fd").unwrap();
    // The descriptor of this very list is closed when its target is read.
    let targets = open.filter_map(|entry| read_link(entry.ok()?.path()).ok());
    let kind = |target: std::path::PathBuf| {
        let target = target.display().to_string();
        target.split_once(":[").map_or(target.clone(), |(kind, _)| kind.to_owned())
    };
    let mut kinds: Vec<String> = targets.map(kind).filter(|kind| !kind.contains("/fd")).collect();
    kinds.sort();
    kinds
}

fn children() -> Vec<u32> {
    let own = std::process::id().to_string();
    let processes = read_dir("/proc").unwrap();
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |id: &u32| {
        let stat = read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // After the name, which may hold anything: state, then the parent.
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.split(' ').nth(1) == Some(&own))
    };
    ids.filter(is_child).collect()
}
