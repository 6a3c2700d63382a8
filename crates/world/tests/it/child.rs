//! Parts of tests that need a process of their own: the test binary runs itself.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROLE: &str = "REINS_WORLD_TEST_ROLE";
const PLACE: &str = "REINS_WORLD_TEST_PLACE";

/// The user and group `nobody`.
pub(crate) const NOBODY: u32 = 65534;

#[expect(clippy::disallowed_methods, reason = "the test needs a second process to kill or demote")]
pub(crate) fn this_binary(role: &str, place: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child::entry", "--nocapture"]);
    command.env(ROLE, role).env(PLACE, place).stdin(Stdio::null());
    command
}

/// Runs a role as an ordinary user, also when the tests run as root.
pub(crate) fn as_ordinary_user(role: &str, place: &Path) {
    let mut command = this_binary(role, place);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
}

/// Does nothing when it runs as a test of its own.
#[test]
fn entry() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    let place = PathBuf::from(std::env::var_os(PLACE).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    match role.as_os_str() {
        role if role == OsStr::new("replace for ever") => {
            runtime.block_on(crate::fs_replace::for_ever(&place));
        }
        role if role == OsStr::new("without permission") => {
            runtime.block_on(crate::fs_replace::without_permission(&place));
        }
        role => panic!("no role {}", role.display()),
    }
}
