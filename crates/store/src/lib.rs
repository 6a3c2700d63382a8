//! Durable sessions: one writer each, many readers.
//!
//! [`Store`] is the service, [`JsonlStore`] the store that keeps them as folders of JSON lines,
//! [`SqliteStore`] the one of rows in one database, [`MemoryStore`] the one that keeps nothing,
//! [`Log`] the write end of one open session and [`Subscription`] its live read end. Behind every
//! store is [`Sessions`], which knows what a session is, over a medium, which knows where its bytes
//! are.

mod config;
mod error;
mod export;
mod index;
mod jsonl;
mod log;
mod medium;
mod plugin;
mod reading;
mod service;
mod sessions;
mod sqlite;
mod stores;
mod zst;

pub use config::{MemoryConfig, SqliteConfig, StoreConfig};
pub use error::StoreError;
pub use jsonl::{Disk, RealDisk, check_home};
pub use log::{Log, Subscription};
pub use plugin::PLUGINS;
pub use service::{
    Damage, DamageKind, ExportOrder, Exported, ImportOrder, Imported, Inspected, LeaseInfo,
    ListFilter, Listing, OpenSession, Prepared, Progress, Repaired, SessionState, SessionSummary,
    Store, Verified, check_id,
};
pub use sessions::Sessions;
pub use stores::{JsonlStore, MemoryStore, SqliteStore};
