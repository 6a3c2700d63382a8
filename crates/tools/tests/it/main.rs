//! The tools as the model meets them: arguments in, text out, on real files.
#![expect(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod bash;
mod bench;
mod edit;
mod offer;
mod read;
mod search;
mod write;
