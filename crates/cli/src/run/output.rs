//! What a run leaves on standard output: text, one JSON object, or lines of JSON.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use reins_host::{Denied, RunEnd, RunOutcome};
use reins_schema::{Event, FailureCode, SessionId, SessionRecovered, TurnEndReason, Usage};
use serde::Serialize;

use crate::args::Output;
use crate::exit::{self, CliError};
use crate::session::RecoveredObject;
use crate::signals::asked_to_end;
use crate::{debug, terminal};

use super::screen::{seconds, tokens};

/// A finished run.
pub(super) struct Report<'a> {
    pub(super) session: &'a SessionId,
    pub(super) outcome: &'a RunOutcome,
    pub(super) elapsed: Duration,
    /// How often the last request was tried.
    pub(super) attempts: u32,
    /// The command that goes on with the session; none when no command could.
    pub(super) go_on: Option<&'a str>,
}

/// The object of `--output json`. All keys are always there.
#[derive(Serialize)]
struct Object<'a> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    schema: &'static str,
    session: Option<&'a str>,
    ephemeral: bool,
    recovered: Vec<RecoveredObject>,
    turn: Option<u64>,
    reason: &'a str,
    text: &'a str,
    usage: UsageObject,
    steps: u64,
    tool_calls: u64,
    denied: &'a [Denied],
    duration_ms: u64,
    error: Option<ErrorObject<'a>>,
}

#[derive(Serialize)]
struct UsageObject {
    input_tokens: u64,
    output_tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    reasoning_tokens: u64,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    code: &'a str,
    message: &'a str,
    hint: Option<&'a str>,
}

const SCHEMA: &str = "reins.run/1";
const GO_ON: &str = "what happened so far is in the session; go on with `reins run --continue`";
const NETWORK: &str = "is the network there, and the address right (`base_url` of the provider's \
                       row, or the variable that stands for it)?";

/// The object of this process was begun; there is never another.
static PRINTED: AtomicBool = AtomicBool::new(false);
/// Standard output takes no more, which was said.
static LOST: AtomicBool = AtomicBool::new(false);

/// The session of this process, once it is open.
static SESSION: OnceLock<Named> = OnceLock::new();

struct Named {
    id: SessionId,
    recovered: Vec<SessionRecovered>,
    ephemeral: bool,
}

/// From now on every result names this session.
pub(super) fn name(session: &SessionId, recovered: Vec<SessionRecovered>, ephemeral: bool) {
    // A process has one session; a second name would change nothing.
    drop(SESSION.set(Named { id: session.clone(), recovered, ephemeral }));
}

/// What was recovered when the session was opened.
fn recovered() -> Vec<RecoveredObject> {
    let recovered = SESSION.get().map(|named| named.recovered.as_slice()).unwrap_or_default();
    recovered.iter().map(RecoveredObject::of).collect()
}

fn is_ephemeral() -> bool {
    SESSION.get().is_some_and(|named| named.ephemeral)
}

/// Reports an error before there was a turn, and returns its exit code.
pub(crate) fn early(output: Output, error: &CliError, elapsed: Duration) -> u8 {
    debug::error(error);
    terminal::note(&format!("reins: {error}"));
    without_turn(output, error, elapsed)
}

/// Leaves the object of an error that people were told of, and returns its exit code.
pub(crate) fn without_turn(output: Output, error: &CliError, elapsed: Duration) -> u8 {
    let is_signal = matches!(error.exit, exit::INTERRUPTED | exit::TERMINATED);
    let printed = print_object(
        output,
        &Object {
            kind: (output == Output::StreamJson).then_some("result"),
            schema: SCHEMA,
            session: SESSION.get().map(|named| named.id.as_str()),
            ephemeral: is_ephemeral(),
            recovered: recovered(),
            turn: None,
            reason: if is_signal { "aborted" } else { "error" },
            text: "",
            usage: usage(Usage::default()),
            steps: 0,
            tool_calls: 0,
            denied: &[],
            duration_ms: millis(elapsed),
            error: Some(ErrorObject {
                code: &error.code,
                message: &error.message,
                hint: error.hint.as_deref(),
            }),
        },
    );
    if printed { error.exit } else { exit::INTERNAL }
}

/// Reports a run, and returns the exit code: `code` unless standard output takes no more.
pub(super) fn end(output: Output, report: &Report<'_>, code: u8) -> u8 {
    let outcome = report.outcome;
    let watched = output == Output::Text && terminal::is_watched();
    let goes_on_below = watched && report.go_on.is_some();
    let error = (code != exit::COMPLETED).then(|| explain(report, code, goes_on_below));
    let printed = match output {
        Output::Text if terminal::is_interactive() || outcome.text.is_empty() => true,
        Output::Text => {
            let text = outcome.text.trim_end_matches('\n');
            taken(terminal::print_text(&format!("{text}\n")))
        }
        Output::Json | Output::StreamJson => print_object(
            output,
            &Object {
                kind: (output == Output::StreamJson).then_some("result"),
                schema: SCHEMA,
                session: Some(report.session.as_str()),
                ephemeral: is_ephemeral(),
                recovered: recovered(),
                turn: outcome.turn,
                reason: reason(&outcome.end),
                text: &outcome.text,
                usage: usage(outcome.usage),
                steps: outcome.steps,
                tool_calls: outcome.tool_calls,
                denied: &outcome.denied,
                duration_ms: millis(report.elapsed),
                error: error.as_ref().map(|error| ErrorObject {
                    code: &error.code,
                    message: &error.message,
                    hint: error.hint.as_deref(),
                }),
            },
        ),
    };
    if let Some(error) = error {
        debug::error(&error);
        terminal::note(&format!("reins: {error}"));
    }
    if code == exit::COMPLETED && outcome.text.is_empty() {
        terminal::note("reins: the model ended without a text");
    }
    if watched {
        terminal::note(&last_line(report));
    }
    if printed { code } else { exit::INTERNAL }
}

