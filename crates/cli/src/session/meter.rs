//! How far long work is, on a terminal.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reins_store::Progress;

use super::words::size;
use crate::start::Start;
use crate::terminal;

/// Short work is not worth a line.
const AFTER: Duration = Duration::from_millis(500);
const EVERY: Duration = Duration::from_millis(100);
const CLEAR: &str = "\r\u{1b}[K";

/// A line on standard error that comes and goes.
pub(super) struct Meter {
    state: Option<Arc<State>>,
}

struct State {
    what: &'static str,
    began: Instant,
    /// When the line was written last.
    shown: Mutex<Option<Instant>>,
}

impl Meter {
    /// For work that begins now. Nobody sees it unless somebody watches.
    pub(super) fn new(start: &Start, what: &'static str) -> Self {
        let is_watched = terminal::is_watched() && terminal::can_redraw(&start.env);
        let state = || State { what, began: Instant::now(), shown: Mutex::new(None) };
        Self { state: is_watched.then(|| Arc::new(state())) }
    }

    /// Hears how far it is.
    pub(super) fn progress(&self) -> Progress {
        match self.state.clone() {
            None => Arc::new(|_, _| {}),
            Some(state) => Arc::new(move |done, all| state.show(done, all)),
        }
    }
}

impl State {
    fn show(&self, done: u64, all: u64) {
        if self.began.elapsed() < AFTER {
            return;
        }
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_some_and(|last| last.elapsed() < EVERY) {
            return;
        }
        *shown = Some(Instant::now());
        terminal::note_part(&format!("{CLEAR}{}", words(self.what, done, all)));
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        let Some(state) = &self.state else { return };
        let mut shown = state.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.take().is_some() {
            terminal::note_part(CLEAR);
        }
    }
}

fn words(what: &str, done: u64, all: u64) -> String {
    match done.saturating_mul(100).checked_div(all) {
        Some(percent) => format!("{what}: {} % of {}", percent.min(100), size(all)),
        None => format!("{what}: {}", size(done)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_much_of_what() {
        assert_eq!(words("verify", 1, 2000), "verify: 0 % of 2.0 kB");
        assert_eq!(words("verify", 2000, 2000), "verify: 100 % of 2.0 kB");
        assert_eq!(words("export", 1500, 0), "export: 1.5 kB");
    }
}
