//! The sandbox host as the harness sees it, with real processes.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests stop at what they did not expect"
)]

mod endings;
mod running;
mod support;
mod tree;
