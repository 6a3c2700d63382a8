//! Durable sessions: one folder each, one writer, many readers.
//!
//! [`Store`] is the service, [`JsonlStore`] the back end that keeps plain JSON lines, [`Log`] the
//! write end of one open session and [`Subscription`] its live read end.

mod config;
mod error;
#[cfg_attr(not(test), allow(dead_code, unused_imports, reason = "what the store moves to"))]
mod export;
#[cfg_attr(not(test), expect(dead_code, reason = "what the store is moving to"))]
mod index;
mod jsonl;
mod log;
#[expect(dead_code, reason = "what the back ends are moving to")]
mod medium;
mod plugin;
#[cfg_attr(not(test), expect(dead_code, unused_imports, reason = "what back ends move to"))]
mod reading;
mod service;
#[cfg_attr(not(test), expect(dead_code, reason = "what the sessions are moving to"))]
mod sqlite;
mod zst;

pub use config::StoreConfig;
pub use error::StoreError;
pub use jsonl::{Disk, JsonlStore, RealDisk, check_home};
pub use log::{Log, Subscription};
pub use plugin::PLUGIN;
pub use service::{
    Damage, DamageKind, ExportOrder, Exported, ImportOrder, Imported, Inspected, LeaseInfo,
    ListFilter, Listing, OpenSession, Progress, Repaired, SessionState, SessionSummary, Store,
    Verified, check_id,
};
