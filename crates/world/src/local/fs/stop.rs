//! The wish to stop, looked at between pieces of work.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Set when nobody waits for the result any more.
#[derive(Clone, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

pub(super) struct SetOnDrop(Stop);

impl Stop {
    pub(super) fn set_on_drop(&self) -> SetOnDrop {
        SetOnDrop(self.clone())
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn check(&self) -> io::Result<()> {
        if self.is_set() {
            return Err(io::Error::other("stopped: the caller is gone"));
        }
        Ok(())
    }
}

impl Drop for SetOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

/// A [`Stop`] with an end in time.
pub(super) struct Deadline<'a> {
    stop: &'a Stop,
    end: Option<Instant>,
}

impl<'a> Deadline<'a> {
    pub(super) fn new(stop: &'a Stop, limit: Duration) -> Self {
        Self { stop, end: Instant::now().checked_add(limit) }
    }

    pub(super) fn passed(&self) -> bool {
        self.stop.is_set() || self.end.is_some_and(|end| Instant::now() >= end)
    }
}
