//! `reins run`

mod output;
mod progress;
mod prompt;

use std::path::PathBuf;
use std::time::Instant;

use reins_host::{OpenOrder, RunEnd, RunOrder, RunOutcome, SessionChoice};
use reins_kernel::Layer;
use reins_schema::{Event, SessionId, TurnEndReason};

use crate::args::RunArgs;
use crate::exit::{self, CliError};
use crate::signals::Signals;
use crate::start::Start;
use crate::terminal;

use output::Report;
pub(crate) use output::early;
use progress::Progress;

const CWD_HINT: &str = "give a directory that exists, or leave --cwd out for the current one";

/// Runs one prompt and returns the exit code. Every outcome, also an early error, is reported in
/// the chosen output form.
pub(crate) async fn run(start: &Start, args: RunArgs) -> u8 {
    let output = args.output;
    let began = Instant::now();
    let prompt = match prompt::read(&args.prompt).await {
        Ok(prompt) => prompt,
        Err(error) => return output::early(output, &error, began.elapsed()),
    };
    match run_prompt(start, args, prompt, None, began).await {
        Ok((code, _)) => code,
        Err(error) => output::early(output, &error, began.elapsed()),
    }
}

/// Runs a prompt that is already known; `extra` is a layer on top of all others. Returns the exit
/// code and the session.
pub(crate) async fn run_prompt(
    start: &Start,
    args: RunArgs,
    prompt: String,
    extra: Option<Layer>,
    began: Instant,
) -> Result<(u8, SessionId), CliError> {
    let cwd = directory(start, args.cwd.as_ref())?;
    let signals = Signals::listen()?;
    let host = start.host(&args.compose, extra).await?;
    let order = OpenOrder {
        session: match args.session {
            Some(id) => SessionChoice::Id(SessionId::new(id)),
            None if args.continue_newest => SessionChoice::Newest,
            None => SessionChoice::New,
        },
        cwd,
        explicit_cwd: args.cwd.is_some(),
        model: args.model,
        max_steps: args.max_steps,
        max_time_ms: args.max_time.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
    };
    let agent = match host.open(order).await {
        Ok(agent) => agent,
        Err(error) => {
            host.stop().await;
            return Err(error.into());
        }
    };
    terminal::note(
        "reins: no sandbox yet: commands run with all your permissions (danger-full-access)",
    );
    let mut progress = Progress::start(args.output);
    let (mut show, ticker) = progress.parts();
    let mut watch = |event: &Event| show.see(event);
    let run = reins_host::run(
        &agent,
        RunOrder { prompt, cancel: signals.cancel.clone(), watch: &mut watch },
    );
    let outcome = ticker.alongside(run).await;
    show.finish();
    agent.close().await;
    host.stop().await;
    let code = exit_code(&outcome, signals.code());
    let report = Report { session: agent.session(), outcome: &outcome, elapsed: began.elapsed() };
    output::end(args.output, &report, code)?;
    Ok((code, agent.session().clone()))
}

fn directory(start: &Start, asked: Option<&PathBuf>) -> Result<PathBuf, CliError> {
    let Some(asked) = asked else { return Ok(start.cwd.clone()) };
    let path = start.cwd.join(asked);
    match std::fs::metadata(&path) {
        Ok(found) if found.is_dir() => Ok(path.canonicalize().unwrap_or(path)),
        Ok(_) => Err(CliError::usage(format!("--cwd `{}` is not a directory", asked.display()))
            .with_hint(CWD_HINT)),
        Err(e) => {
            Err(CliError::usage(format!("--cwd `{}`: {e}", asked.display())).with_hint(CWD_HINT))
        }
    }
}

fn exit_code(outcome: &RunOutcome, signal: Option<u8>) -> u8 {
    match &outcome.end {
        RunEnd::Turn(TurnEndReason::Completed) => {
            let unanswered = outcome.denied.iter().any(|denied| denied.unanswered);
            if unanswered { exit::BLOCKED } else { exit::COMPLETED }
        }
        RunEnd::Turn(TurnEndReason::Blocked { .. }) => exit::BLOCKED,
        RunEnd::Turn(TurnEndReason::MaxTokens | TurnEndReason::Limit { .. }) => exit::LIMIT,
        RunEnd::Turn(TurnEndReason::Aborted { .. } | TurnEndReason::Interrupted)
        | RunEnd::Removed => signal.unwrap_or(exit::INTERRUPTED),
        RunEnd::Turn(TurnEndReason::Error { failure }) => exit::of_failure(failure),
        RunEnd::Refused(_) | RunEnd::StoreFailed(_) => exit::INTERNAL,
    }
}
