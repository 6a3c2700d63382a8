//! The writer: one thread per open log, because file writes block. It holds the lease.

use std::sync::Arc;

use super::file::ActiveFile;
use super::queue::Queue;
use crate::jsonl::Lease;

/// Writes batches until the log is closed, then lets go of the lease.
pub(super) fn run(queue: &Arc<Queue>, mut file: ActiveFile, lease: Lease) {
    let guard = EndGuard(queue);
    let mut lines = Vec::new();
    loop {
        let work = queue.next_work(&mut lines);
        let mut result = Ok(());
        if !lines.is_empty() {
            result = file.append(&lines);
        }
        if result.is_ok() && work.sync {
            result = file.sync();
        }
        let failed = result.is_err();
        queue.done(&work, result);
        // One huge batch must not be kept for the life of the session.
        if lines.capacity() > KEPT_BYTES {
            lines = Vec::new();
        }
        if failed {
            queue.wait_for_close();
        }
        if failed || work.last {
            break;
        }
    }
    drop(file);
    drop(lease);
    drop(guard);
}

const KEPT_BYTES: usize = 1 << 20;

/// Tells everyone who waits that the writer is gone, also when it panics.
struct EndGuard<'a>(&'a Arc<Queue>);

impl Drop for EndGuard<'_> {
    fn drop(&mut self) {
        self.0.closed();
    }
}
