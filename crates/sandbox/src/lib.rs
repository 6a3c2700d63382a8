//! Supervised processes: every command the harness starts runs under a small helper process, the
//! *sandbox host*, and ends with the harness, however the harness ends.
//!
//! [`run_if_host_role`] is the first call in `main`: it turns the process into the host when it was
//! started as one. [`HostClient`] starts a host and talks to it. Nothing here needs an async
//! runtime: the client is a non-blocking descriptor ([`std::os::fd::AsFd`]) with
//! [`HostClient::try_recv`].
//!
//! Contract of one command `id`: first `Started` or `SpawnFailed`; then one `Exited` as soon as the
//! main process ends, though descendants may live on and hold the output open; last `Gone`, when no
//! descendant is left. `SpawnFailed` and `Gone` are final. A supervisor killed by force can
//! leave out all but `Gone`. When the client says `Gone` as an error, no command is left at all.

mod error;
mod report;
mod spec;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod unsupported;

pub use error::SandboxError;
#[cfg(target_os = "linux")]
pub use linux::{HostClient, run_if_host_role};
pub use report::{Report, SpawnStage};
pub use spec::{CommandSpec, MAX_SPEC_BYTES};
#[cfg(not(target_os = "linux"))]
pub use unsupported::{HostClient, run_if_host_role};

/// `argv[1]` of a process that is to run as the sandbox host; its stdin is the control socket.
pub const HOST_ROLE: &str = "__sandbox-host";
