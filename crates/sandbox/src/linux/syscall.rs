//! The few system calls that have no safe wrapper, each behind a function that is safe in the
//! single-threaded host.
#![expect(unsafe_code, reason = "fork, signal masks and signalfd have no safe interface")]

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use rustix::io::Errno;
use rustix::process::Pid;

/// Why the last call through the C library failed.
pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// Whether this process has one thread, which [`fork`] relies on.
pub(crate) fn is_single_threaded() -> io::Result<bool> {
    Ok(fs::read_dir("/proc/self/task")?.take(2).count() == 1)
}

/// Every signal, for blocking.
pub(crate) fn all_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` is writable memory of the right type; the call cannot fail.
    unsafe { libc::sigfillset(set.as_mut_ptr()) };
    // SAFETY: sigfillset has initialised it.
    unsafe { set.assume_init() }
}

/// No signal at all.
pub(crate) fn no_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `set` is writable memory of the right type; the call cannot fail.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: sigemptyset has initialised it.
    unsafe { set.assume_init() }
}

/// Replaces the mask of blocked signals.
pub(crate) fn set_signal_mask(set: &libc::sigset_t) -> Result<(), Errno> {
    // SAFETY: `set` is a valid set; no old mask is asked for.
    match unsafe { libc::sigprocmask(libc::SIG_SETMASK, set, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// Gives every signal its default disposition, undoing what was inherited (`nohup`) and what the
/// language's start-up did (`SIGPIPE`).
pub(crate) fn reset_signal_dispositions() {
    // The kernel's structure, all zero: SIG_DFL, no flags, empty mask. The C library's function
    // would leave out the two signals it keeps for itself.
    let default = [0u64; 4];
    let mask_bytes = size_of::<u64>();
    for signal in 1..=64 {
        let (new, old) = (default.as_ptr(), ptr::null_mut::<u64>());
        // SAFETY: `new` is at least as large as the kernel's structure and installs no code. KILL
        // and STOP answer EINVAL and are as wanted already.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, new, old, mask_bytes) };
    }
}

/// A non-blocking descriptor that is readable when a child has ended. All signals must be blocked.
pub(crate) fn child_signals() -> Result<OwnedFd, Errno> {
    let mut set = no_signals();
    // SAFETY: `set` is an initialised set and SIGCHLD a signal of this system.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    // SAFETY: -1 asks for a new descriptor; `set` is valid.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if fd < 0 {
        return Err(last_errno());
    }
    // SAFETY: the call has just made this descriptor and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Closes every descriptor from `first` on, also those this program never opened.
pub(crate) fn close_from(first: u32) -> Result<(), Errno> {
    let last = libc::c_uint::MAX;
    // SAFETY: plain numbers. The callers use no descriptor from `first` on afterwards.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// Forks; the child runs `body` on a copy of this process and ends with its result.
pub(crate) fn fork(body: impl FnOnce() -> i32) -> Result<Pid, Errno> {
    // SAFETY: the process has one thread (checked when the host starts; it makes none), so the
    // child's copy of every lock and of the allocator is consistent.
    let pid = unsafe { libc::fork() };
    if pid != 0 {
        return Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(last_errno);
    }
    // A panic must not unwind into the parent's frames, of which this process has a copy.
    let status = catch_unwind(AssertUnwindSafe(body)).unwrap_or(101);
    // SAFETY: ends this process without running the parent's exit handlers.
    unsafe { libc::_exit(status) }
}

/// Empties a descriptor of [`child_signals`]; one SIGCHLD stands for any number of ended children.
pub(crate) fn drain(signals: &OwnedFd) {
    let mut record = [0; size_of::<libc::signalfd_siginfo>()];
    while matches!(rustix::io::read(signals, &mut record), Ok(_) | Err(Errno::INTR)) {}
}
