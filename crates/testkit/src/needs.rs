//! Tests that need a program which may be absent.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A skip cannot be counted.
#[derive(Debug, thiserror::Error)]
#[error("cannot note a skip in {path}: {source}")]
pub struct NeedsError {
    /// The file of skips.
    pub path: PathBuf,
    /// Of the operating system.
    pub source: std::io::Error,
}

/// Whether `program` is on the search path.
pub fn have(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Whether a test that needs `program` can run. If not, it says `SKIPPED (needs X)`, and adds the
/// line to the file that `REINS_TEST_SKIPS` names (else `skipped.txt` in the target folder). The
/// last tests of the workspace, those of `xtask`, say how many there were, and begin anew:
///
/// ```no_run
/// # fn main() -> Result<(), reins_testkit::NeedsError> {
/// if !reins_testkit::needs("git")? {
///     return Ok(());
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The file cannot be written.
///
/// # Panics
/// The program is absent and the environment says `CI=true`: there everything must run.
pub fn needs(program: &str) -> Result<bool, NeedsError> {
    needs_condition(program, have(program))
}

/// As [`needs`], for something that is no program: `needs_condition("a mount", can_mount)`.
///
/// # Errors
/// The file cannot be written.
///
/// # Panics
/// It is absent and the environment says `CI=true`.
pub fn needs_condition(what: &str, present: bool) -> Result<bool, NeedsError> {
    if present {
        return Ok(true);
    }
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!is_ci, "{test} needs {what}, which is absent; provide it where CI=true");
    let line = format!("SKIPPED (needs {what}) {test}");
    let path = skipped_file();
    note(&path, &line).map_err(|source| NeedsError { path, source })?;
    Ok(false)
}

fn note(path: &Path, line: &str) -> std::io::Result<()> {
    // Past the capture of passing tests' output: a skip that nobody sees is a silent one.
    std::io::stderr().write_all(format!("{line}\n").as_bytes())?;
    // One short write each, so that lines of parallel tests do not mix.
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

/// `<target>/skipped.txt` unless named; test binaries lie in `<target>/<profile>/deps`.
fn skipped_file() -> PathBuf {
    if let Some(path) = std::env::var_os("REINS_TEST_SKIPS") {
        return PathBuf::from(path);
    }
    let program = std::env::current_exe().unwrap_or_default();
    let target = program.ancestors().nth(3).filter(|path| !path.as_os_str().is_empty());
    target.map_or_else(std::env::temp_dir, Path::to_owned).join("skipped.txt")
}
