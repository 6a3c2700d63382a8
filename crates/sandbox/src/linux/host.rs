//! The sandbox host: forks a reaper per command and outlives none of them.
//!
//! One thread, no allocation of note, nothing of the harness loaded: so forking stays cheap. It
//! ends when the harness closes its end of the socket or dies.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, fcntl_dupfd_cloexec, write};
use rustix::net::SocketType;
use rustix::net::sockopt::socket_type;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{
    Pid, Signal, WaitOptions, chdir, getpid, kill_process, set_child_subreaper, setsid, wait,
};
use rustix::stdio::dup2_stdin;

use super::reaper::{self, Task, sleep_until};
use super::wire::{Answer, Outbox, Request, recv_request};
use super::{syscall, tree};
use crate::{HOST_ROLE, Report, SpawnStage};

/// Commands at a time; each costs the host one descriptor and the system one small process.
const MAX_COMMANDS: usize = 512;
/// Answers that may wait for the harness before no more requests are read.
const MAX_WAITING: usize = 1024;
/// Requests read before children are looked after again.
const BURST: usize = 32;
/// Time the reapers have to end their commands after the harness is gone, before they are killed.
const CLOSE_TIME: Duration = Duration::from_millis(2500);
/// Time beyond the grace that a reaper may take over a kill; more than its own limit.
const KILL_TIME: Duration = Duration::from_secs(7);
/// How long orphans of a killed reaper are chased.
const SWEEP_TIME: Duration = Duration::from_millis(1500);
const EMPTY_LOOKS: u32 = 3;
const SWEEP_PAUSE: Duration = Duration::from_millis(20);

/// Runs the host when `args` (the program's arguments with its name) say so and returns its exit
/// status; otherwise returns `None` and has done nothing. To be called first in `main`, before any
/// thread is started.
pub fn run_if_host_role(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if args.nth(1).is_none_or(|role| role != HOST_ROLE) {
        return None;
    }
    let is_control = |fd| socket_type(fd).is_ok_and(|kind| kind == SocketType::SEQPACKET);
    if !is_control(rustix::stdio::stdin()) {
        #[expect(clippy::print_stderr, reason = "somebody typed the role by hand")]
        {
            eprintln!("{HOST_ROLE} is started by the harness itself, not by hand");
        }
        return Some(ExitCode::from(2));
    }
    Some(match Host::prepare() {
        Ok(host) => host.run(),
        Err((control, reason)) => {
            let mut outbox = Outbox::new();
            outbox.push(Answer::Unfit(reason));
            outbox.flush(control);
            ExitCode::from(2)
        }
    })
}

struct Command {
    reaper: Pid,
    /// Absent when the reaper has been told to end for good.
    lifeline: Option<OwnedFd>,
    /// From when on a reaper that was told to end its command, and is not heard of, is killed: it
    /// may have been stopped, or hang with the start of a program on a dead file system.
    overdue: Option<Instant>,
}

/// Descendants of reapers that were killed by force, being ended by the host itself.
struct Sweep {
    ids: Vec<u64>,
    give_up: Instant,
    next: Instant,
    /// Looks in a row that found nobody; one look can miss a process that hands over to its child.
    empty_looks: u32,
}

struct Host {
    control: OwnedFd,
    signals: OwnedFd,
    commands: HashMap<u64, Command>,
    outbox: Outbox,
    sweep: Option<Sweep>,
    /// The harness is gone.
    closing: bool,
}

impl Host {
    /// Turns this process into a host: no terminal, no inherited descriptors, default signals.
    fn prepare() -> Result<Host, (BorrowedFd<'static>, String)> {
        Host::try_prepare().map_err(|reason| (rustix::stdio::stdin(), reason))
    }

