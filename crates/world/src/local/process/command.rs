//! One running command: its output, its end, its limits.

use std::future::pending;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use reins_sandbox::{Report, SandboxError, SpawnStage};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, waitid};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::capture::Capture;
use super::owner::{Accepted, Ask, REPORTS, Spawn, gone};
use crate::process::{CancelToken, CommandEnd, CommandSpec, ProcessError};

/// After the main process's end output is awaited until it was quiet this long …
const QUIET: Duration = Duration::from_millis(20);
/// … and no longer than this.
const DRAIN: Duration = Duration::from_millis(250);
/// For the main process of a killed tree to be reported, on top of the grace. A stopped supervisor
/// reports nothing; the host ends it later.
const EXIT_TIME: Duration = Duration::from_millis(1500);
/// For the last of a killed tree to go, on top of the grace.
const GONE_TIME: Duration = Duration::from_secs(3);

const PIECE: usize = 64 * 1024;
/// Read at most from a command whose end is lost: more than the pipes hold.
const MAX_LAST_PIECES: usize = 64;

type Reply = oneshot::Sender<Result<CommandEnd, ProcessError>>;

pub(super) struct Running {
    id: u64,
    host_pid: u32,
    host: mpsc::Sender<Ask>,
    reports: mpsc::Receiver<Report>,
    stdout: Stream,
    stderr: Stream,
    piece: Vec<u8>,
    spec: CommandSpec,
    cancel: CancelToken,
    deadline: Option<Instant>,
    cause: Option<Cause>,
    /// When the result is given without the main process's end; set with `cause`.
    answer_by: Option<Instant>,
    exit: Option<Exit>,
    all_gone: bool,
}

/// Why the tree is being ended; the first one stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    TimeLimit,
    Cancelled,
    /// The caller dropped its future.
    Abandoned,
}

#[derive(Clone, Copy)]
struct Exit {
    code: Option<i32>,
    signal: Option<i32>,
    survivors: u32,
}

struct Stream {
    /// `None` after its end.
    pipe: Option<pipe::Receiver>,
    capture: Capture,
}

/// What woke the command up.
enum Event {
    Report(Option<Report>),
    Output,
    Cause(Cause),
    WaitedEnough,
}

impl Running {
    /// Replies when the command has ended, then reads on for what still holds the pipes.
    pub(super) async fn run(
        host: mpsc::Sender<Ask>,
        spec: CommandSpec,
        cancel: CancelToken,
        mut reply: Reply,
    ) {
        let (result, running) = match Self::start(host, spec, cancel).await {
            Ok(mut running) => {
                let result = running.run_to_end(&mut reply).await;
                (result.map_err(|error| running.with_output(error)), Some(running))
            }
            Err(error) => (Err(error), None),
        };
        let ended = result.is_ok();
        // An abandoned command has nobody to reply to.
        reply.send(result).ok();
        if let Some(mut running) = running.filter(|_| ended) {
            running.discard().await;
        }
    }

    async fn start(
        host: mpsc::Sender<Ask>,
        spec: CommandSpec,
        cancel: CancelToken,
    ) -> Result<Self, ProcessError> {
        let pipes = Stream::open(spec.keep_bytes).and_then(|out| {
            let err = Stream::open(spec.keep_bytes)?;
            Ok((out, err))
        });
        let ((stdout, stdout_end), (stderr, stderr_end)) =
            pipes.map_err(|error| ProcessError::Supervisor(format!("no pipe: {error}")))?;
        let (report, reports) = mpsc::channel(REPORTS);
        let (answer, accepted) = oneshot::channel();
        let mut command = reins_sandbox::CommandSpec::new(spec.argv.iter(), &spec.cwd);
        command.env.clone_from(&spec.env);
        let spawn =
            Spawn { command, stdout: stdout_end, stderr: stderr_end, answer, reports: report };
        host.send(Ask::Spawn(Box::new(spawn))).await.map_err(|_| gone())?;
        let Accepted { id, host_pid } = match accepted.await {
            Ok(Ok(accepted)) => accepted,
            Ok(Err(SandboxError::Spec(problem))) => {
                return Err(ProcessError::Program { program: program(&spec), problem });
            }
            Ok(Err(error)) => return Err(ProcessError::Supervisor(error.to_string())),
            Err(_) => return Err(gone()),
        };
        Ok(Self {
            id,
            host_pid,
            host,
            reports,
            stdout,
            stderr,
            piece: vec![0; PIECE],
            deadline: Instant::now().checked_add(spec.time_limit),
            spec,
            cancel,
            cause: None,
            answer_by: None,
            exit: None,
            all_gone: false,
        })
    }

