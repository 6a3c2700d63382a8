//! The same interface where supervision is not written yet: every start is refused.

use std::ffi::OsString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use crate::{CommandSpec, Report, SandboxError};

/// Never takes over: there is no host on this system.
pub fn run_if_host_role(_args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    None
}

/// A client that cannot be made on this system.
#[derive(Debug)]
pub struct HostClient {
    socket: OwnedFd,
}

impl HostClient {
    /// Always [`SandboxError::Unsupported`].
    ///
    /// # Errors
    /// Always.
    pub fn start() -> Result<HostClient, SandboxError> {
        Err(SandboxError::Unsupported)
    }

    /// Always [`SandboxError::Unsupported`].
    ///
    /// # Errors
    /// Always.
    pub fn start_program(_program: &Path) -> Result<HostClient, SandboxError> {
        Err(SandboxError::Unsupported)
    }

    /// Always [`SandboxError::Unsupported`].
    ///
    /// # Errors
    /// Always.
    pub fn spawn(
        &self,
        _id: u64,
        _command: &CommandSpec,
        _stdout: impl AsFd,
        _stderr: impl AsFd,
    ) -> Result<(), SandboxError> {
        Err(SandboxError::Unsupported)
    }

    /// Always [`SandboxError::Unsupported`].
    ///
    /// # Errors
    /// Always.
    pub fn kill(&self, _id: u64, _grace_ms: u32) -> Result<(), SandboxError> {
        Err(SandboxError::Unsupported)
    }

    /// Always [`SandboxError::Unsupported`].
    ///
    /// # Errors
    /// Always.
    pub fn try_recv(&self) -> Result<Option<Report>, SandboxError> {
        Err(SandboxError::Unsupported)
    }

    /// Always [`SandboxError::Unsupported`].
    ///
    /// # Errors
    /// Always.
    pub fn recv(&self, _timeout: Duration) -> Result<Option<Report>, SandboxError> {
        Err(SandboxError::Unsupported)
    }

    /// Always [`SandboxError::Unsupported`].
    ///
    /// # Errors
    /// Always.
    pub fn close(self) -> Result<(), SandboxError> {
        Err(SandboxError::Unsupported)
    }

    /// No process: 0.
    pub fn pid(&self) -> u32 {
        0
    }
}

impl AsFd for HostClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsRawFd for HostClient {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}
