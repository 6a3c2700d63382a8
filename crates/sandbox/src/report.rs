//! What the host tells the harness about its commands.

use std::fmt;

/// One report about the command `id` given to `HostClient::spawn`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// The program was executed.
    Started {
        /// The command.
        id: u64,
        /// Process id of its main process, which is also its process group.
        pid: u32,
    },
    /// The main process ended. Sent at once, whoever still holds the output open.
    Exited {
        /// The command.
        id: u64,
        /// Exit status 0-255, absent when a signal ended it.
        code: Option<i32>,
        /// Number of the signal that ended it.
        signal: Option<i32>,
        /// Descendants alive at that moment (zombies not counted).
        survivors: u32,
    },
    /// No process of the command can run any more; the last report of this id. Without an earlier
    /// `Exited` the supervising process was itself killed and the exit status is unknown; then
    /// `Started` may be missing too.
    Gone {
        /// The command.
        id: u64,
        /// Processes that SIGKILL did not end in time: another user's, or stuck in the kernel.
        left: u32,
    },
    /// The program never ran; the last report of this id.
    SpawnFailed {
        /// The command.
        id: u64,
        /// The step that failed.
        stage: SpawnStage,
        /// The system's error number (`errno`).
        errno: i32,
        /// The path or system call concerned, at most 4 KiB.
        what: String,
    },
}

impl Report {
    /// The command the report is about.
    pub fn id(&self) -> u64 {
        match self {
            Report::Started { id, .. }
            | Report::Exited { id, .. }
            | Report::Gone { id, .. }
            | Report::SpawnFailed { id, .. } => *id,
        }
    }

    /// Whether no further report of this id will come.
    pub fn is_last(&self) -> bool {
        matches!(self, Report::Gone { .. } | Report::SpawnFailed { .. })
    }
}

/// The step at which a command failed to start; shown in front of what failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SpawnStage {
    /// Entering the working directory.
    Directory,
    /// Finding or executing the program.
    Program,
    /// The program exists, but not the interpreter its first line or header names.
    Interpreter,
    /// Making the process: limits of the system, or of the host.
    Process,
}

impl fmt::Display for SpawnStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SpawnStage::Directory => "working directory",
            SpawnStage::Program => "program",
            SpawnStage::Interpreter => "interpreter of",
            SpawnStage::Process => "new process",
        })
    }
}
