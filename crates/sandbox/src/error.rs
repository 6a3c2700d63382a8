//! What can go wrong between the harness and its sandbox host.

use std::io;
use std::path::PathBuf;

/// An error of the sandbox host as a whole; a command that cannot start is a report instead
/// ([`crate::Report::SpawnFailed`]).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// Supervision is written for Linux only.
    #[error("supervised processes need Linux 5.9 or newer; this system has no support yet")]
    Unsupported,
    /// The host program could not be executed.
    #[error("cannot start the sandbox host {}: {source}", program.display())]
    Start {
        /// The executable that was tried.
        program: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// The program ran but did not become a host.
    #[error("{} did not become a sandbox host: {detail}", program.display())]
    NoHost {
        /// The executable that was started.
        program: PathBuf,
        /// What it said or how it ended.
        detail: String,
    },
    /// The command's description cannot be passed to a process.
    #[error("command description: {0}")]
    Spec(String),
    /// The control socket's queue is full: wait until the descriptor is writable, then repeat.
    #[error("the sandbox host's queue is full; repeat when its socket is writable")]
    Full,
    /// The host and everything it ran are gone. Start a new one.
    #[error("the sandbox host has ended, and every process it ran with it; start a new host")]
    Gone,
    /// A message that this version does not know; host and harness must be one build.
    #[error("unreadable message from the sandbox host ({0}); restart the harness")]
    Protocol(String),
    /// A system call failed.
    #[error("{call}: {source}")]
    System {
        /// The system call.
        call: &'static str,
        /// What it answered.
        source: io::Error,
    },
}

impl SandboxError {
    #[cfg(target_os = "linux")]
    pub(crate) fn system(call: &'static str) -> impl FnOnce(rustix::io::Errno) -> SandboxError {
        move |errno| SandboxError::System { call, source: errno.into() }
    }
}
