//! `reins run`

mod calls;
mod command;
mod news;
mod output;
mod progress;
mod prompt;
mod screen;

use std::path::Path;
use std::time::Instant;

use reins_agent::{Agent, TurnLimits};
use reins_host::{Host, OpenOrder, RunEnd, RunOrder, RunOutcome, SessionChoice};
use reins_kernel::{Layer, Scope};
use reins_schema::{Event, Payload, SessionId, SessionRecovered, TurnEndReason};

use crate::args::{Output, RunArgs};
use crate::debug::Watch;
use crate::exit::{self, CliError};
use crate::session::recovered;
use crate::signals::Signals;
use crate::start::Start;
use crate::terminal;
use crate::workspace::project_files;

pub(crate) use command::PROMPT_NAMES;
use command::Prompt;
use news::News;
use output::Report;
pub(crate) use output::{early, without_turn};
use progress::Progress;
use prompt::Asked;
pub(crate) use prompt::Typed;

/// Runs one prompt and returns the exit code. Every outcome, also an early error, is reported in
/// the chosen output form.
pub(crate) async fn run(start: &Start, mut args: RunArgs) -> u8 {
    args.compose.ephemeral = args.ephemeral;
    let output = args.output;
    let began = Instant::now();
    let opened = async {
        let asked = Asked::of(&args.prompt, &args.compose.patch)?;
        let signals = Signals::listen(output)?;
        open(start, &args, signals, None, asked.read()).await
    };
    match opened.await {
        Ok(opened) => opened.go(start, began).await.0,
        Err(error) => output::early(output, &error, began.elapsed()),
    }
}

/// A session that is ready for its prompt.
pub(crate) struct Opened {
    host: Host,
    news: News,
    agent: Agent,
    prompt: Prompt,
    signals: Signals,
    output: Output,
    /// Another process can go on with the session.
    lasting: bool,
}

/// Opens the session that the arguments ask for; `extra` is a layer on top of all others, which
/// only this process has. The prompt is taken when all layers are read.
pub(crate) async fn open(
    start: &Start,
    args: &RunArgs,
    signals: Signals,
    extra: Option<Layer>,
    typed: impl Future<Output = Result<Typed, CliError>>,
) -> Result<Opened, CliError> {
    let lasting = extra.is_none() && !args.ephemeral;
    let cwd = match &args.cwd {
        Some(asked) => start.directory("--cwd", asked)?,
        None => start.cwd.clone(),
    };
    let host = signals.before(start.host(&args.compose, extra)).await?;
    let news = News::of(&host);
    if let Some(note) = unread(start, &cwd, &host.scope().await) {
        terminal::note(&format!("reins: {note}"));
    }
    let order = OpenOrder {
        session: match &args.session {
            Some(id) => SessionChoice::Id(SessionId::new(id.clone())),
            None if args.continue_newest => SessionChoice::Newest,
            None => SessionChoice::New,
        },
        cwd,
        explicit_cwd: args.cwd.is_some(),
        model: args.model.clone(),
        preset: args.preset.clone(),
        limits: TurnLimits {
            steps: args.max_steps,
            tool_calls: None,
            time_ms: args.max_time.map(|t| u64::try_from(t.as_millis()).unwrap_or(u64::MAX)),
        },
    };
    // Before the session is made, so that a name that does not exist leaves none behind.
    let opening = async {
        let prompt = command::expand(&host.scope().await, typed.await?).await?;
        Ok((host.open(order).await?, prompt))
    };
    match signals.before(opening).await {
        Ok((opened, prompt)) => {
            let agent = opened.agent;
            for facts in &opened.recovered {
                told(&host, agent.session(), facts).await;
            }
            output::name(agent.session(), opened.recovered, args.ephemeral);
            Ok(Opened { host, news, agent, prompt, signals, output: args.output, lasting })
        }
        Err(error) => {
            host.stop().await;
            Err(error)
        }
    }
}

impl Opened {
    /// Runs the prompt and ends. Returns the exit code and the session.
    pub(crate) async fn go(self, start: &Start, began: Instant) -> (u8, SessionId) {
        let Self { host, mut news, agent, prompt, signals, output, lasting } = self;
        terminal::note(
            "reins: no sandbox yet: commands run with all your permissions (danger-full-access)",
        );
        let mut progress = Progress::start(output, &start.env);
        let (mut show, ticker) = progress.parts();
        let (mut attempts, mut debug) = (0, Watch::new());
        let mut watch = |event: &Event| {
            if event.body.kind == "assistant/attempt"
                && let Ok(Payload::AssistantAttempt(attempt)) = Payload::read(&event.body)
            {
                attempts = attempt.attempt;
            }
            debug.see(event);
            show.see(event);
        };
        let cancel = signals.cancel.clone();
        let Prompt { text, before } = prompt;
        let order = RunOrder { prompt: text, before, cancel, watch: &mut watch };
        let tell = |words: &str| ticker.note(words);
        let outcome = tokio::select! {
            outcome = ticker.alongside(reins_host::run(&agent, order)) => outcome,
            never = host.watch() => match never {},
            never = news.tell(&tell) => match never {},
        };
        news.tell_rest(&tell);
        show.finish();
        agent.close().await;
        host.stop().await;
        let code = exit_code(&outcome, signals.code());
        let session = agent.session();
        let go_on = lasting.then(|| format!("{} run --session {session} \"…\"", start.program()));
        let report = Report {
            session,
            outcome: &outcome,
            elapsed: began.elapsed(),
            attempts,
            go_on: go_on.as_deref(),
        };
        let code = output::end(output, &report, code);
        (code, session.clone())
    }
}

/// What the project of this directory brings along and Reins leaves aside.
fn unread(start: &Start, cwd: &Path, scope: &Scope) -> Option<String> {
    let mut found = project_files(cwd, &start.home);
    found.prompts = found.prompts.filter(|_| command::has_commands(scope));
    found.unread()
}

/// Damage that was found is told in every output form.
async fn told(host: &Host, session: &SessionId, facts: &SessionRecovered) {
    let folder = host.store().path(session).await.ok();
    terminal::note(&format!("reins: the log was damaged: {}", recovered(facts, folder.as_deref())));
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
