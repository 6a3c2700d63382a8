//! The machine's clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use reins_kernel::BoxFuture;

use crate::clock::Clock;

/// The clocks of this machine.
pub struct LocalClock {
    start: Instant,
}

impl LocalClock {
    /// Monotonic time counts from here.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for LocalClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for LocalClock {
    fn now_ms(&self) -> i64 {
        #[expect(clippy::disallowed_methods, reason = "this is the clock that all others ask")]
        let now = SystemTime::now();
        let milliseconds = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
        match now.duration_since(UNIX_EPOCH) {
            Ok(since) => milliseconds(since),
            Err(before) => -milliseconds(before.duration()),
        }
    }

    fn monotonic_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        // Made when polled, so that the future can be built outside a runtime.
        Box::pin(async move { tokio::time::sleep(duration).await })
    }
}
