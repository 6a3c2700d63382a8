//! The harness's side: starts the host, sends it commands, reads its reports.

use std::fs::File;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, Shutdown, SocketFlags, SocketType, recv, shutdown, socketpair,
};

use super::encoding::encode;
use super::reaper::sleep_until;
use super::wire::{Answer, MAX_ANSWER_BYTES, send_kill, send_spawn};
use crate::{CommandSpec, HOST_ROLE, Report, SandboxError};

/// How long a started program may take to become a host.
const START_TIME: Duration = Duration::from_secs(10);
/// How long a host may take to end everything; it needs less than 5 s by its own limits.
const CLOSE_TIME: Duration = Duration::from_secs(6);

/// One running sandbox host. Dropping it ends the host and every process the host ran, and waits
/// for that (usually milliseconds, at most about 6 s); [`HostClient::close`] does the same and
/// tells how it went. When this process dies in any way, the same happens without it.
#[derive(Debug)]
pub struct HostClient {
    socket: OwnedFd,
    child: Child,
}

impl HostClient {
    /// Starts this very executable as the host, even if its file has been replaced meanwhile, and
    /// waits until it is ready (milliseconds, at most 10 s). Its `main` must begin with
    /// [`crate::run_if_host_role`].
    ///
    /// # Errors
    /// [`SandboxError::Start`] or [`SandboxError::NoHost`].
    pub fn start() -> Result<HostClient, SandboxError> {
        HostClient::start_program(Path::new("/proc/self/exe"))
    }