    fn try_prepare() -> Result<Host, String> {
        let failed = |call: &'static str| move |errno: Errno| format!("{call}: {errno}");
        if !syscall::is_single_threaded().map_err(|error| format!("/proc/self/task: {error}"))? {
            return Err("it already has threads; call run_if_host_role first in main".into());
        }
        fs::read("/proc/self/stat").map_err(|error| format!("/proc/self/stat: {error}"))?;
        // Executed as /proc/self/exe it would be listed as "exe". A name is not worth a refusal.
        let _unnamed =
            fs::File::create("/proc/self/comm").and_then(|mut name| name.write_all(b"reins-host"));
        syscall::set_signal_mask(&syscall::all_signals()).map_err(failed("sigprocmask"))?;
        syscall::reset_signal_dispositions();
        syscall::close_from(3).map_err(failed("close_range (Linux 5.9 or newer)"))?;
        let control = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).map_err(failed("fcntl"))?;
        let nothing =
            rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .map_err(failed("/dev/null"))?;
        let signals = syscall::child_signals().map_err(failed("signalfd"))?;
        // A host started from a terminal's foreground group leads no group, so this succeeds; if it
        // leads one, it has been detached already.
        if let Err(errno) = setsid()
            && errno != Errno::PERM
        {
            return Err(failed("setsid")(errno));
        }
        set_child_subreaper(Some(getpid())).map_err(failed("prctl"))?;
        chdir("/").map_err(failed("chdir /"))?;
        dup2_stdin(&nothing).map_err(failed("dup2"))?;
        Ok(Host {
            control,
            signals,
            commands: HashMap::new(),
            outbox: Outbox::new(),
            sweep: None,
            closing: false,
        })
    }

    fn run(mut self) -> ExitCode {
        self.outbox.push(Answer::Ready);
        loop {
            self.serve();
            self.collect();
            self.advance_sweep();
            if self.closing && self.commands.is_empty() && self.sweep.is_none() {
                return ExitCode::SUCCESS;
            }
            self.outbox.flush(self.control.as_fd());
            self.wait();
        }
    }

    fn listens(&self) -> bool {
        !self.closing && self.outbox.len() < MAX_WAITING
    }

    fn serve(&mut self) {
        for _ in 0..BURST {
            if !self.listens() {
                return;
            }
            match recv_request(self.control.as_fd()) {
                Ok(Request::Spawn { id, command, stdout, stderr }) => {
                    if let Err((errno, what)) = self.spawn(id, command, stdout, stderr) {
                        self.refuse(id, errno, what);
                    }
                }
                Ok(Request::Kill { id, grace_ms }) => self.kill(id, grace_ms),
                Ok(Request::Cut { id }) => self.refuse(id, Errno::MFILE, "receiving descriptors"),
                Ok(Request::Unknown) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Ok(Request::End) | Err(_) => self.close(),
            }
        }
    }

    fn spawn(
        &mut self,
        id: u64,
        command: OwnedFd,
        stdout: OwnedFd,
        stderr: OwnedFd,
    ) -> Result<(), (Errno, &'static str)> {
        if self.commands.contains_key(&id) {
            return Err((Errno::EXIST, "a running command has this id"));
        }
        if self.commands.len() >= MAX_COMMANDS {
            return Err((Errno::AGAIN, "512 commands run already"));
        }
        let (theirs, ours) =
            pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).map_err(|errno| (errno, "pipe"))?;
        let mut ours = Some(ours);
        let reaper = syscall::fork(|| {
            // In the copy: let go of all lifelines, or they would not end with the host.
            drop(ours.take());
            self.commands.clear();
            let control = self.control.as_fd();
            reaper::run(Task { id, control, lifeline: theirs, command, stdout, stderr })
        });
        let reaper = reaper.map_err(|errno| (errno, "fork"))?;
        self.commands.insert(id, Command { reaper, lifeline: ours, overdue: None });
        Ok(())
    }

    fn refuse(&mut self, id: u64, errno: Errno, what: &str) {
        let (errno, what) = (errno.raw_os_error(), what.to_owned());
        let stage = SpawnStage::Process;
        self.outbox.push(Answer::Report(Report::SpawnFailed { id, stage, errno, what }));
    }

    /// Passes the request on. An unknown id has ended, and its last report is on the way.
    fn kill(&mut self, id: u64, grace_ms: u32) {
        let Some(command) = self.commands.get_mut(&id) else { return };
        if let Some(lifeline) = &command.lifeline {
            // Full: thousands of requests wait there already. Broken: the reaper has just ended.
            let _full_or_broken = write(lifeline, &grace_ms.to_le_bytes());
        }
        let overdue = Instant::now() + Duration::from_millis(grace_ms.into()) + KILL_TIME;
        command.overdue = Some(command.overdue.map_or(overdue, |before| before.min(overdue)));
    }

    /// The harness is gone: every reaper is told by the end of its lifeline.
    fn close(&mut self) {
        self.closing = true;
        let overdue = Instant::now() + CLOSE_TIME;
        for command in self.commands.values_mut() {
            command.lifeline = None;
            command.overdue = Some(overdue);
        }
    }

    fn collect(&mut self) {
        let now = Instant::now();
        for command in self.commands.values() {
            if command.overdue.is_some_and(|overdue| overdue <= now) {
                let _ended = kill_process(command.reaper, Signal::KILL);
            }
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.reaper_ended(pid, status.exit_status() == Some(0)),
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// A reaper that ended by itself has left nobody. After any other end this process has adopted
    /// its descendants. A process that is no reaper is such an adopted one.
    fn reaper_ended(&mut self, pid: Pid, well: bool) {
        let id = self.commands.iter().find(|(_, command)| command.reaper == pid).map(|(id, _)| *id);
        let Some(id) = id else { return };
        self.commands.remove(&id);
        if well {
            return;
        }
        let now = Instant::now();
        let fresh = Sweep { ids: Vec::new(), give_up: now, next: now, empty_looks: 0 };
        let sweep = self.sweep.get_or_insert(fresh);
        sweep.ids.push(id);
        sweep.give_up = now + SWEEP_TIME;
        sweep.next = now;
        sweep.empty_looks = 0;
    }

    fn advance_sweep(&mut self) {
        let now = Instant::now();
        let Some(sweep) = &mut self.sweep else { return };
        if now < sweep.next {
            return;
        }
        let reapers: Vec<Pid> = self.commands.values().map(|command| command.reaper).collect();
        let orphans = tree::descendants(&reapers);
        if let Ok(orphans) = &orphans {
            tree::signal(orphans, Signal::KILL, &reapers);
        }
        let left = tree::count(&orphans);
        sweep.empty_looks = if left == 0 { sweep.empty_looks + 1 } else { 0 };
        if sweep.empty_looks < EMPTY_LOOKS && now < sweep.give_up {
            sweep.next = now + SWEEP_PAUSE;
            return;
        }
        for id in std::mem::take(&mut sweep.ids) {
            self.outbox.push(Answer::Report(Report::Gone { id, left }));
        }
        self.sweep = None;
    }

    /// Sleeps until a request, the end of a child, room in the socket, or the next due moment.
    fn wait(&self) {
        let mut control = PollFlags::empty();
        if self.listens() {
            control |= PollFlags::IN;
        }
        if !self.outbox.is_empty() {
            control |= PollFlags::OUT;
        }
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        // Not even listed when closing: its hang-up would end every wait at once.
        if !control.is_empty() {
            fds.push(PollFd::new(&self.control, control));
        }
        let overdue = self.commands.values().filter_map(|command| command.overdue);
        let due = overdue.chain(self.sweep.as_ref().map(|sweep| sweep.next)).min();
        sleep_until(&mut fds, due);
        syscall::drain(&self.signals);
    }
}