/// `12s · 4 steps · 7100 in · 260 out · go on with: …`; what is not known is left out.
fn last_line(report: &Report<'_>) -> String {
    let outcome = report.outcome;
    let took = (report.elapsed.as_secs() > 0).then(|| seconds(report.elapsed));
    let mut parts = Vec::from_iter(took);
    parts.extend((outcome.steps > 0).then(|| terminal::count(outcome.steps, "step")));
    parts.extend(tokens(outcome.usage));
    parts.extend(report.go_on.map(|command| format!("go on with: {command}")));
    parts.join(" · ")
}

/// One committed event as a line, exactly as it stands in the log; whether it was taken.
pub(super) fn event_line(event: &Event) -> bool {
    match event.encode() {
        Ok((line, _)) => taken(terminal::print_json(&String::from_utf8_lossy(&line))),
        Err(e) => {
            terminal::note(&format!("reins: event {} cannot be shown: {e}", event.seq));
            false
        }
    }
}

fn reason(end: &RunEnd) -> &'static str {
    match end {
        RunEnd::Turn(reason) => reason.word(),
        RunEnd::Removed => "removed",
        RunEnd::Refused(_) | RunEnd::StoreFailed(_) => "error",
    }
}

/// Why the exit code is not 0. How to go on is left out when it is said below anyway.
fn explain(report: &Report<'_>, code: u8, goes_on_below: bool) -> CliError {
    let outcome = report.outcome;
    let go_on = (!goes_on_below).then_some(GO_ON);
    if let Some(failure) = outcome.end.failure() {
        let error = CliError::new(code, failure.code.as_str(), failure.message);
        return match code {
            exit::WINDOW => error.with_hint(
                "begin a new session, or continue with a model that has a larger window (-m)",
            ),
            exit::PROVIDER => {
                let network = (failure.code == FailureCode::Transport).then_some(NETWORK);
                tried(error, report.attempts).with_hints(network.into_iter().chain(go_on))
            }
            _ => error,
        };
    }
    match &outcome.end {
        RunEnd::Turn(TurnEndReason::Blocked { reason }) => {
            CliError::new(code, "BLOCKED", format!("the prompt was rejected: {reason}"))
        }
        RunEnd::Turn(TurnEndReason::MaxTokens) => CliError::new(
            code,
            "MAX_TOKENS",
            "the answer was cut at the model's output limit twice",
        )
        .with_hint("ask for smaller steps"),
        RunEnd::Turn(TurnEndReason::Limit { name }) => {
            CliError::new(code, "LIMIT", format!("the limit `{name}` was reached"))
                .with_hint("continue the session, with a higher limit if need be")
        }
        RunEnd::Turn(TurnEndReason::Completed) => {
            let calls: Vec<&str> =
                outcome.denied.iter().filter(|d| d.unanswered).map(|d| d.tool.as_str()).collect();
            let calls = calls.join(", ");
            CliError::new(code, "DENIED", format!("nobody could be asked to allow: {calls}"))
        }
        RunEnd::Removed => CliError::new(code, "REMOVED", "the prompt was taken out of the queue"),
        _ if code == exit::TERMINATED => asked_to_end(code),
        _ => asked_to_end(code).with_hints(go_on),
    }
}

fn tried(mut error: CliError, attempts: u32) -> CliError {
    if attempts > 1 {
        error.message.push_str(&format!(" ({attempts} attempts)"));
    }
    error
}

fn usage(usage: Usage) -> UsageObject {
    UsageObject {
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        cache_read_tokens: usage.cache_read_tokens,
        cache_write_tokens: usage.cache_write_tokens,
        reasoning_tokens: usage.reasoning_tokens,
    }
}

fn millis(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// Prints the object unless there was one; whether standard output took all that it was given.
fn print_object(output: Output, object: &Object<'_>) -> bool {
    if output == Output::Text || PRINTED.swap(true, Ordering::SeqCst) {
        return !LOST.load(Ordering::SeqCst);
    }
    match serde_json::to_string(object) {
        Ok(text) => taken(terminal::print_json(&format!("{text}\n"))),
        Err(e) => {
            terminal::note(&format!("reins: the result cannot be shown: {e}"));
            false
        }
    }
}

/// Whether standard output took it, and all before; why not is said once.
fn taken(printed: std::io::Result<()>) -> bool {
    match printed {
        Ok(()) => !LOST.load(Ordering::SeqCst),
        Err(e) => {
            if !LOST.swap(true, Ordering::SeqCst) {
                terminal::note(&format!("reins: standard output: {e}"));
            }
            false
        }
    }
}
