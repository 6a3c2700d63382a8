//! The debug log: what Reins did and how long it took, for reports of mistakes. It never holds a
//! prompt, an answer, a key, a header, or the content of a file or of a command's output.

mod events;
mod files;
mod line;
mod queue;

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use log::{Level, LevelFilter, Log, Metadata, Record};
use reins_world::{Clock, Env, LocalClock};

use crate::exit::{self, CliError};
use crate::terminal;

pub(crate) use events::Watch;
use files::Files;
use queue::Queue;

/// Turns the log on, as `--debug` does, unless it is empty or `0`.
const VARIABLE: &str = "REINS_DEBUG";
/// How long the end of the process, or of a panic, waits for a disk that does not answer.
const WAIT: Duration = Duration::from_secs(2);

/// What every `log` macro of the process reaches.
static LOGGER: Logger = Logger { to: OnceLock::new() };

struct Logger {
    to: OnceLock<Target>,
}

struct Target {
    queue: Arc<Queue>,
    clock: LocalClock,
    pid: u32,
}

impl Log for Logger {
    /// Of other crates only what went wrong: their details may quote addresses and headers.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_ours = metadata.target().starts_with("reins");
        metadata.level() <= if is_ours { Level::Debug } else { Level::Warn }
    }

    fn log(&self, record: &Record<'_>) {
        let Some(target) = self.to.get().filter(|_| self.enabled(record.metadata())) else {
            return;
        };
        target.queue.put(line::of(target.clock.now_ms(), target.pid, record));
    }

    fn flush(&self) {
        if let Some(target) = self.to.get() {
            target.queue.flush(WAIT);
        }
    }
}

/// The log of this process; its thread ends with [`DebugLog::finish`].
pub(crate) struct DebugLog {
    queue: Arc<Queue>,
    thread: JoinHandle<()>,
    folder: PathBuf,
}

/// Whether the arguments or the environment ask for the log.
pub(crate) fn is_wanted(asked: bool, env: &Env) -> bool {
    asked || env.get(VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

impl DebugLog {
    /// Begins to log into `<home>/logs`. A log that cannot be written is told, and the work goes on
    /// without.
    pub(crate) fn start(home: &Path) -> Option<Self> {
        let folder = home.join("logs");
        let begun = Files::open(&folder).and_then(|files| {
            let queue = Arc::new(Queue::default());
            let taking = Arc::clone(&queue);
            let thread = std::thread::Builder::new().name("reins-debug".to_owned());
            let thread = thread.spawn(move || taking.write_to(files))?;
            Ok((queue, thread))
        });
        let (queue, thread) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                let place = folder.display();
                terminal::note(&format!("reins: no debug log in `{place}`: {error}"));
                return None;
            }
        };
        let target =
            Target { queue: Arc::clone(&queue), clock: LocalClock::new(), pid: std::process::id() };
        // Another logger of a binary with plugins of its own stays, and nothing is put here.
        if LOGGER.to.set(target).is_ok() && log::set_logger(&LOGGER).is_ok() {
            log::set_max_level(LevelFilter::Debug);
        }
        Some(Self { queue, thread, folder })
    }

    /// Writes what waits and ends. What was lost is told.
    pub(crate) fn finish(self) {
        log::set_max_level(LevelFilter::Off);
        let Self { queue, thread, folder } = self;
        let lost = if queue.close(WAIT) {
            // It has ended but for its last instructions.
            drop(thread.join());
            queue.lost()
        } else {
            Some("the disk does not answer".to_owned())
        };
        if let Some(problem) = lost {
            let place = folder.display();
            terminal::note(&format!(
                "reins: the debug log in `{place}` is not complete: {problem}"
            ));
        }
    }
}

/// Logs an error that people are told. The words of those that quote what was typed, a file or a
/// server stay out.
pub(crate) fn error(error: &CliError) {
    let is_of_store = error.exit == exit::SESSION || ["STORE", "HOME"].contains(&&*error.code);
    let words = if is_of_store { error.message.as_str() } else { "" };
    log::error!("error {} {words}", error.code);
}

/// Writes what waits, before the process ends without [`DebugLog::finish`].
pub(crate) fn flush() {
    LOGGER.flush();
}