    async fn run_to_end(&mut self, reply: &mut Reply) -> Result<CommandEnd, ProcessError> {
        loop {
            let event = tokio::select! {
                report = self.reports.recv() => Event::Report(report),
                () = self.stdout.readable() => Event::Output,
                () = self.stderr.readable() => Event::Output,
                cause = wish(&self.cancel, self.deadline, reply), if self.cause.is_none() => {
                    Event::Cause(cause)
                }
                () = until(self.answer_by) => Event::WaitedEnough,
            };
            match event {
                Event::Report(report) => self.note(report)?,
                Event::Output => {
                    self.read();
                }
                Event::Cause(cause) => self.kill(cause).await?,
                Event::WaitedEnough => return self.end_unreported(),
            }
            if self.exit.is_some() {
                break;
            }
        }
        if self.cause.is_some() {
            self.await_all_gone().await?;
        }
        self.drain().await?;
        if self.may_be_the_hosts_end() {
            // A host is a zombie some moments after its commands learned of its end.
            sleep_until(Instant::now() + QUIET).await;
            if has_ended(self.host_pid) {
                return Err(gone());
            }
        }
        self.end()
    }

    /// A host that dies takes its commands along by signals that nobody else asked for.
    fn may_be_the_hosts_end(&self) -> bool {
        let signal = self.exit.and_then(|exit| exit.signal).and_then(Signal::from_named_raw);
        self.cause.is_none() && matches!(signal, Some(Signal::TERM | Signal::KILL))
    }

    async fn kill(&mut self, cause: Cause) -> Result<(), ProcessError> {
        self.cause = Some(cause);
        self.answer_by = Instant::now().checked_add(self.spec.grace.saturating_add(EXIT_TIME));
        let grace_ms = u32::try_from(self.spec.grace.as_millis()).unwrap_or(u32::MAX);
        let ask = Ask::Kill { id: self.id, grace_ms };
        self.host.send(ask).await.map_err(|_| gone())
    }

    fn note(&mut self, report: Option<Report>) -> Result<(), ProcessError> {
        match report {
            Some(Report::Exited { code, signal, survivors, .. }) => {
                self.exit = Some(Exit { code, signal, survivors });
            }
            Some(Report::Gone { left, .. }) => {
                self.all_gone = true;
                let Some(exit) = &mut self.exit else {
                    let problem = "the command's own supervisor was killed; its exit is unknown";
                    return Err(ProcessError::Supervisor(problem.to_owned()));
                };
                exit.survivors = left;
            }
            Some(Report::SpawnFailed { stage, errno, .. }) => {
                return Err(self.not_spawned(stage, errno));
            }
            // What has been said before stands.
            None if self.all_gone => {}
            None => return Err(gone()),
            Some(_) => {}
        }
        Ok(())
    }

    fn not_spawned(&self, stage: SpawnStage, errno: i32) -> ProcessError {
        let text = io::Error::from_raw_os_error(errno).to_string();
        let words = text.split(" (os error").next().unwrap_or_default().to_owned();
        let program = program(&self.spec);
        match stage {
            SpawnStage::Directory => {
                ProcessError::Cwd { path: self.spec.cwd.clone(), problem: words }
            }
            SpawnStage::Program => ProcessError::Program { program, problem: words },
            SpawnStage::Interpreter => {
                let problem = format!("the interpreter named in its first line: {words}");
                ProcessError::Program { program, problem }
            }
            other => ProcessError::Supervisor(format!("{other}: {words}")),
        }
    }

    /// After a kill the result waits for the whole tree, within bounds.
    async fn await_all_gone(&mut self) -> Result<(), ProcessError> {
        let until = Instant::now() + self.spec.grace.saturating_add(GONE_TIME);
        while !self.all_gone {
            match self.next(until).await {
                Event::Report(report) => self.note(report)?,
                Event::Output => {
                    self.read();
                }
                Event::Cause(_) | Event::WaitedEnough => return Ok(()),
            }
        }
        Ok(())
    }

