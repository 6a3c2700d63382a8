//! The local providers against the real machine.
#![expect(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod child;
mod files;
mod fs_ignores;
mod fs_read;
mod fs_replace;
mod fs_walks;
mod http;
mod plugins;
mod process;
