//! Tests of the kernel through its public face.
#![expect(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod broken;
mod chains;
mod dump;
mod fields;
mod generations;
mod head;
mod lives;
mod model;
mod mutated;
mod nested;
mod plugins;
mod registry;
mod reload;
mod rig;
mod rows;
mod scopes;
mod stopping;
mod watching;
mod written;
