//! `reins config edit`

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::Path;

use reins_agent::{Arguments, OpenQuote};
use reins_world::Env;
use tokio::signal::unix::{SignalKind, signal};

use super::file;
use crate::args::ProfileArgs;
use crate::exit::CliError;
use crate::start::Start;
use crate::terminal;

/// What a new file says until somebody writes into it.
const FRESH: &str = "\
# Settings of Reins. `reins config dump` prints all rows, docs/settings.md says what each takes,
# `reins config check` what is wrong.
#
# [[row]]
# id = \"bash\"
# config = { timeout_ms = 60000 }
";

/// The editor when none is chosen.
const USUAL: &str = "vi";

/// Opens the settings in the user's editor. What is wrong with them afterwards is for the caller to
/// say.
pub(super) async fn edit(start: &Start, profile: &ProfileArgs) -> Result<(), CliError> {
    // A profile that is not there is said before anything is typed.
    let files = start.files(&profile.compose(), None);
    files.below_settings().map_err(|errors| crate::start::row_errors(&errors))?;
    let has_terminal = std::io::stdin().is_terminal() && terminal::is_interactive();
    let editor = editor(&start.env, has_terminal)?;
    file::check_home(&start.home)?;
    file::make_home(&start.home)?;
    let path = file::target(&start.home).await?;
    let is_new = make_when_absent(&start.home).await?;
    let ended = open(&editor, &path);
    if is_new {
        remove_when_unchanged(&start.home, &path).await?;
    }
    ended
}

async fn make_when_absent(home: &Path) -> Result<bool, CliError> {
    let _held = file::lock(home).await?;
    // What is there may be anything: an editor is the place to mend it.
    match file::read(home).await {
        Ok(content) if content.is_absent() => {
            file::write(home, &content, FRESH).await.map(|()| true)
        }
        _ => Ok(false),
    }
}

async fn remove_when_unchanged(home: &Path, path: &Path) -> Result<(), CliError> {
    let _held = file::lock(home).await?;
    if !matches!(file::read(home).await, Ok(content) if content.text == FRESH) {
        return Ok(());
    }
    std::fs::remove_file(path).map_err(|e| CliError::config(format!("{}: {e}", path.display())))
}

/// Program and arguments.
fn editor(env: &Env, has_terminal: bool) -> Result<Vec<OsString>, CliError> {
    for name in ["VISUAL", "EDITOR"] {
        let Some(value) = env.get(name) else { continue };
        let Some(text) = value.to_str() else {
            return Err(CliError::usage(format!("${name} is not UTF-8")));
        };
        let words = Arguments::of_text(text).words().map_err(|OpenQuote(quote)| {
            CliError::usage(format!("${name} is `{text}`: the quote {quote} is not closed"))
        })?;
        if !words.is_empty() {
            return Ok(words.into_iter().map(OsString::from).collect());
        }
    }
    if !has_terminal {
        return Err(CliError::usage(format!("there is no terminal for `{USUAL}`"))
            .with_hint("set VISUAL or EDITOR, or use `reins config set`"));
    }
    Ok(vec![OsString::from(USUAL)])
}

fn open(editor: &[OsString], path: &Path) -> Result<(), CliError> {
    let Some((program, args)) = editor.split_first() else { return Ok(()) };
    let name = program.to_string_lossy();
    let refused = |error: std::io::Error| {
        CliError::usage(format!("the editor `{name}` cannot be started: {error}"))
            .with_hint("set VISUAL or EDITOR")
    };
    // Ctrl-C is for the editor, which has the terminal; the child gets the usual effect back.
    let interrupt = signal(SignalKind::interrupt())
        .and_then(|interrupt| signal(SignalKind::quit()).map(|quit| (interrupt, quit)));
    let _signals = interrupt.map_err(refused)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "an editor has the terminal, which commands under the supervisor have not"
    )]
    let mut command = std::process::Command::new(program);
    let status = command.args(args).arg(path).status().map_err(refused)?;
    match status.success() {
        true => Ok(()),
        false => Err(CliError::usage(format!("the editor `{name}` ended with {status}"))),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]
mod tests {
    use super::*;

    #[test]
    fn an_editor_is_chosen_or_there_is_a_terminal() {
        let env = |pairs: &[(&str, &str)]| -> Env { pairs.iter().copied().collect() };
        let of = |pairs: &[(&str, &str)], terminal| editor(&env(pairs), terminal);
        assert_eq!(of(&[("VISUAL", "a -w"), ("EDITOR", "b")], false).unwrap(), ["a", "-w"]);
        assert_eq!(of(&[("VISUAL", " "), ("EDITOR", "b")], false).unwrap(), ["b"]);
        assert_eq!(of(&[], true).unwrap(), ["vi"]);
        assert_eq!(of(&[], false).unwrap_err().message, "there is no terminal for `vi`");
        assert!(of(&[("EDITOR", "'a")], true).unwrap_err().message.contains("$EDITOR is `'a`"));
    }
}
