//! The machine as traits, with local providers.

mod clock;
mod env;
mod fs;
mod http;
mod local;
mod plugins;
mod process;

pub use clock::Clock;
pub use env::Env;
pub use fs::{
    ContentHash, Expect, FileBytes, FileKind, Fs, FsError, GlobHits, GlobQuery, Incomplete, Line,
    LineWindow, Lines, Place, Replaced, SearchHit, SearchHits, SearchQuery,
};
pub use http::{Http, HttpError, HttpRequest, HttpResponse};
pub use local::{LocalClock, LocalFs, LocalHttp, LocalProcess};
pub use plugins::PLUGINS;
pub use process::{CancelToken, Captured, CommandEnd, CommandSpec, Process, ProcessError};
