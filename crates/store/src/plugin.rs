//! The row of the default store.

use std::sync::Arc;

use reins_kernel::{Mount, MountError, Plugin, PluginDef, ServiceKey};

use crate::{JsonlStore, Store, StoreConfig, sqlite};

/// The stores; a composition has one of them.
pub const PLUGINS: &[PluginDef] =
    &[PluginDef::of::<StoreJsonl>(), sqlite::STORE_SQLITE, sqlite::STORE_MEMORY];

/// The longest configurable wait of an event for the disk.
const WRITE_WITHIN_MS_MAX: u64 = 60_000;

/// The smallest configurable segment: below it files would be more than their content.
const SEGMENT_BYTES_MIN: u64 = 64 << 10;

struct StoreJsonl;

impl Plugin for StoreJsonl {
    const NAME: &'static str = "store-jsonl";
    const SUMMARY: &'static str = "Keeps sessions as folders with a log of JSON lines.";
    type Config = StoreConfig;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Store>("store")]
    }

    fn mount(config: StoreConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        check(&config)?;
        let store: Arc<dyn Store> = Arc::new(JsonlStore::new(config));
        mount.provide(store)
    }
}

/// What must be so for every store with a home.
pub(crate) fn check(config: &StoreConfig) -> Result<(), MountError> {
    let home = &config.home;
    if !home.is_absolute() {
        let problem = format!("`{}` is not an absolute path", home.display());
        return Err(MountError::new(problem).at("home"));
    }
    check_limits(config)
}

/// What must be so for every store.
pub(crate) fn check_limits(config: &StoreConfig) -> Result<(), MountError> {
    if config.write_within_ms > WRITE_WITHIN_MS_MAX {
        let problem = format!("more than {WRITE_WITHIN_MS_MAX} ms may lose too much");
        return Err(MountError::new(problem).at("write_within_ms"));
    }
    for (field, value) in
        [("queue_events", config.queue_events), ("queue_bytes", config.queue_bytes)]
    {
        if value == 0 {
            return Err(MountError::new("nothing could be written; use 1 or more").at(field));
        }
    }
    if config.segment_bytes < SEGMENT_BYTES_MIN {
        let problem = format!("less than {SEGMENT_BYTES_MIN} makes too many segments");
        return Err(MountError::new(problem).at("segment_bytes"));
    }
    Ok(())
}
