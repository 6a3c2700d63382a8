//! Panics of plugins stop at the spine's border.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

/// Runs foreign code; a panic becomes its words.
pub(crate) async fn contain<T>(work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| {
        panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
            .unwrap_or_else(|| "no words".to_owned())
    })
}