    async fn drain(&mut self) -> Result<(), ProcessError> {
        let end = Instant::now() + DRAIN;
        let mut quiet = Instant::now() + QUIET;
        while self.stdout.pipe.is_some() || self.stderr.pipe.is_some() {
            match self.next(quiet.min(end)).await {
                Event::Report(report) => self.note(report)?,
                Event::Output if self.read() => quiet = Instant::now() + QUIET,
                Event::Output => {}
                Event::Cause(_) | Event::WaitedEnough => return Ok(()),
            }
        }
        Ok(())
    }

    async fn next(&mut self, until: Instant) -> Event {
        tokio::select! {
            report = self.reports.recv(), if !self.all_gone => Event::Report(report),
            () = self.stdout.readable() => Event::Output,
            () = self.stderr.readable() => Event::Output,
            () = sleep_until(until) => Event::WaitedEnough,
        }
    }

    fn end(&mut self) -> Result<CommandEnd, ProcessError> {
        let exit = self.exit.ok_or_else(gone)?;
        Ok(CommandEnd {
            code: exit.code,
            signal: exit.signal,
            timed_out: self.cause == Some(Cause::TimeLimit),
            cancelled: self.cause == Some(Cause::Cancelled),
            stdout: self.stdout.capture.take(),
            stderr: self.stderr.capture.take(),
            survivors: exit.survivors,
        })
    }

    /// The supervisor, at least, still runs.
    fn end_unreported(&mut self) -> Result<CommandEnd, ProcessError> {
        self.exit = Some(Exit { code: None, signal: None, survivors: 1 });
        self.end()
    }

    /// With what the command wrote before its end was lost.
    fn with_output(&mut self, error: ProcessError) -> ProcessError {
        let ProcessError::Supervisor(problem) = error else { return error };
        // Bounded: what still writes could go on for ever.
        for _ in 0..MAX_LAST_PIECES {
            if !self.read() {
                break;
            }
        }
        let (stdout, stderr) = (self.stdout.capture.take(), self.stderr.capture.take());
        match stdout.head.is_empty() && stderr.head.is_empty() {
            true => ProcessError::Supervisor(problem),
            false => ProcessError::Lost { problem, stdout: stdout.into(), stderr: stderr.into() },
        }
    }

    /// What still runs must neither block on a full pipe nor die of a closed one.
    async fn discard(&mut self) {
        while !self.all_gone && (self.stdout.pipe.is_some() || self.stderr.pipe.is_some()) {
            let event = tokio::select! {
                report = self.reports.recv() => Event::Report(report),
                () = self.stdout.readable() => Event::Output,
                () = self.stderr.readable() => Event::Output,
            };
            match event {
                Event::Report(report) => {
                    if self.note(report).is_err() {
                        return;
                    }
                }
                Event::Output | Event::Cause(_) | Event::WaitedEnough => {
                    self.read();
                }
            }
        }
    }

    /// Whether anything came.
    fn read(&mut self) -> bool {
        let out = self.stdout.read(&mut self.piece);
        self.stderr.read(&mut self.piece) || out
    }
}

/// The first reason to end the tree.
async fn wish(cancel: &CancelToken, deadline: Option<Instant>, reply: &mut Reply) -> Cause {
    tokio::select! {
        () = cancel.cancelled() => Cause::Cancelled,
        () = until(deadline) => Cause::TimeLimit,
        () = reply.closed() => Cause::Abandoned,
    }
}

/// Never without a time.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// Whether a child of this process runs no more; it stays to be waited for.
fn has_ended(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::Pid(pid), options), Ok(None))
}

fn program(spec: &CommandSpec) -> String {
    spec.argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

impl Stream {
    fn open(keep_bytes: usize) -> io::Result<(Self, OwnedFd)> {
        let (reader, writer) = io::pipe()?;
        let pipe = Some(pipe::Receiver::from_owned_fd(reader.into())?);
        Ok((Self { pipe, capture: Capture::new(keep_bytes) }, writer.into()))
    }

    /// Never after the stream's end.
    async fn readable(&self) {
        match &self.pipe {
            // An error shows again at reading.
            Some(pipe) => drop(pipe.readable().await),
            None => pending().await,
        }
    }

    /// Takes what is there now, one piece at most. Whether anything came.
    fn read(&mut self, piece: &mut [u8]) -> bool {
        let Some(pipe) = &self.pipe else { return false };
        match pipe.try_read(piece) {
            Ok(0) => self.pipe = None,
            Ok(count) => {
                self.capture.push(&piece[..count]);
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // A pipe that cannot be read any more has ended.
            Err(_) => self.pipe = None,
        }
        false
    }
}
