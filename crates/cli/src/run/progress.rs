//! What a person sees while a run goes on: the text as it streams, a line for each tool call, and
//! one status line.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reins_schema::{Block, CallId, Event, PartKind, Payload, Usage};

use crate::args::Output;
use crate::terminal;

use super::output;

/// How often the status line is renewed.
const TICK: Duration = Duration::from_millis(500);
/// After this long without data the status line says so.
const QUIET: Duration = Duration::from_secs(5);

/// Shows a run.
pub(super) struct Progress {
    output: Output,
    screen: Option<Mutex<Screen>>,
}

impl Progress {
    pub(super) fn start(output: Output) -> Self {
        let watched = output == Output::Text && terminal::is_interactive();
        Self { output, screen: watched.then(|| Mutex::new(Screen::new())) }
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
}

fn lock(screen: &Mutex<Screen>) -> MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state of the terminal: text on standard output, everything else on standard error.
struct Screen {
    began: Instant,
    last_data: Instant,
    usage: Usage,
    doing: String,
    status_shown: bool,
    column_zero: bool,
    names: HashMap<CallId, String>,
}

impl Screen {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            began: now,
            last_data: now,
            usage: Usage::default(),
            doing: "starting".to_owned(),
            status_shown: false,
            column_zero: true,
            names: HashMap::new(),
        }
    }

    fn see(&mut self, event: &Event) {
        self.last_data = Instant::now();
        match Payload::read(&event.body) {
            Ok(Payload::RequestSent(_)) => self.doing = "waiting for the model".to_owned(),
            Ok(Payload::AssistantChunk(chunk)) => {
                for run in &chunk.runs {
                    match run.kind {
                        PartKind::Text => self.text(&run.text.concat()),
                        PartKind::Reasoning => self.doing = "thinking".to_owned(),
                        PartKind::Call | PartKind::Unknown => {
                            self.doing = "writing a call".to_owned();
                        }
                    }
                }
            }
            Ok(Payload::AssistantAttempt(attempt)) => {
                self.add(attempt.usage);
                self.line(&format!("! {}", attempt.failure));
            }
            Ok(Payload::LlmRetry(retry)) => {
                self.doing = format!("retry {} in {} ms", retry.retry, retry.delay_ms);
            }
            Ok(Payload::AssistantMessage(answer)) => self.add(answer.usage),
            Ok(Payload::ToolCall(call)) => {
                self.line(&format!("● {} {}", call.name, call.arguments));
                self.doing = format!("running {}", call.name);
                self.names.insert(call.call_id, call.name);
            }
            Ok(Payload::ToolResult(result)) => self.result(&result),
            Ok(Payload::LimitReached(limit)) => {
                self.line(&format!("! limit `{}` ({}) reached", limit.name, limit.value));
            }
            _ => {}
        }
        self.tick();
    }

    fn result(&mut self, result: &reins_schema::ToolResult) {
        for block in &result.message.content {
            let Block::ToolResult(answer) = block else { continue };
            let texts = answer.content.iter().filter_map(|block| match block {
                Block::Text(text) => Some(text.as_str()),
                _ => None,
            });
            let text: String = texts.collect();
            let name = self.names.get(&answer.tool_call_id).cloned().unwrap_or_default();
            let mark = if answer.is_error { "✗" } else { "✓" };
            let lines = text.lines().count();
            let first = text.lines().next().unwrap_or_default();
            self.line(&format!("  {mark} {name}: {first} ({lines} lines)"));
        }
    }

    fn add(&mut self, usage: Option<Usage>) {
        self.usage = self.usage.plus(usage.unwrap_or_default());
    }

    fn text(&mut self, text: &str) {
        self.hide_status();
        let shown = terminal::shown(text);
        // A terminal that is gone ends the run through SIGHUP, not here.
        drop(terminal::print(&shown));
        self.column_zero = shown.ends_with('\n');
        self.doing = "answering".to_owned();
    }

    fn line(&mut self, text: &str) {
        self.hide_status();
        if !self.column_zero {
            drop(terminal::print("\n"));
            self.column_zero = true;
        }
        terminal::note(&terminal::one_line(text, width()));
    }

    fn tick(&mut self) {
        let quiet = self.last_data.elapsed();
        // The status line must not cut into a line that is being written, unless that stalls.
        if !self.column_zero {
            if quiet < QUIET {
                return;
            }
            drop(terminal::print("\n"));
            self.column_zero = true;
        }
        let tokens = self.usage.input_tokens + self.usage.cache_read_tokens;
        let mut status = format!(
            "[{}s · {tokens} in · {} out] {}",
            self.began.elapsed().as_secs(),
            self.usage.output_tokens,
            self.doing
        );
        if quiet >= QUIET {
            status.push_str(&format!(" · no data for {} s", quiet.as_secs()));
        }
        terminal::note_part(&format!("\r\u{1b}[K{}", terminal::one_line(&status, width())));
        self.status_shown = true;
    }

    fn hide_status(&mut self) {
        if std::mem::take(&mut self.status_shown) {
            terminal::note_part("\r\u{1b}[K");
        }
    }

    fn finish(&mut self) {
        self.hide_status();
        if !self.column_zero {
            drop(terminal::print("\n"));
            self.column_zero = true;
        }
    }
}

/// The terminal's width in characters; 80 when it does not say.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|width| *width >= 20).unwrap_or(80)
}