    /// Starts another executable that has the host role.
    ///
    /// # Errors
    /// As [`HostClient::start`].
    pub fn start_program(program: &Path) -> Result<HostClient, SandboxError> {
        let flags = SocketFlags::CLOEXEC;
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(SandboxError::system("socketpair"))?;
        // The socket goes as stdin: no descriptor is made inheritable in this process, so none can
        // leak into a program that another thread starts at this moment.
        #[expect(clippy::disallowed_methods, reason = "this starts the supervising host itself")]
        let child = Command::new(program)
            .arg0("reins")
            .arg(HOST_ROLE)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|source| SandboxError::Start { program: program.into(), source })?;
        let mut client = HostClient { socket, child };
        match client.wait_ready() {
            Ok(()) => Ok(client),
            Err(detail) => Err(SandboxError::NoHost { program: program.into(), detail }),
        }
    }

    fn wait_ready(&mut self) -> Result<(), String> {
        match self.answer_within(START_TIME) {
            Ok(Some(Answer::Ready)) => Ok(()),
            Ok(Some(Answer::Unfit(reason))) => Err(reason),
            Ok(Some(Answer::Report(_))) => Err("it reported before it was ready".into()),
            Ok(None) => Err("it did not answer within 10 s".into()),
            Err(SandboxError::Gone) => Err(match self.child.wait() {
                Ok(status) => format!("it ended at once ({status})"),
                Err(error) => format!("it ended at once ({error})"),
            }),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Process id of the host.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks the host to run a command. `id` names it in every report and in [`HostClient::kill`];
    /// it must be new to this host (a counter will do). The descriptors are duplicated: drop yours,
    /// or the output never ends. Does not block. At most 512 commands run at a time; one more is
    /// answered by `SpawnFailed` with `EAGAIN`.
    ///
    /// # Errors
    /// [`SandboxError::Spec`]; [`SandboxError::Full`], after which the same call may be repeated
    /// once the socket is writable; [`SandboxError::Gone`].
    pub fn spawn(
        &self,
        id: u64,
        command: &CommandSpec,
        stdout: impl AsFd,
        stderr: impl AsFd,
    ) -> Result<(), SandboxError> {
        let bytes = encode(command)?;
        let file = memfd_create(c"command", MemfdFlags::CLOEXEC)
            .map_err(SandboxError::system("memfd_create"))?;
        let mut file = File::from(file);
        file.write_all(&bytes)
            .map_err(|source| SandboxError::System { call: "write to a memory file", source })?;
        let fds = [file.as_fd(), stdout.as_fd(), stderr.as_fd()];
        send_spawn(self.socket.as_fd(), id, fds).map_err(send_error)
    }

    /// Asks for the end of a command and all its descendants: SIGTERM now, SIGKILL after `grace_ms`
    /// (0: at once) to what is left. Asking again can only shorten the grace. An id that has ended
    /// is ignored. Does not block; `Gone` tells when it is done.
    ///
    /// # Errors
    /// [`SandboxError::Full`] and [`SandboxError::Gone`] as for [`HostClient::spawn`].
    pub fn kill(&self, id: u64, grace_ms: u32) -> Result<(), SandboxError> {
        send_kill(self.socket.as_fd(), id, grace_ms).map_err(send_error)
    }

    /// The next report, `None` when there is none now. Read on until `None` whenever the descriptor
    /// becomes readable.
    ///
    /// # Errors
    /// [`SandboxError::Gone`] when the host and every process under it have ended.
    pub fn try_recv(&self) -> Result<Option<Report>, SandboxError> {
        self.try_answer()?.map(report).transpose()
    }

    /// As [`HostClient::try_recv`], waiting up to `timeout`. Blocks the thread.
    ///
    /// # Errors
    /// As [`HostClient::try_recv`].
    pub fn recv(&self, timeout: Duration) -> Result<Option<Report>, SandboxError> {
        self.answer_within(timeout)?.map(report).transpose()
    }

    fn answer_within(&self, timeout: Duration) -> Result<Option<Answer>, SandboxError> {
        // A time beyond what the clock can hold is for ever.
        let deadline = Instant::now().checked_add(timeout);
        loop {
            if let Some(answer) = self.try_answer()? {
                return Ok(Some(answer));
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(None);
            }
            sleep_until(&mut [PollFd::new(&self.socket, PollFlags::IN)], deadline);
        }
    }

    fn try_answer(&self) -> Result<Option<Answer>, SandboxError> {
        let mut buffer = [MaybeUninit::uninit(); MAX_ANSWER_BYTES];
        loop {
            return match recv(&self.socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((([], _), _)) | Err(Errno::CONNRESET) => Err(SandboxError::Gone),
                Ok(((bytes, _), _)) => Answer::decode(bytes).map(Some).ok_or_else(|| {
                    SandboxError::Protocol(format!("{} bytes of another version", bytes.len()))
                }),
                Err(Errno::AGAIN) => Ok(None),
                Err(Errno::INTR) => continue,
                Err(errno) => Err(SandboxError::system("recv")(errno)),
            };
        }
    }

    /// Ends the host and every process it ran: SIGTERM, half a second later SIGKILL. Blocks until
    /// all are gone, at most about 6 s. Remaining reports are dropped.
    ///
    /// # Errors
    /// [`SandboxError::NoHost`] when the host had to be killed or ended badly.
    pub fn close(mut self) -> Result<(), SandboxError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), SandboxError> {
        // Already disconnected when the host is gone; the wait below tells.
        let _disconnected = shutdown(&self.socket, Shutdown::Write);
        let deadline = Instant::now() + CLOSE_TIME;
        let in_time = loop {
            match self.answer_within(deadline.saturating_duration_since(Instant::now())) {
                Ok(Some(_)) | Err(SandboxError::Protocol(_)) => {}
                Ok(None) => break false,
                Err(_) => break true,
            }
        };
        let bad = |detail| SandboxError::NoHost { program: "the host".into(), detail };
        if !in_time {
            self.child.kill().map_err(|error| bad(format!("kill: {error}")))?;
        }
        let status = self.child.wait().map_err(|error| bad(format!("wait: {error}")))?;
        if status.success() { Ok(()) } else { Err(bad(format!("it ended with {status}"))) }
    }
}

impl Drop for HostClient {
    fn drop(&mut self) {
        // After `close` this finds the host waited for and returns at once. Without it there is
        // nobody left to tell how the end went.
        let _unheard = self.end();
    }
}

impl AsFd for HostClient {
    /// The control socket, for readiness only: readable means reports or the end, writable means
    /// that a call refused as `Full` may be repeated. It is never read or written in blocking mode.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for HostClient {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

fn report(answer: Answer) -> Result<Report, SandboxError> {
    match answer {
        Answer::Report(report) => Ok(report),
        Answer::Ready | Answer::Unfit(_) => {
            Err(SandboxError::Protocol("a greeting out of turn".into()))
        }
    }
}

fn send_error(errno: Errno) -> SandboxError {
    match errno {
        // Too many descriptors on their way count as a full queue: the host is about to take them.
        Errno::AGAIN | Errno::NOBUFS | Errno::TOOMANYREFS => SandboxError::Full,
        Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN => SandboxError::Gone,
        errno => SandboxError::system("sendmsg")(errno),
    }
}
