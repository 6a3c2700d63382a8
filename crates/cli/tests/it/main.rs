//! Whole runs of the binary against the strict scripted server.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests may stop at the first surprise")]

mod bad_input;
mod crash;
mod demo;
mod faults;
mod rows;
mod steps;
