//! Compresses segments that are not written to any more, on a thread that runs while there are any.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use reins_schema::SessionId;

use crate::medium::{Held, Sealer};

/// Segments that wait, and the thread. Dropping it waits until all are done.
#[derive(Debug, Default)]
pub(super) struct Sealing {
    shared: Arc<Mutex<Waiting>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Waiting {
    segments: BTreeSet<u32>,
    is_running: bool,
}

impl Sealing {
    /// Seals these too. What could not be sealed before is tried again.
    pub(super) fn add(&mut self, segments: impl IntoIterator<Item = u32>, held: &dyn Held) {
        let mut waiting = lock(&self.shared);
        waiting.segments.extend(segments);
        if waiting.is_running || waiting.segments.is_empty() {
            return;
        }
        waiting.is_running = true;
        drop(waiting);
        // The one before has nothing left to do.
        self.join();
        let (sealer, session) = (held.sealer(), held.id().clone());
        let shared = Arc::clone(&self.shared);
        let started = std::thread::Builder::new()
            .name("reins-seal".to_owned())
            .spawn(move || run(&shared, sealer, &session));
        match started {
            Ok(thread) => self.thread = Some(thread),
            Err(error) => {
                lock(&self.shared).is_running = false;
                ::log::warn!("session {}: segments are not compressed: {error}", held.id());
            }
        }
    }

    fn join(&mut self) {
        // A panic there leaves segments as they were; the next open seals them.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Drop for Sealing {
    fn drop(&mut self) {
        self.join();
    }
}

fn run(shared: &Mutex<Waiting>, mut sealer: Box<dyn Sealer>, session: &SessionId) {
    let mut refused = Vec::new();
    loop {
        let number = {
            let mut waiting = lock(shared);
            let Some(number) = waiting.segments.pop_first() else {
                waiting.segments.extend(refused);
                waiting.is_running = false;
                return;
            };
            number
        };
        if let Err(error) = sealer.seal(number) {
            ::log::warn!("session {session}: segment {number} stays uncompressed for now: {error}");
            refused.push(number);
        }
    }
}

fn lock(shared: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
