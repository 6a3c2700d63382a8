//! From reaper to running program: one child that shares the reaper's memory until it executes, so
//! that nothing is copied and a failure needs no pipe to be told.
#![expect(unsafe_code, reason = "clone and execve have no safe interface")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, chdir, getpid, getppid, setpgid, waitpid};
use rustix::stdio::{dup2_stderr, dup2_stdout};

use super::encoding::Decoded;
use super::syscall;
use crate::SpawnStage;

/// Why no program runs.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) stage: SpawnStage,
    pub(crate) errno: Errno,
    pub(crate) what: String,
}

impl Failure {
    pub(crate) fn process(errno: Errno, what: &str) -> Failure {
        Failure { stage: SpawnStage::Process, errno, what: what.to_owned() }
    }
}

/// Everything the child needs, made beforehand: it may not allocate.
struct Plan<'a> {
    parent: Pid,
    cwd: &'a CStr,
    candidates: &'a [CString],
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    stdout: BorrowedFd<'a>,
    stderr: BorrowedFd<'a>,
    mask: libc::sigset_t,
    /// Written by the child when it cannot execute, read by the parent afterwards.
    stopped_at: Option<(Step, Errno)>,
}

#[derive(Clone, Copy)]
enum Step {
    Setup(&'static str),
    Directory,
    /// The candidate with this index.
    Execute(usize),
}

/// Bytes for the child's few frames.
const STACK_BYTES: usize = 64 << 10;

/// Starts the command's main process in a process group of its own and waits until it has executed
/// the program. The caller must be a single-threaded process with all signals blocked.
pub(crate) fn launch(
    command: &Decoded<'_>,
    stdout: BorrowedFd<'_>,
    stderr: BorrowedFd<'_>,
) -> Result<Pid, Failure> {
    let candidates = command.candidates();
    let mut plan = Plan {
        parent: getpid(),
        cwd: command.cwd,
        candidates: &candidates,
        argv: pointers(&command.argv),
        envp: pointers(&command.env),
        stdout,
        stderr,
        mask: syscall::no_signals(),
        stopped_at: None,
    };
    let mut stack = Vec::<u128>::with_capacity(STACK_BYTES / size_of::<u128>());
    let top = stack.as_mut_ptr().wrapping_add(stack.capacity());
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: `top` is the 16-byte aligned end of a stack that outlives the call; CLONE_VFORK keeps
    // this process (its only thread) stopped until the child has left the shared memory by execve
    // or exit, so `plan` and `stack` are the child's alone meanwhile.
    let pid = unsafe { libc::clone(child, top.cast(), flags, (&raw mut plan).cast::<c_void>()) };
    let Some(pid) = Pid::from_raw(pid).filter(|_| pid > 0) else {
        return Err(Failure::process(syscall::last_errno(), "clone"));
    };
    drop(stack);
    let Some((step, errno)) = plan.stopped_at else { return Ok(pid) };
    // The child has ended by itself; collected here it is not mistaken for the command's exit.
    while matches!(waitpid(Some(pid), WaitOptions::empty()), Err(Errno::INTR)) {}
    Err(explain(command, &candidates, step, errno))
}

fn pointers(strings: &[&CStr]) -> Vec<*const c_char> {
    strings.iter().map(|string| string.as_ptr()).chain([ptr::null()]).collect()
}

/// The child: returns only when it could not execute.
extern "C" fn child(plan: *mut c_void) -> c_int {
    // SAFETY: `launch` passes its `Plan`, which lives and is touched by nobody else until this
    // process has left the shared memory.
    let plan = unsafe { &mut *plan.cast::<Plan<'_>>() };
    plan.stopped_at = match prepare(plan) {
        Err(stopped) => Some(stopped),
        Ok(()) => Some(execute(plan)),
    };
    127
}

fn prepare(plan: &Plan<'_>) -> Result<(), (Step, Errno)> {
    let at = |call| move |errno| (Step::Setup(call), errno);
    setpgid(None, None).map_err(at("setpgid"))?;
    // The reaper has one thread, so this means the death of the reaper, not of a thread.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(at("prctl"))?;
    if getppid() != Some(plan.parent) {
        return Err((Step::Setup("getppid"), Errno::SRCH));
    }
    chdir(plan.cwd).map_err(|errno| (Step::Directory, errno))?;
    // Descriptor 0 is the host's /dev/null. The passed ones are above 2, as 0-2 are always open.
    dup2_stdout(plan.stdout).map_err(at("dup2"))?;
    dup2_stderr(plan.stderr).map_err(at("dup2"))?;
    syscall::close_from(3).map_err(at("close_range"))?;
    syscall::set_signal_mask(&plan.mask).map_err(at("sigprocmask"))
}

/// Tries the candidates as a shell would: the first that runs; a refused one is remembered.
fn execute(plan: &Plan<'_>) -> (Step, Errno) {
    let mut stopped = (Step::Execute(0), Errno::NOENT);
    for (index, candidate) in plan.candidates.iter().enumerate() {
        // SAFETY: the path and every pointer of both null-ended arrays are NUL-terminated strings
        // that live in the plan.
        unsafe { libc::execve(candidate.as_ptr(), plan.argv.as_ptr(), plan.envp.as_ptr()) };
        match syscall::last_errno() {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => stopped = (Step::Execute(index), Errno::ACCESS),
            errno => return (Step::Execute(index), errno),
        }
    }
    stopped
}

fn explain(command: &Decoded<'_>, candidates: &[CString], step: Step, errno: Errno) -> Failure {
    let index = match step {
        Step::Setup(call) => return Failure::process(errno, call),
        Step::Directory => {
            let what = command.cwd.to_string_lossy().into_owned();
            return Failure { stage: SpawnStage::Directory, errno, what };
        }
        Step::Execute(index) => index,
    };
    let name = command.argv.first().map_or(c"", |name| name);
    let tried = match candidates.get(index) {
        Some(path) if candidates.len() == 1 || errno != Errno::NOENT => path.as_c_str(),
        _ => name,
    };
    // The kernel says "no such file" too when the file is there but its interpreter is not.
    let exists = |path: &CStr| {
        let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        path.is_absolute() && fs::metadata(path).is_ok()
    };
    let interpreter = errno == Errno::NOENT && candidates.iter().any(|path| exists(path));
    let stage = if interpreter { SpawnStage::Interpreter } else { SpawnStage::Program };
    Failure { stage, errno, what: tried.to_string_lossy().into_owned() }
}
