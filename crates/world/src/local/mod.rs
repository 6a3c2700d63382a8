//! Providers for the machine the harness runs on.

mod fs;

pub use fs::LocalFs;
