//! The processes below this one, found in `/proc`, and signals to them.
//!
//! Why a found number can be signalled safely: this process is a session leader and a subreaper, so
//! its descendants stay below it, and every session and process group they are in holds nobody
//! else. Only this process's own group, and those of `spared` processes, are shared with others.

use std::collections::HashMap;
use std::fs;
use std::io;

use rustix::process::{
    Pid, PidfdFlags, Signal, getpgrp, getpid, kill_process_group, pidfd_open, pidfd_send_signal,
};

/// A process as `/proc/PID/stat` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pid: Pid,
    parent: i32,
    group: i32,
    zombie: bool,
    /// In clock ticks since boot: with `pid` the identity of a process.
    started: u64,
}

/// All living descendants of this process, without `spared` ones and what is below those.
pub(crate) fn descendants(spared: &[Pid]) -> io::Result<Vec<Process>> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(process) = look(pid) {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![getpid().as_raw_pid()];
    while let Some(parent) = parents.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            if spared.contains(&process.pid) {
                continue;
            }
            parents.push(process.pid.as_raw_pid());
            if !process.zombie {
                found.push(process);
            }
        }
    }
    Ok(found)
}

/// How many there are. An unreadable `/proc` hides at least the one that made the caller look.
pub(crate) fn count(found: &io::Result<Vec<Process>>) -> u32 {
    found.as_ref().map_or(1, |found| u32::try_from(found.len()).unwrap_or(u32::MAX))
}

/// Absent when the process is gone.
fn look(pid: i32) -> Option<Process> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &stat)
}

/// `PID (NAME) STATE PARENT GROUP …`, started at field 22; NAME may contain anything.
fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    Some(Process {
        pid: Pid::from_raw(pid)?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        zombie: matches!(state, "Z" | "X"),
        started: fields.nth(16)?.parse().ok()?,
    })
}

/// Signals every process once: by group, which also reaches a child being forked this moment, and
/// one by one those that have joined a group shared with this process or a spared one.
///
/// Refusals are not errors here: what is gone needs no signal, and what may not be signalled
/// (another user's) is found again by the caller's next look.
pub(crate) fn signal(processes: &[Process], signal: Signal, spared: &[Pid]) {
    let mut groups: Vec<i32> = Vec::new();
    let own = getpgrp().as_raw_pid();
    for process in processes {
        let shared =
            process.group == own || spared.iter().any(|pid| pid.as_raw_pid() == process.group);
        if shared {
            signal_one(process, signal);
        } else if !groups.contains(&process.group) {
            groups.push(process.group);
        }
    }
    for group in groups {
        if let Some(group) = Pid::from_raw(group).filter(|group| !group.is_init()) {
            let _refused = kill_process_group(group, signal);
        }
    }
}

/// The number may have passed to another process since it was read, unless the process it names
/// once the handle is open is still the one that was seen.
fn signal_one(process: &Process, signal: Signal) {
    let Ok(handle) = pidfd_open(process.pid, PidfdFlags::empty()) else { return };
    let same = look(process.pid.as_raw_pid()).is_some_and(|now| now.started == process.started);
    if same {
        let _refused = pidfd_send_signal(&handle, signal);
    }
}

#[cfg(test)]
mod tests;
