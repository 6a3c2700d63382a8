//! Files that change while a host runs on them, with the layers of the command line.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at a surprise")]

mod barriers;
mod changes;
mod looks;
mod presets;
mod providers;
mod rig;
mod turns;
