//! Providers for the machine the harness runs on.

mod clock;
mod fs;
mod http;
mod process;

pub use clock::LocalClock;
pub(crate) use fs::DEFAULT_CONCURRENT;
pub use fs::LocalFs;
pub use http::LocalHttp;
pub use process::LocalProcess;
