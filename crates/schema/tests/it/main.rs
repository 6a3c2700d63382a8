//! What is written can be read back, and what is not known survives.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

mod lines;
mod messages;
mod usage;
