//! Whole turns through the real loop, log, HTTP path and strict scripted server, with small tools
//! and layers of the tests' own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at a surprise")]

mod cancel;
mod chains;
mod closing;
mod ends;
mod house;
mod making;
mod moving;
mod permissions;
mod presets;
mod reload;
mod rig;
