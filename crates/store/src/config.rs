//! What a user may tune.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// What the row of a store may say: what is its own, then what all stores have.
macro_rules! store_config {
    (
        $(#[$about:meta])*
        $name:ident { $($(#[$meta:meta])* $field:ident: $kind:ty,)* }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$meta])* pub $field: $kind,)*
            /// Events reach the disk at the latest after this many milliseconds, counted from the
            /// first one that waits. Before a request, a tool and the end of a turn they do so at
            /// once.
            #[serde(default = "write_within_ms")]
            #[schemars(range(max = 60_000))]
            pub write_within_ms: u64,
            /// How many events may wait to be written before the agent waits for the disk.
            #[serde(default = "queue_events")]
            #[schemars(range(min = 1))]
            pub queue_events: usize,
            /// How many bytes of events may wait to be written before the agent waits for the
            /// disk.
            #[serde(default = "queue_bytes")]
            #[schemars(range(min = 1))]
            pub queue_bytes: usize,
            /// How many committed events stay in memory for clients that watch; older ones are
            /// read from the disk.
            #[serde(default = "recent_events")]
            pub recent_events: usize,
            /// How many bytes of committed events stay in memory for clients that watch.
            #[serde(default = "recent_bytes")]
            pub recent_bytes: usize,
            /// The largest blob that is kept, in bytes. Nothing makes blobs yet.
            #[serde(default = "blob_bytes_max")]
            pub blob_bytes_max: usize,
            /// A log is kept in segments: one that has reached this many bytes is compressed, and
            /// the next one is begun.
            #[serde(default = "segment_bytes")]
            #[schemars(range(min = 65_536))]
            pub segment_bytes: u64,
            /// After how many events a snapshot pays, from which the session is opened without
            /// reading all of its log; 0 = never.
            #[serde(default = "snapshot_events")]
            pub snapshot_events: u64,
            /// The largest file of exported sessions that is taken over, and how much it may
            /// unpack to, in bytes.
            #[serde(default = "import_bytes_max")]
            pub import_bytes_max: u64,
        }
    };
}

store_config! {
    /// Where sessions live and how much may wait in memory.
    StoreConfig {
        /// The folder that holds `sessions/`; an absolute path. Made when the first session is.
        home: PathBuf,
    }
}

store_config! {
    /// Where the database of sessions lives and how much may wait in memory.
    SqliteConfig {
        /// The folder that holds the database; an absolute path. Made when the first session is.
        home: PathBuf,
        /// The name of the database in the home.
        #[serde(default = "file")]
        file: String,
        /// How long a write waits, in milliseconds, while other processes write.
        #[serde(default = "busy_ms")]
        #[schemars(range(max = 600_000))]
        busy_ms: u64,
    }
}

store_config! {
    /// How much of sessions that are not kept may wait in memory.
    MemoryConfig {}
}

/// What all stores have.
macro_rules! shared {
    ($config:ident, $home:expr) => {
        StoreConfig {
            home: $home,
            write_within_ms: $config.write_within_ms,
            queue_events: $config.queue_events,
            queue_bytes: $config.queue_bytes,
            recent_events: $config.recent_events,
            recent_bytes: $config.recent_bytes,
            blob_bytes_max: $config.blob_bytes_max,
            segment_bytes: $config.segment_bytes,
            snapshot_events: $config.snapshot_events,
            import_bytes_max: $config.import_bytes_max,
        }
    };
}

impl From<&SqliteConfig> for StoreConfig {
    fn from(config: &SqliteConfig) -> Self {
        shared!(config, config.home.clone())
    }
}

impl From<&MemoryConfig> for StoreConfig {
    /// The home is never touched.
    fn from(config: &MemoryConfig) -> Self {
        shared!(config, PathBuf::from("/"))
    }
}

impl StoreConfig {
    /// The defaults for a home.
    pub fn new(home: impl Into<PathBuf>) -> Self {
        Self {
            home: home.into(),
            write_within_ms: write_within_ms(),
            queue_events: queue_events(),
            queue_bytes: queue_bytes(),
            recent_events: recent_events(),
            recent_bytes: recent_bytes(),
            blob_bytes_max: blob_bytes_max(),
            segment_bytes: segment_bytes(),
            snapshot_events: snapshot_events(),
            import_bytes_max: import_bytes_max(),
        }
    }
}

fn write_within_ms() -> u64 {
    200
}

fn queue_events() -> usize {
    4096
}

fn queue_bytes() -> usize {
    8 << 20
}

fn recent_events() -> usize {
    1024
}

fn recent_bytes() -> usize {
    1 << 20
}

fn blob_bytes_max() -> usize {
    64 << 20
}

fn segment_bytes() -> u64 {
    8 << 20
}

fn snapshot_events() -> u64 {
    2000
}

fn import_bytes_max() -> u64 {
    16 << 30
}

pub(crate) fn file() -> String {
    "sessions.sqlite".to_owned()
}

pub(crate) fn busy_ms() -> u64 {
    10_000
}
