//! Time as a service.

use std::time::Duration;

use reins_kernel::BoxFuture;

/// The machine's clocks. Called from any task.
pub trait Clock: Send + Sync {
    /// Wall clock, Unix milliseconds; may step back.
    fn now_ms(&self) -> i64;

    /// Monotonic milliseconds since an arbitrary start.
    fn monotonic_ms(&self) -> u64;

    /// Ends after `duration` of monotonic time.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}
