//! Lines that wait for the thread that writes them. Nobody who logs ever waits.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::files::Files;

/// Bytes that may wait.
const WAITING_BYTES: usize = 1 << 20;

/// Between those who log and the thread.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Something waits, or the end has come.
    filled: Condvar,
    /// The thread took or wrote something.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<String>,
    bytes: usize,
    /// Lines that found no place, since the last that did.
    dropped: u64,
    /// Lines that were ever put, and that the thread is done with.
    put: u64,
    done: u64,
    is_closed: bool,
    has_ended: bool,
    /// Lines that no file took, and why the last one was refused.
    lost: u64,
    problem: Option<String>,
}

impl Queue {
    /// Takes a line, or counts it as dropped.
    pub(super) fn put(&self, line: String) {
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        if state.bytes + line.len() > WAITING_BYTES {
            state.dropped += 1;
            return;
        }
        if state.dropped > 0 {
            let gap = format!("({} lines were dropped here: too many at once)\n", state.dropped);
            state.dropped = 0;
            state.push(gap);
        }
        state.push(line);
        drop(state);
        self.filled.notify_one();
    }

    /// Waits until everything that was put before is written, or the time is over.
    pub(super) fn flush(&self, at_most: Duration) {
        let until = self.lock().put;
        self.wait(at_most, |state| state.done >= until || state.has_ended);
    }

    /// Takes nothing more and waits until the thread is at its end; `false` when it does not come.
    pub(super) fn close(&self, at_most: Duration) -> bool {
        self.lock().is_closed = true;
        self.filled.notify_one();
        self.wait(at_most, |state| state.has_ended)
    }

    /// What could not be written.
    pub(super) fn lost(&self) -> Option<String> {
        let state = self.lock();
        let problem = state.problem.as_ref()?;
        let lines = crate::terminal::count(state.lost, "line");
        Some(format!("{lines} lost: {problem}"))
    }

    /// Writes until the queue is closed and empty.
    pub(super) fn write_to(&self, mut files: Files) {
        // Also when this panics, nobody waits for it.
        let _end = End(self);
        loop {
            let (batch, lines) = {
                let waits = |state: &mut State| state.lines.is_empty() && !state.is_closed;
                let state = self.filled.wait_while(self.lock(), waits);
                let mut state = state.unwrap_or_else(PoisonError::into_inner);
                state.batch()
            };
            if lines == 0 {
                return;
            }
            let written = files.append(batch.as_bytes());
            let mut state = self.lock();
            state.done += lines;
            if let Err(error) = written {
                state.lost += lines;
                state.problem = Some(error.to_string());
            }
            drop(state);
            self.emptied.notify_all();
        }
    }

    fn wait(&self, at_most: Duration, is_over: impl Fn(&State) -> bool) -> bool {
        let end = Instant::now() + at_most;
        let mut state = self.lock();
        while !is_over(&state) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.emptied.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn push(&mut self, line: String) {
        self.bytes += line.len();
        self.put += 1;
        self.lines.push_back(line);
    }

    /// What is written at once: lines in order, and how many.
    fn batch(&mut self) -> (String, u64) {
        let (mut batch, mut lines) = (String::new(), 0);
        if self.is_closed && self.dropped > 0 {
            let gap = format!("({} lines were dropped here: too many at once)\n", self.dropped);
            self.dropped = 0;
            self.push(gap);
        }
        while let Some(line) = self.lines.front() {
            if lines > 0 && batch.len() + line.len() > super::files::BATCH_BYTES {
                break;
            }
            self.bytes -= line.len();
            batch.push_str(line);
            lines += 1;
            self.lines.pop_front();
        }
        (batch, lines)
    }
}

struct End<'a>(&'a Queue);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.emptied.notify_all();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::debug::files::TOTAL_BYTES;

    /// All files together, and all text in them.
    fn content(folder: &std::path::Path) -> (u64, String) {
        let (mut bytes, mut text) = (0, String::new());
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            bytes += path.metadata().unwrap().len();
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
        (bytes, text)
    }

    #[test]
    fn a_million_lines_of_two_processes_stay_below_the_limit_and_none_is_lost_unsaid() {
        let folder = tempfile::TempDir::new().unwrap();
        let (queues, threads): (Vec<_>, Vec<_>) = (0..2)
            .map(|_| {
                let files = Files::open(folder.path()).unwrap();
                let queue = Arc::new(Queue::default());
                let writing = Arc::clone(&queue);
                (queue, std::thread::spawn(move || writing.write_to(files)))
            })
            .unzip();
        for number in 0..500_000 {
            for queue in &queues {
                queue.put(format!("{number:06} {}\n", "x".repeat(60)));
            }
            if number % 50_000 == 0 {
                assert!(content(folder.path()).0 <= TOTAL_BYTES);
            }
        }
        for queue in &queues {
            assert!(queue.close(Duration::from_secs(60)));
            assert_eq!(queue.lost(), None);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let (bytes, text) = content(folder.path());
        assert!(bytes <= TOTAL_BYTES && bytes > TOTAL_BYTES / 2, "{bytes}");
        // The newest lines are there, or it is said that they were dropped.
        assert!(text.contains("499999 x") || text.contains("lines were dropped here"));
        assert!(text.lines().all(|line| line.len() == 67 || line.starts_with('(')));
    }

    #[test]
    fn who_logs_never_waits_and_what_finds_no_place_is_counted() {
        let folder = tempfile::TempDir::new().unwrap();
        let queue = Queue::default();
        let line = format!("{}\n", "y".repeat(1023));
        // Nobody writes yet.
        for _ in 0..2000 {
            queue.put(line.clone());
        }
        queue.flush(Duration::from_millis(1));
        let files = Files::open(folder.path()).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| queue.write_to(files));
            queue.flush(Duration::from_secs(60));
            queue.put("later\n".to_owned());
            assert!(queue.close(Duration::from_secs(60)));
        });
        let (_, text) = content(folder.path());
        let kept = text.lines().filter(|line| line.starts_with('y')).count();
        assert_eq!(kept, WAITING_BYTES / 1024);
        let dropped = format!("({} lines were dropped here: too many at once)\n", 2000 - kept);
        assert!(text.ends_with(&format!("{dropped}later\n")), "no {dropped}");
    }

    #[test]
    fn a_disk_that_refuses_is_told_and_stops_nothing() {
        let folder = tempfile::TempDir::new().unwrap();
        let gone = folder.path().join("logs");
        let files = Files::open(&gone).unwrap();
        std::fs::create_dir(gone.join("reins.log")).unwrap();
        let queue = Queue::default();
        queue.put("a\n".to_owned());
        std::thread::scope(|scope| {
            scope.spawn(|| queue.write_to(files));
            assert!(queue.close(Duration::from_secs(60)));
        });
        let lost = queue.lost().unwrap();
        assert!(lost.starts_with("1 line lost: "), "{lost}");
    }
}
