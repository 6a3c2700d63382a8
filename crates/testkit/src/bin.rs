//! Runs the binary as a person would, in a home and a project of its own.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::future::Future;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, Command};

/// How long a run may take unless the test says otherwise.
const LIMIT: Duration = Duration::from_secs(60);

/// How often a log is looked at while something is awaited in it.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// The binary, with a temporary home and project. Its environment holds what is set here and
/// `PATH`, nothing else of this process.
pub struct Bin {
    program: PathBuf,
    root: TempDir,
    env: Vec<(OsString, OsString)>,
    limit: Duration,
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The exit code; absent when a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// All of it; bytes that are no UTF-8 are replaced.
    pub stdout: String,
    /// All of it.
    pub stderr: String,
}

/// A run that did not come to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BinError {
    /// It took too long and was killed.
    #[error("{command} was killed after {limit:?}\nstdout:\n{stdout}\nstderr:\n{stderr}")]
    Overrun {
        /// Program and arguments.
        command: String,
        /// What it had.
        limit: Duration,
        /// Until then.
        stdout: String,
        /// Until then.
        stderr: String,
    },
    /// It ended before what was awaited.
    #[error("{command} ended ({end}) before it was to be killed\nstderr:\n{stderr}")]
    EndedEarly {
        /// Program and arguments.
        command: String,
        /// How it ended.
        end: ExitStatus,
        /// All of it.
        stderr: String,
    },
    /// The operating system refused something.
    #[error("{what}: {source}")]
    Os {
        /// What was tried.
        what: String,
        /// Its words.
        source: io::Error,
    },
}

impl Bin {
    /// `program` is what `env!("CARGO_BIN_EXE_reins")` says.
    ///
    /// # Errors
    /// A temporary directory cannot be made.
    pub fn new(program: impl Into<PathBuf>) -> Result<Self, BinError> {
        let root = TempDir::with_prefix("reins-test-").map_err(os("a temporary directory"))?;
        for folder in ["home", "project", "user"] {
            std::fs::create_dir(root.path().join(folder)).map_err(os(folder))?;
        }
        let mut bin = Self { program: program.into(), root, env: Vec::new(), limit: LIMIT };
        let (home, user) = (bin.home(), bin.root.path().join("user"));
        bin = bin.env("REINS_HOME", home).env("HOME", user);
        bin = bin.env("LANG", "C.UTF-8").env("TZ", "UTC");
        if let Some(path) = std::env::var_os("PATH") {
            bin = bin.env("PATH", path);
        }
        Ok(bin)
    }

    /// Sets a variable of its environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// It asks this server, with a key that is none.
    #[must_use]
    pub fn model_at(self, base_url: &str) -> Self {
        self.env("DEEPSEEK_BASE_URL", base_url).env("DEEPSEEK_API_KEY", "test-key-of-no-one")
    }

    /// How long a run may take.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// `REINS_HOME`.
    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    /// The directory it runs in.
    pub fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// Writes a file of the project, with the folders above it.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> Result<(), BinError> {
        let path = self.project().join(path);
        let folder = path.parent().unwrap_or(&path);
        std::fs::create_dir_all(folder).map_err(os(path.display()))?;
        let mut file = File::create(&path).map_err(os(path.display()))?;
        io::Write::write_all(&mut file, content.as_ref()).map_err(os(path.display()))
    }

    /// The logs of all sessions in the home, oldest session first.
    ///
    /// # Errors
    /// A folder cannot be read; a home without sessions has no logs.
    pub fn logs(&self) -> Result<Vec<PathBuf>, BinError> {
        let sessions = self.home().join("sessions");
        let entries = match std::fs::read_dir(&sessions) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(os(sessions.display()))?,
        };
        let mut logs = Vec::new();
        for entry in entries {
            let session = entry.map_err(os(sessions.display()))?;
            // Folders with a dot are sessions in the making, which get their names later.
            let made = !session.file_name().as_encoded_bytes().starts_with(b".");
            let log = session.path().join("00000000.log");
            if made && log.is_file() {
                logs.push(log);
            }
        }
        // Session ids begin with the time.
        logs.sort();
        Ok(logs)
    }

    /// Runs it to its end, with nothing to read.
    ///
    /// # Errors
    /// It cannot be started, or takes too long.
    pub async fn run<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
    ) -> Result<Finished, BinError> {
        self.spawn(args, None).await?.finish().await
    }

    /// Runs it to its end, with this to read.
    ///
    /// # Errors
    /// It cannot be started, or takes too long.
    pub async fn run_with_input<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: &[u8],
    ) -> Result<Finished, BinError> {
        self.spawn(args, Some(input)).await?.finish().await
    }

    /// Starts it. What it reads is written at once, so it should fit into a pipe (64 KiB) unless it
    /// is read at once.
    ///
    /// # Errors
    /// It cannot be started.
    pub async fn spawn<A: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = A>,
        input: Option<&[u8]>,
    ) -> Result<Running, BinError> {
        let args: Vec<OsString> = args.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        let command =
            format!("{} {}", self.program.display(), args.join(OsStr::new(" ")).display());
        // Files, so that what was printed before a kill is there, and no reader is needed.
        let output = TempDir::new_in(self.root.path()).map_err(os("a folder for the output"))?;
        let open = |name| File::create(output.path().join(name)).map_err(os(name));
        let mut child = Command::new(&self.program)
            .args(&args)
            .env_clear()
            .envs(self.env.iter().cloned())
            .current_dir(self.project())
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(open("stdout")?)
            .stderr(open("stderr")?)
            .kill_on_drop(true)
            .spawn()
            .map_err(os(&command))?;
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), input) {
            match stdin.write_all(input).await {
                // It need not read.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                written => written.map_err(os("its input"))?,
            }
        }
        Ok(Running { child, command, output, limit: self.limit })
    }
}

