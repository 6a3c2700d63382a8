//! What a user may tune.

use std::path::PathBuf;

/// Where sessions live and how much may wait in memory. All sizes in bytes, times in milliseconds.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The folder that holds `sessions/`. Made on the first create.
    pub home: PathBuf,
    /// Events reach the file at the latest after this time, counted from the first one that waits.
    pub write_within_ms: u64,
    /// How many events may wait for the writer before `append` waits.
    pub queue_events: usize,
    /// How many encoded bytes may wait for the writer before `append` waits.
    pub queue_bytes: usize,
    /// How many committed events stay in memory for live subscribers.
    pub recent_events: usize,
    /// How many encoded bytes of committed events stay in memory for live subscribers.
    pub recent_bytes: usize,
    /// The largest blob that is stored.
    pub blob_bytes_max: usize,
}

impl StoreConfig {
    /// The defaults for a home.
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            write_within_ms: 200,
            queue_events: 4096,
            queue_bytes: 8 << 20,
            recent_events: 1024,
            recent_bytes: 1 << 20,
            blob_bytes_max: 64 << 20,
        }
    }
}
