//! What may be typed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::explain::ExplainCommand;
use crate::layers::DEFAULT_PROFILE;
use crate::session::SessionCommand;

/// What follows the options in the help of `run`.
const RUN_HELP: &str = "\
Examples:
  reins run \"find out why the tests of the parser fail, and repair it\"
  reins run --continue \"now add a test for the empty input\"
  git diff | reins run --output json \"review this\"

Variables:
  DEEPSEEK_API_KEY   the key for the models of `deepseek`
  DEEPSEEK_BASE_URL  another server that speaks chat completions
  REINS_HOME         where sessions and settings.toml are kept

Exit codes:
  0    completed
  1    internal error
  2    usage, configuration, no key, unknown model
  3    the provider failed
  4    turn blocked, or a call denied because nobody could be asked
  5    a limit: steps, time, or the model's output length
  6    session not found, busy or unreadable
  7    context window exceeded
  130  interrupted
  143  terminated";

/// What follows the options in the help of `config set`.
const SET_HELP: &str = "\
Examples:
  reins config set bash.timeout_ms 60000
  reins config set default-model.model deepseek/deepseek-v4-flash
  reins config set local.models '[{ id = \"m1\" }]'
  reins config set grep.disabled true";

/// Lets a language model work in your files, with a log of everything it does.
#[derive(Debug, Parser)]
#[command(name = "reins", version, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Also log to <home>/logs, 20 MB at most, nothing of what is said; as REINS_DEBUG=1.
    #[arg(long, global = true)]
    pub(crate) debug: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Give the agent a prompt and wait for the answer.
    Run(RunArgs),
    /// Show what Reins does: a scripted model, real tools, a real log. Needs no key.
    Demo(DemoArgs),
    /// Look at sessions, and look after them.
    #[command(subcommand)]
    Session(SessionCommand),
    /// Look at the configuration, and change your settings.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Say where something comes from.
    #[command(subcommand)]
    Explain(ExplainCommand),
    /// Serve a file of answers as a model, for tries and tests without a key.
    ScriptedModel(ScriptedArgs),
}

impl Command {
    /// As it is typed.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Demo(_) => "demo",
            Self::Session(_) => "session",
            Self::Config(_) => "config",
            Self::Explain(_) => "explain",
            Self::ScriptedModel(_) => "scripted-model",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ComposeArgs {
    /// The stack of layers to run with: default, sdk, or one of your own.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROFILE)]
    pub(crate) profile: String,
    /// A file of rows on top of all others, `-` is standard input; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) patch: Vec<PathBuf>,
    /// Sessions are kept in memory only.
    #[arg(skip)]
    pub(crate) ephemeral: bool,
}

impl ComposeArgs {
    /// A profile without patches.
    pub(crate) fn of_profile(profile: impl Into<String>) -> Self {
        Self { profile: profile.into(), patch: Vec::new(), ephemeral: false }
    }
}

#[derive(Debug, Args)]
#[command(after_help = RUN_HELP)]
pub(crate) struct RunArgs {
    /// The model, as provider/model.
    #[arg(short, long, value_name = "PROVIDER/MODEL")]
    pub(crate) model: Option<String>,
    /// What standard output gets.
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) output: Output,
    /// Continue this session; a beginning of its id that no other has is enough.
    #[arg(long, value_name = "ID", conflicts_with = "continue_newest")]
    pub(crate) session: Option<String>,
    /// Continue the session of this directory that was used last.
    #[arg(long = "continue")]
    pub(crate) continue_newest: bool,
    /// Keep nothing: the session is gone when the run ends.
    #[arg(long, conflicts_with_all = ["session", "continue_newest"])]
    pub(crate) ephemeral: bool,
    /// The directory to work in; the current one if not given.
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// The agent preset: standard, minimal, or one of your own.
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    #[command(flatten)]
    pub(crate) compose: ComposeArgs,
    /// End the turn after this many model answers.
    #[arg(long, value_name = "N", value_parser = parse_steps)]
    pub(crate) max_steps: Option<u64>,
    /// End the turn after this time, for example 90s or 10m.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub(crate) max_time: Option<Duration>,
    /// The prompt; `/NAME` is one of yours, `-` is standard input. Piped input is added to it.
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// The answer; on a terminal with progress.
    Text,
    /// One JSON object.
    Json,
    /// Every event as a line, then the result as a line.
    StreamJson,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Also append every request body to this file, each as one line with a JSON string.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// All rows in force, with the layers they come from.
    Dump(ComposeArgs),
    /// Check the configuration and say what is wrong.
    Check(ComposeArgs),
    /// Print what rows take: a JSON Schema of the settings, for editors.
    Schema {
        /// Print the reference page for people instead.
        #[arg(long)]
        markdown: bool,
    },
    /// Set a field of a row in your settings.
    #[command(after_help = SET_HELP)]
    Set(SetArgs),
    /// Take back what your settings say of a field or row.
    Unset(UnsetArgs),
    /// Open your settings in $VISUAL or $EDITOR, then check them.
    Edit(ProfileArgs),
    /// Print where your settings are, or would be.
    Path(ProfileArgs),
}

/// For what is about the settings of the home, which stand above a profile and below patches.
#[derive(Debug, Args)]
pub(crate) struct ProfileArgs {
    /// The profile to check with; the settings hold for every profile.
    #[arg(long, value_name = "NAME", default_value = DEFAULT_PROFILE)]
    pub(crate) profile: String,
}

impl ProfileArgs {
    pub(crate) fn compose(&self) -> ComposeArgs {
        ComposeArgs::of_profile(&self.profile)
    }
}

#[derive(Debug, Args)]
pub(crate) struct SetArgs {
    /// The row's id and a field of its configuration, or `disabled`.
    #[arg(value_name = "ROW.FIELD")]
    pub(crate) key: String,
    /// A value as TOML, or a string without quotes; ROW.FIELD=VALUE does as well.
    #[arg(allow_hyphen_values = true)]
    pub(crate) value: Option<String>,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
}

#[derive(Debug, Args)]
pub(crate) struct UnsetArgs {
    /// A field that gets back what the layers below say, or a row of which nothing stays.
    #[arg(value_name = "ROW[.FIELD]")]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ScriptedArgs {
    /// The file of answers; see docs/scripted-model.md.
    pub(crate) file: PathBuf,
    /// The port on 127.0.0.1; 0 = any free one.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
}

fn parse_steps(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("must be 1 or more".to_owned()),
        Ok(steps) => Ok(steps),
        Err(_) => Err("expected a whole number".to_owned()),
    }
}

/// `90s`, `10m`, `2h`, `500ms`.
fn parse_time(text: &str) -> Result<Duration, String> {
    let wanted = || "expected a number with a unit: 500ms, 90s, 10m or 2h".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wanted)?;
    let number: u64 = text[..digits].parse().map_err(|_| wanted())?;
    let unit_ms: u64 = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wanted()),
    };
    let ms = number.checked_mul(unit_ms).filter(|ms| *ms > 0).ok_or_else(wanted)?;
    Ok(Duration::from_millis(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_need_a_number_and_a_unit() {
        assert_eq!(parse_time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_time("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(parse_time("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "90", "s", "0s", "-1s", "1.5m", "10 m", "99999999999999999999s"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
