//! Child processes as a service. Everything that starts a process takes it from here, so that one
//! supervisor owns them all.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use reins_kernel::BoxFuture;

/// A command that runs to its end.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// Program (absolute, or looked up on `PATH` of `env`) and arguments.
    pub argv: Vec<OsString>,
    /// Must be an existing directory.
    pub cwd: PathBuf,
    /// The whole environment of the child; see [`Process::child_env`].
    pub env: Vec<(OsString, OsString)>,
    /// When it passes, the whole tree is ended.
    pub time_limit: Duration,
    /// Between the polite and the final signal.
    pub grace: Duration,
    /// Kept bytes of each stream: first and last half each; the rest is counted.
    pub keep_bytes: usize,
}

/// A stream's output, kept at both ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first bytes.
    pub head: Vec<u8>,
    /// The last bytes, when something between was left out; else empty.
    pub tail: Vec<u8>,
    /// Bytes left out between head and tail.
    pub omitted: u64,
}

/// What is known when the main process has ended. The facts do not exclude one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    /// Exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The time limit passed.
    pub timed_out: bool,
    /// The caller cancelled.
    pub cancelled: bool,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// Descendants that still run; they end with the harness at the latest.
    pub survivors: u32,
}

/// Why a command did not start, or its end is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError {
    /// The directory is missing or not a directory.
    #[error("working directory `{}`: {problem}", path.display())]
    Cwd {
        /// The directory.
        path: PathBuf,
        /// The operating system's words.
        problem: String,
    },
    /// The program is missing or not executable.
    #[error("program `{program}`: {problem}")]
    Program {
        /// As given.
        program: String,
        /// The operating system's words.
        problem: String,
    },
    /// The supervisor could not start or is gone; what it ran has ended.
    #[error("the process supervisor is not available: {0}")]
    Supervisor(String),
    /// The same after the command had begun and written something.
    #[error("the process supervisor is not available: {problem}")]
    Lost {
        /// As of [`ProcessError::Supervisor`].
        problem: String,
        /// Standard output until then.
        stdout: Box<Captured>,
        /// Standard error until then.
        stderr: Box<Captured>,
    },
}

/// Set to end a running command. Cloneable; cancelling twice is harmless.
pub type CancelToken = tokio_util::sync::CancellationToken;

/// Starts and supervises processes.
pub trait Process: Send + Sync {
    /// Runs a command to the end of its main process. Dropping the future ends the tree.
    fn run(
        &self,
        command: CommandSpec,
        cancel: CancelToken,
    ) -> BoxFuture<'static, Result<CommandEnd, ProcessError>>;

    /// The environment for a child: the harness's own without secrets, plus what the row lets pass.
    /// Secrets are names that hold KEY, TOKEN, SECRET, PASSWORD, PASSWD, PASSPHRASE, CREDENTIAL,
    /// BEARER or COOKIE, that are or end in `_PWD` (not PWD itself), `_PAT` or `_AUTH`, or have JWT
    /// as a word between underscores, everything `REINS_`, values with an address that holds a
    /// password (`://user:password@`, proxies excepted), and what [`crate::Env::withhold`] marked.
    fn child_env(&self) -> Vec<(OsString, OsString)>;

    /// Ends every tree that still runs and waits until all are gone. Called at stop.
    fn shut_down(&self) -> BoxFuture<'static, ()>;
}
