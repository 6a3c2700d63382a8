//! The process that stands over one command: parent of its main process, adoptive parent of every
//! descendant whose own parent ends, and their end.
//!
//! It leaves only when no descendant is left (or none that SIGKILL can reach), and it kills them
//! when asked through its lifeline, or when the lifeline's other end closes with the host's death.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fstat;
use rustix::io::{Errno, pread, read};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, set_child_subreaper, setsid, wait,
};

use super::encoding::Decoded;
use super::launch::{Failure, launch};
use super::wire::{Answer, Outbox};
use super::{syscall, tree};
use crate::MAX_SPEC_BYTES;
use crate::Report;

/// Time between SIGTERM and SIGKILL when the harness or the host is gone.
const DEATH_GRACE: Duration = Duration::from_millis(500);
/// How long SIGKILL is repeated before the rest is reported as `left`.
const GIVE_UP: Duration = Duration::from_secs(5);
/// Pause between two rounds of SIGKILL, doubled each round up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(200);

/// Looks for survivors before it is taken that there is one.
const LOOKS: usize = 5;

/// What a reaper is given.
pub(crate) struct Task<'a> {
    pub(crate) id: u64,
    /// The harness's socket, for reports only.
    pub(crate) control: BorrowedFd<'a>,
    /// Read end of a pipe: each 4 bytes are a kill request with its grace in milliseconds.
    pub(crate) lifeline: OwnedFd,
    /// File with the encoded command.
    pub(crate) command: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
}

/// How far the end of the command has been asked for.
enum Ending {
    No,
    /// SIGTERM is sent.
    Asked {
        kill_at: Instant,
    },
    Killing {
        give_up: Instant,
        next: Instant,
        pause: Duration,
    },
}

struct Reaper<'a> {
    id: u64,
    control: BorrowedFd<'a>,
    /// Absent once its other end is closed.
    lifeline: Option<OwnedFd>,
    signals: OwnedFd,
    /// Absent once it has been waited for; until then its number cannot pass to another.
    main: Option<Pid>,
    outbox: Outbox,
    ending: Ending,
}

/// Runs the command to its very end and returns the reaper's exit status.
pub(crate) fn run(task: Task<'_>) -> i32 {
    let Task { id, control, lifeline, command, stdout, stderr } = task;
    let mut outbox = Outbox::new();
    let started = prepare().and_then(|signals| {
        let bytes = read_command(&command)?;
        let decoded = Decoded::parse(&bytes)
            .ok_or_else(|| Failure::process(Errno::INVAL, "reading the command"))?;
        launch(&decoded, stdout.as_fd(), stderr.as_fd()).map(|main| (main, signals))
    });
    // The command's output must end with the command, not with the reaper.
    drop((command, stdout, stderr));
    let (main, signals) = match started {
        Ok(started) => started,
        Err(Failure { stage, errno, what }) => {
            let errno = errno.raw_os_error();
            outbox.push(Answer::Report(Report::SpawnFailed { id, stage, errno, what }));
            deliver(&mut outbox, control);
            return 0;
        }
    };
    let pid = main.as_raw_pid().cast_unsigned();
    outbox.push(Answer::Report(Report::Started { id, pid }));
    outbox.flush(control);
    let lifeline = Some(lifeline);
    let ending = Ending::No;
    Reaper { id, control, lifeline, signals, main: Some(main), outbox, ending }.run()
}

fn prepare() -> Result<OwnedFd, Failure> {
    let failed = |call: &'static str| move |errno| Failure::process(errno, call);
    setsid().map_err(failed("setsid"))?;
    set_child_subreaper(Some(getpid())).map_err(failed("prctl"))?;
    syscall::child_signals().map_err(failed("signalfd"))
}

