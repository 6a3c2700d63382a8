//! From the process's start to its exit code.

use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::{CommandFactory, Parser};
use reins_kernel::{PluginDef, nearest};
use reins_world::Env;

use crate::args::{Cli, Command, Output};
use crate::debug::{self, DebugLog};
use crate::exit::{self, CliError};
use crate::start::Start;
use crate::{config, demo, explain, home, run, scripted, session, signals, terminal};

/// What a binary adds to what Reins ships.
#[derive(Clone, Debug, Default)]
pub struct Additions {
    /// Plugins that rows may name.
    pub plugins: Vec<PluginDef>,
    /// Rows, as the text of a layer. They are in force in every profile, above the shipped bundles
    /// and below the user's own files.
    pub rows: Option<&'static str>,
}

/// Runs the command line of Reins with these additions and returns the exit code of the process.
/// The first and only thing a `main` does: the supervisor of commands is the same binary in another
/// role.
pub fn main(additions: Additions) -> ExitCode {
    // The supervisor must stay small, so its role is decided before anything else happens.
    if let Some(code) = reins_sandbox::run_if_host_role(std::env::args_os()) {
        return code;
    }
    std::panic::set_hook(Box::new(panicked));
    let typed: Vec<OsString> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(&typed) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(refuse(&typed, &error)),
    };
    let output = match &cli.command {
        Command::Run(run) => run.output,
        _ => Output::Text,
    };
    let code = match runtime_and_start(additions) {
        Ok((runtime, start)) => {
            let log = debug::is_wanted(cli.debug, &start.env).then(|| DebugLog::start(&start.home));
            log::info!("reins {} {}", env!("CARGO_PKG_VERSION"), cli.command.name());
            let work = AssertUnwindSafe(|| runtime.block_on(command(&start, output, cli.command)));
            let code = catch_unwind(work).unwrap_or_else(|_| gave_way(output));
            // A blocking read of standard input cannot be cancelled and must not keep us.
            runtime.shutdown_timeout(Duration::from_millis(100));
            log::info!("exit code {code}");
            if let Some(log) = log.flatten() {
                log.finish();
            }
            code
        }
        Err(error) => run::early(output, &error, Duration::ZERO),
    };
    ExitCode::from(code)
}

fn runtime_and_start(additions: Additions) -> Result<(tokio::runtime::Runtime, Start), CliError> {
    let env: Arc<Env> = Arc::new(std::env::vars_os().collect());
    let home = home::home(&env)?;
    #[expect(clippy::disallowed_methods, reason = "the one place that asks for it")]
    let cwd = std::env::current_dir().map_err(|e| {
        CliError::usage(format!("the current directory cannot be used: {e}"))
            .with_hint("change to a directory that exists")
    })?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| CliError::internal(format!("starting the runtime: {e}")))?;
    Ok((runtime, Start { env, home, cwd, additions }))
}

async fn command(start: &Start, output: Output, command: Command) -> u8 {
    if let Err(error) = signals::outlive_file_limits() {
        return run::early(output, &error, Duration::ZERO);
    }
    let result = match command {
        Command::Run(args) => return run::run(start, args).await,
        Command::Demo(args) => demo::demo(start, args).await,
        Command::Session(command) => session::session(start, command).await,
        Command::Config(command) => config::config(start, &command).await,
        Command::Explain(command) => explain::explain(start, command).await,
        Command::ScriptedModel(args) => scripted::serve(args).await,
    };
    result.unwrap_or_else(|error| run::early(output, &error, Duration::ZERO))
}

/// Help and version go to standard output with exit 0; mistakes are reported in the output form
/// that was asked for.
fn refuse(typed: &[OsString], error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        drop(terminal::print(&error.to_string()));
        return exit::COMPLETED;
    }
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        terminal::note(error.to_string().trim_end());
        return exit::USAGE;
    }
    let words: Vec<String> = typed.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let asked = |form: &str| {
        words.iter().any(|word| *word == format!("--output={form}"))
            || words.windows(2).any(|pair| pair[0] == "--output" && pair[1] == form)
    };
    let output = if asked("json") {
        Output::Json
    } else if asked("stream-json") {
        Output::StreamJson
    } else {
        Output::Text
    };
    let misuse = match error.kind() {
        clap::error::ErrorKind::InvalidSubcommand => unknown_command(&words, error),
        _ => misuse(&error.to_string()),
    };
    run::early(output, &misuse, Duration::ZERO)
}

/// Names the nearest command, or all of them.
fn unknown_command(typed: &[String], error: &clap::Error) -> CliError {
    use clap::error::{ContextKind, ContextValue};
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return misuse(&error.to_string());
    };
    let mut above = Cli::command();
    for word in typed.iter().skip(1) {
        let Some(below) = above.find_subcommand(word) else { break };
        above = below.clone();
    }
    let names: Vec<&str> = above.get_subcommands().map(clap::Command::get_name).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("commands are: {}", names.join(", ")),
    };
    let is_first = above.get_name() == Cli::command().get_name();
    let prompt = if is_first { "; a prompt comes after `run`" } else { "" };
    CliError::usage(format!("there is no command `{name}`")).with_hint(format!("{hint}{prompt}"))
}

/// The parser's words as one line, with its tip as the hint.
fn misuse(words: &str) -> CliError {
    let words = words.strip_prefix("error: ").unwrap_or(words);
    let mut paragraphs =
        words.split("\n\n").map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let message = paragraphs.next().unwrap_or_default();
    let tip = paragraphs.find_map(|text| text.strip_prefix("tip: ").map(str::to_owned));
    let hint = tip.unwrap_or_else(|| "`--help` after a command shows what it takes".to_owned());
    CliError::usage(message).with_hint(hint)
}

/// Place and words of the last panic.
static PANIC: Mutex<String> = Mutex::new(String::new());

/// A panic is our fault; the user gets one line and no backtrace. Where plugins may fail, it is
/// caught and becomes a failed result.
fn panicked(panic: &std::panic::PanicHookInfo<'_>) {
    let words = panic.payload_as_str().unwrap_or("no words");
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let message = format!("internal error at {place}: {words}");
    // The words may quote content.
    log::error!("panic at {place}");
    debug::flush();
    terminal::note(&format!("reins: {message}"));
    *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = message;
}

/// The result of a command that a panic ended, of which the user was told.
fn gave_way(output: Output) -> u8 {
    let message = PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone();
    run::without_turn(output, &CliError::internal(message), Duration::ZERO)
}
