//! What a person sees while a run goes on: the text as it streams, a line for each tool call, and
//! one status line. Text goes to standard output when that is a terminal too, everything else to
//! standard error.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use reins_schema::{CallId, ChunkRun, Event, LlmRetry, PartKind, Payload, ToolResult, Usage};

use crate::terminal;

use super::calls;

/// After this long without data the status line says so.
const QUIET: Duration = Duration::from_secs(5);
/// The status line is drawn at most this often.
const REDRAW: Duration = Duration::from_millis(100);

pub(super) struct Screen {
    began: Instant,
    last_data: Instant,
    usage: Usage,
    doing: String,
    /// The terminal can clear a line; without that there is no status line.
    can_redraw: bool,
    /// Where there is no status line, this silence was told of.
    told: bool,
    /// Standard output is a terminal too.
    shows_text: bool,
    /// Both streams are the same terminal.
    one_terminal: bool,
    /// The status line as it stands there now.
    status: Option<String>,
    drawn: Option<Instant>,
    /// The model's text has not come to the end of its line.
    open_text: bool,
    /// A failure or limit that is shown once the run goes on; if it does not, the end names it.
    pending: Option<String>,
    calls: HashMap<CallId, (String, String)>,
}

impl Screen {
    pub(super) fn new(can_redraw: bool) -> Self {
        let now = Instant::now();
        Self {
            began: now,
            last_data: now,
            usage: Usage::default(),
            doing: "starting".to_owned(),
            can_redraw,
            told: false,
            shows_text: terminal::is_interactive(),
            one_terminal: terminal::is_one_terminal(),
            status: None,
            drawn: None,
            open_text: false,
            pending: None,
            calls: HashMap::new(),
        }
    }

    pub(super) fn see(&mut self, event: &Event) {
        self.last_data = Instant::now();
        self.told = false;
        match Payload::read(&event.body) {
            Ok(Payload::RequestSent(_)) => {
                if let Some(line) = self.pending.take() {
                    self.line(&line);
                }
                self.doing = "waiting for the model".to_owned();
            }
            Ok(Payload::AssistantChunk(chunk)) => chunk.runs.iter().for_each(|run| self.run(run)),
            Ok(Payload::AssistantAttempt(attempt)) => {
                self.add(attempt.usage);
                self.pending = Some(format!("! {}", attempt.failure));
            }
            Ok(Payload::LlmRetry(retry)) => self.retry(&retry),
            Ok(Payload::AssistantMessage(answer)) => {
                self.add(answer.usage);
                self.close_text();
                self.doing = "finishing the step".to_owned();
            }
            Ok(Payload::ToolCall(call)) => {
                let subject = calls::subject(&call.arguments);
                self.line(&format!("● {}", calls::title(&call.name, &subject)));
                self.doing = format!("running {}", call.name);
                self.calls.insert(call.call_id, (call.name, subject));
            }
            Ok(Payload::ToolResult(result)) => self.result(&result),
            Ok(Payload::LimitReached(limit)) => {
                self.pending = Some(format!("! limit `{}` ({}) reached", limit.name, limit.value));
            }
            _ => {}
        }
        self.tick();
    }

    fn run(&mut self, run: &ChunkRun) {
        match run.kind {
            PartKind::Text => {
                self.text(&run.text.concat());
                self.doing = "answering".to_owned();
            }
            PartKind::Reasoning => {
                self.close_text();
                self.doing = "thinking".to_owned();
            }
            PartKind::Call | PartKind::Unknown => {
                self.close_text();
                self.doing = "writing a call".to_owned();
            }
        }
    }

    fn retry(&mut self, retry: &LlmRetry) {
        self.pending = None;
        let of = retry.max_retries.map(|max| format!(" of {max}")).unwrap_or_default();
        let wait = Duration::from_millis(retry.delay_ms).as_secs_f64();
        self.line(&format!("! {} · retry {}{of} in {wait:.1} s", retry.failure, retry.retry));
        self.doing = format!("waiting to try again ({}{of})", retry.retry);
    }

    fn result(&mut self, result: &ToolResult) {
        let reins_schema::Source::Tool { call_id } = &result.message.source else { return };
        let (name, subject) = self.calls.get(call_id).cloned().unwrap_or_default();
        self.line(&format!("  {}", calls::result(&name, &subject, result)));
    }

    fn add(&mut self, usage: Option<Usage>) {
        self.usage = self.usage.plus(usage.unwrap_or_default());
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() || !self.shows_text {
            return;
        }
        self.hide_status();
        // A terminal that is gone ends the run through SIGHUP, not here.
        drop(terminal::print_text(text));
        self.open_text = !text.ends_with('\n');
    }

    /// The next thing begins on a line of its own.
    fn close_text(&mut self) {
        if std::mem::take(&mut self.open_text) {
            if self.one_terminal {
                // The model did not write it, so it is not output.
                terminal::note_part("\n");
            } else {
                drop(terminal::print("\n"));
            }
        }
    }

    fn line(&mut self, text: &str) {
        self.hide_status();
        self.close_text();
        terminal::note(&terminal::one_line(text, width()));
    }

    /// Something that was not an event; it may be several lines.
    pub(super) fn note(&mut self, text: &str) {
        self.hide_status();
        self.close_text();
        terminal::note(text);
    }

    pub(super) fn tick(&mut self) {
        let quiet = self.last_data.elapsed();
        if !self.can_redraw {
            if quiet >= QUIET && !std::mem::replace(&mut self.told, true) {
                self.line(&format!("{} · {}", self.doing, silence(quiet)));
            }
            return;
        }
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        // The status line must not cut into a line that is being written, unless that stalls.
        if self.one_terminal && self.open_text {
            if quiet < QUIET {
                return;
            }
            self.close_text();
        }
        let mut status = format!("[{}] {}", figures(self.began.elapsed(), self.usage), self.doing);
        if quiet >= QUIET {
            status.push_str(&format!(" · {}", silence(quiet)));
        }
        let status = terminal::one_line(&status, width());
        if self.status.as_ref() != Some(&status) {
            terminal::note_part(&format!("\r\u{1b}[K{status}"));
            self.status = Some(status);
            self.drawn = Some(Instant::now());
        }
    }

    fn hide_status(&mut self) {
        if self.status.take().is_some() {
            terminal::note_part("\r\u{1b}[K");
        }
    }

    pub(super) fn finish(&mut self) {
        self.hide_status();
        self.close_text();
    }
}

fn silence(quiet: Duration) -> String {
    format!("no data for {} s", quiet.as_secs())
}

fn figures(elapsed: Duration, usage: Usage) -> String {
    let mut figures = vec![seconds(elapsed)];
    figures.extend(tokens(usage));
    figures.join(" · ")
}

/// `12s`, `2m 5s`.
pub(super) fn seconds(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    if seconds < 60 {
        format!("{seconds}s")
    } else {
        format!("{}m {}s", seconds / 60, seconds % 60)
    }
}

/// `7100 in` and `260 out`, each when it is known.
pub(super) fn tokens(usage: Usage) -> Vec<String> {
    let read = usage.total_input();
    let numbers = [(read, "in"), (usage.output_tokens, "out")];
    let known = numbers.into_iter().filter(|(number, _)| *number > 0);
    known.map(|(number, way)| format!("{number} {way}")).collect()
}

/// The terminal's width in cells; 80 when it does not say.
fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|width| *width >= 20).unwrap_or(80)
}
