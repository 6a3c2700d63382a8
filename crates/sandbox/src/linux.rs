//! Supervision on Linux: client, host, reaper, and what they share.

mod client;
mod encoding;
mod host;
mod launch;
mod reaper;
mod syscall;
mod tree;
mod wire;

pub use client::HostClient;
pub use host::run_if_host_role;
