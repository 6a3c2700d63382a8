//! Whole runs of the binary against the strict scripted server.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may stop at a surprise")]

mod answers;
mod bad_input;
mod barriers;
mod broken;
mod commands;
mod config;
mod contract;
mod copy;
mod crash;
mod damage;
mod debug;
mod demo;
mod explain;
mod faults;
mod presets;
mod reference;
mod reload;
mod rows;
mod session_format;
mod sessions;
mod steps;
mod terminal;
mod words;