fn read_command(file: &OwnedFd) -> Result<Vec<u8>, Failure> {
    let failed = |errno| Failure::process(errno, "reading the command");
    let size = fstat(file).map_err(failed)?.st_size;
    let size = usize::try_from(size).ok().filter(|size| *size <= MAX_SPEC_BYTES);
    let mut bytes = vec![0; size.ok_or_else(|| failed(Errno::TOOBIG))?];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match pread(file, rest, filled as u64) {
            Ok(0) => return Err(failed(Errno::INVAL)),
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    Ok(bytes)
}

/// Waits until the harness has taken every answer, or is gone.
fn deliver(outbox: &mut Outbox, control: BorrowedFd<'_>) {
    loop {
        outbox.flush(control);
        if outbox.is_empty() {
            return;
        }
        // A failing poll leaves nothing to wait with; the next flush decides.
        let _errno = poll(&mut [PollFd::new(&control, PollFlags::OUT)], None);
    }
}

impl Reaper<'_> {
    fn run(mut self) -> i32 {
        loop {
            let empty = self.collect();
            let left = if empty { Some(0) } else { self.advance() };
            if let Some(left) = left {
                self.outbox.push(Answer::Report(Report::Gone { id: self.id, left }));
                deliver(&mut self.outbox, self.control);
                return 0;
            }
            self.outbox.flush(self.control);
            self.wait();
        }
    }

    /// Waits for every child that has ended; true when there is none any more.
    fn collect(&mut self) -> bool {
        let (empty, ended) = self.wait_ended();
        let Some(status) = ended else { return empty };
        let survivors = if empty { 0 } else { self.survivors() };
        self.outbox.push(Answer::Report(Report::Exited {
            id: self.id,
            code: status.exit_status(),
            signal: status.terminating_signal(),
            survivors,
        }));
        empty
    }

    /// Whether no child is left, and how the main process ended if it did now.
    fn wait_ended(&mut self) -> (bool, Option<WaitStatus>) {
        let mut ended = None;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if Some(pid) == self.main => {
                    self.main = None;
                    ended = Some(status);
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return (false, ended),
                Err(_) => return (true, ended),
            }
        }
    }

    /// Counts the descendants. A look can miss a process that is handing over to its child; then
    /// there is a child to wait for although none was seen, and it looks again.
    fn survivors(&mut self) -> u32 {
        for _ in 0..LOOKS {
            match tree::count(&tree::descendants(&[])) {
                0 if self.wait_ended().0 => return 0,
                0 => {}
                seen => return seen,
            }
        }
        1
    }

    /// Reads the lifeline and does what is due. Returns how many are left when giving up.
    fn advance(&mut self) -> Option<u32> {
        self.read_lifeline();
        let now = Instant::now();
        if let Ending::Asked { kill_at } = self.ending
            && kill_at <= now
        {
            self.ending = Ending::Killing { give_up: now + GIVE_UP, next: now, pause: FIRST_PAUSE };
        }
        let Ending::Killing { give_up, next, pause } = self.ending else { return None };
        if now < next {
            return None;
        }
        let found = self.signal(Signal::KILL);
        if now >= give_up {
            return Some(found);
        }
        let longer = (pause * 2).min(LAST_PAUSE);
        self.ending = Ending::Killing { give_up, next: now + pause, pause: longer };
        None
    }

    fn read_lifeline(&mut self) {
        while let Some(lifeline) = &self.lifeline {
            let mut grace = [0; 4];
            match read(lifeline, &mut grace) {
                Ok(4) => self.ask(Duration::from_millis(u32::from_le_bytes(grace).into())),
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                // End of file: the host is gone, or has let go because the harness is.
                Ok(_) | Err(_) => {
                    self.lifeline = None;
                    self.ask(DEATH_GRACE);
                }
            }
        }
    }

    /// SIGTERM once; a further request can only bring SIGKILL forward.
    fn ask(&mut self, grace: Duration) {
        let wanted = Instant::now() + grace;
        self.ending = match self.ending {
            Ending::Killing { .. } => return,
            Ending::Asked { kill_at } => Ending::Asked { kill_at: kill_at.min(wanted) },
            Ending::No => {
                if !grace.is_zero() {
                    self.signal(Signal::TERM);
                    // A stopped process acts on SIGTERM only when it goes on.
                    self.signal(Signal::CONT);
                }
                Ending::Asked { kill_at: wanted }
            }
        };
    }

    /// Signals every descendant and returns how many there are. Without a readable `/proc` the main
    /// process's group is still reached while its number is certainly its own.
    fn signal(&self, signal: Signal) -> u32 {
        let found = tree::descendants(&[]);
        match &found {
            Ok(processes) => tree::signal(processes, signal, &[]),
            Err(_) => {
                if let Some(main) = self.main {
                    let _refused = rustix::process::kill_process_group(main, signal);
                }
            }
        }
        tree::count(&found)
    }

    /// Sleeps until a child ends, the lifeline speaks, the socket takes an answer, or time is up.
    fn wait(&self) {
        let due = match self.ending {
            Ending::No => None,
            Ending::Asked { kill_at } => Some(kill_at),
            Ending::Killing { next, .. } => Some(next),
        };
        let mut fds = vec![PollFd::new(&self.signals, PollFlags::IN)];
        fds.extend(self.lifeline.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
        if !self.outbox.is_empty() {
            fds.push(PollFd::new(&self.control, PollFlags::OUT));
        }
        sleep_until(&mut fds, due);
        syscall::drain(&self.signals);
    }
}

/// Polls until an event or the moment `due`. An interrupted or refused wait just ends early: the
/// callers look at everything again.
pub(crate) fn sleep_until(fds: &mut [PollFd<'_>], due: Option<Instant>) {
    let timeout = due.map(|due| {
        // One millisecond more than asked for, so that it is due when the wait ends.
        let rest = due.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        Timespec {
            tv_sec: rest.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: rest.subsec_nanos().into(),
        }
    });
    let _early = poll(fds, timeout.as_ref());
}
