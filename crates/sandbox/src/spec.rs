//! A command as the harness describes it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Largest encoded command: arguments, environment and directory together, in bytes. The system's
/// own limits (128 KiB a string on Linux) are reported as `SpawnFailed` with `E2BIG`.
pub const MAX_SPEC_BYTES: usize = 2 << 20;

/// A program to run, fully given: nothing is inherited from the harness but its limits and umask.
/// Standard input is always at its end; there is no controlling terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// Program and arguments. A program without `/` is looked up in the absolute entries of the
    /// `PATH` in `env`; there is no shell in between.
    pub argv: Vec<OsString>,
    /// Absolute working directory.
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
}

impl CommandSpec {
    /// A command with an empty environment.
    pub fn new<A: Into<OsString>>(argv: impl IntoIterator<Item = A>, cwd: &Path) -> CommandSpec {
        CommandSpec {
            argv: argv.into_iter().map(Into::into).collect(),
            cwd: cwd.to_path_buf(),
            env: Vec::new(),
        }
    }
}
