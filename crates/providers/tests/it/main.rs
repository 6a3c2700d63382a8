//! The crate from outside: providers over a scripted end point.

#![expect(clippy::unwrap_used, reason = "helpers of tests stand outside test functions")]

mod provider;
mod rows;
mod send;
mod surface;
mod world;
