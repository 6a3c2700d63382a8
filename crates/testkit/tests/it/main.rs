//! The test tools, seen from outside: a raw HTTP client, a shell as the binary.

#![expect(clippy::unwrap_used, reason = "helpers of tests stop a test like the tests do")]

mod client;
mod faults;
mod run;
mod scripts;
mod strict;
mod transcripts;
