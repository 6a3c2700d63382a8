//! Who sees the events of a run: standard output as lines of JSON, and the screen.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use reins_schema::Event;
use reins_world::Env;

use crate::args::Output;
use crate::terminal;

use super::output;
use super::screen::Screen;

/// How often the status line is looked at.
const TICK: Duration = Duration::from_millis(250);

/// Shows a run.
pub(super) struct Progress {
    output: Output,
    screen: Option<Mutex<Screen>>,
}

impl Progress {
    pub(super) fn start(output: Output, env: &Env) -> Self {
        let watched = output == Output::Text && terminal::is_watched();
        Self { output, screen: watched.then(|| Mutex::new(Screen::new(terminal::can_redraw(env)))) }
    }

    /// The part that sees events, and the part that keeps the status line alive.
    pub(super) fn parts(&mut self) -> (Show<'_>, Ticker<'_>) {
        let screen = self.screen.as_ref();
        (Show { output: self.output, broken: false, screen }, Ticker { screen })
    }
}

pub(super) struct Show<'a> {
    output: Output,
    /// Standard output takes no more; that was said once.
    broken: bool,
    screen: Option<&'a Mutex<Screen>>,
}

impl Show<'_> {
    pub(super) fn see(&mut self, event: &Event) {
        if self.output == Output::StreamJson && !self.broken {
            self.broken = !output::event_line(event);
        }
        if let Some(screen) = self.screen {
            lock(screen).see(event);
        }
    }

    pub(super) fn finish(&mut self) {
        if let Some(screen) = self.screen {
            lock(screen).finish();
        }
    }
}

pub(super) struct Ticker<'a> {
    screen: Option<&'a Mutex<Screen>>,
}

impl Ticker<'_> {
    /// Drives `run`, and the status line beside it.
    pub(super) async fn alongside<T>(&self, run: impl Future<Output = T>) -> T {
        let Some(screen) = self.screen else { return run.await };
        tokio::pin!(run);
        loop {
            tokio::select! {
                done = &mut run => return done,
                () = tokio::time::sleep(TICK) => lock(screen).tick(),
            }
        }
    }

    /// A note that is no event, in the midst of what the screen shows.
    pub(super) fn note(&self, text: &str) {
        match self.screen {
            Some(screen) => lock(screen).note(text),
            None => terminal::note(text),
        }
    }
}

fn lock(screen: &Mutex<Screen>) -> MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}