/// A run that goes on. Dropping it kills it.
pub struct Running {
    child: Child,
    command: String,
    output: TempDir,
    limit: Duration,
}

impl Running {
    /// Its process id; absent when it has ended.
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// What it has printed so far.
    pub fn stdout(&self) -> String {
        self.printed("stdout")
    }

    /// What it has said so far.
    pub fn stderr(&self) -> String {
        self.printed("stderr")
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It takes too long and is killed.
    pub async fn finish(mut self) -> Result<Finished, BinError> {
        match tokio::time::timeout(self.limit, self.child.wait()).await {
            Ok(end) => {
                let end = end.map_err(os(&self.command))?;
                Ok(self.finished(end))
            }
            Err(_) => {
                self.child.kill().await.map_err(os(&self.command))?;
                Err(self.overrun())
            }
        }
    }

    /// Kills it with SIGKILL when `event` comes, and waits for its end.
    ///
    /// # Errors
    /// It ends before the event, or the event does not come in time.
    pub async fn kill9_after(mut self, event: impl Future) -> Result<Finished, BinError> {
        let early = tokio::select! {
            biased;
            _ = event => None,
            end = self.child.wait() => Some(end.map_err(os(&self.command))?),
            () = tokio::time::sleep(self.limit) => {
                self.child.kill().await.map_err(os(&self.command))?;
                return Err(self.overrun());
            }
        };
        if let Some(end) = early {
            let stderr = self.stderr();
            return Err(BinError::EndedEarly { command: self.command, end, stderr });
        }
        self.child.start_kill().map_err(os(&self.command))?;
        let end = self.child.wait().await.map_err(os(&self.command))?;
        Ok(self.finished(end))
    }

    fn finished(&self, end: ExitStatus) -> Finished {
        Finished {
            code: end.code(),
            signal: end.signal(),
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }

    fn overrun(&self) -> BinError {
        BinError::Overrun {
            command: self.command.clone(),
            limit: self.limit,
            stdout: self.stdout(),
            stderr: self.stderr(),
        }
    }

    fn printed(&self, name: &str) -> String {
        let bytes = std::fs::read(self.output.path().join(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Bin {
    /// Waits until any session's log has a line that contains `part`, for example
    /// `"type":"tool/start"`, at least so many times. Does not end when that never happens.
    ///
    /// # Errors
    /// A log cannot be read.
    pub async fn until_log(&self, part: &str, times: usize) -> Result<(), BinError> {
        loop {
            let mut found = 0;
            for log in self.logs()? {
                found += count_lines(&log, part).map_err(os(log.display()))?;
            }
            if found >= times {
                return Ok(());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

fn count_lines(log: &Path, part: &str) -> io::Result<usize> {
    let bytes = std::fs::read(log)?;
    let text = String::from_utf8_lossy(&bytes);
    // The last line counts only when it is whole.
    Ok(text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n') && line.contains(part))
        .count())
}

fn os(what: impl std::fmt::Display) -> impl FnOnce(io::Error) -> BinError {
    let what = what.to_string();
    move |source| BinError::Os { what, source }
}
