//! The store on a real file system.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod barrier;
mod blobs;
mod conformance;
mod crash;
mod damage;
mod export;
mod faults;
mod forks;
mod index;
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
