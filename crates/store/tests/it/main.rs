//! The store on a real file system.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod barrier;
mod blobs;
mod conformance;
mod crash;
mod damage;
mod faults;
mod forks;
mod lease;
mod list;
mod model;
mod places;
mod rows;
mod segments;
mod setup;
mod space;
mod sqlite;
mod subscribe;
mod syscalls;
mod upkeep;
