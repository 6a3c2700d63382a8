//! Panics of plugins stop at the spine's border.

use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_util::FutureExt;
use reins_kernel::panic_text;

/// Runs foreign code; a panic becomes its words.
pub(crate) async fn contain<T>(work: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| panic_text(panic.as_ref()))
}

/// As [`contain`], for code that waits for nothing.
pub(crate) fn contain_now<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_text(panic.as_ref()))
}
