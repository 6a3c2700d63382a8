//! A prompt that begins with `/name`.

use std::path::Path;
use std::sync::Arc;

use reins_agent::{
    Arguments, Command, CommandError, CommandRun, CommandSource, find_command, is_command_name,
    list_commands,
};
use reins_kernel::{Scope, nearest};
use reins_schema::Draft;

use crate::exit::CliError;
use crate::terminal;

use super::prompt::{Typed, join};

/// Commands that a hint lists.
const MAX_LISTED: usize = 20;
/// Cells of a line of that list, and of a name in a message.
const LINE_CELLS: usize = 100;
const AS_IT_IS: &str = "a space before the slash sends it as it is";
/// How prompts are called, for people.
pub(crate) const PROMPT_NAMES: &str =
    "names are lower-case letters, digits, `-` and `_`, a letter first";

/// What the model gets.
pub(super) struct Prompt {
    pub(super) text: String,
    /// Says which command made it.
    pub(super) before: Option<Draft>,
}

/// The prompt that was typed, with its command expanded when it begins with one.
pub(super) async fn expand(scope: &Scope, typed: Typed) -> Result<Prompt, CliError> {
    let plain = |typed: Typed| {
        let text = join(&typed.argument(), &typed.input);
        Ok(Prompt { text, before: None })
    };
    if !has_commands(scope) {
        return plain(typed);
    }
    if typed.argument().trim_end() == "/" {
        let error = CliError::usage("`/` is not followed by the name of a prompt");
        return Err(error.with_hint(known(scope).await.0));
    }
    let Some(call) = Call::in_words(&typed.words) else { return plain(typed) };
    let found = match is_command_name(call.name) {
        true => find_command(scope, call.name).await.map_err(refused)?,
        false => None,
    };
    match found {
        Some(command) => called(command.as_ref(), &call, &typed.input),
        None if Path::new(call.word).symlink_metadata().is_ok() => plain(typed),
        None => Err(unknown(scope, call.name).await),
    }
}

/// Whether anything may be called by `/name`.
pub(super) fn has_commands(scope: &Scope) -> bool {
    !scope.entries::<dyn CommandSource>().is_empty()
}

/// `/name` at the beginning, and what follows.
struct Call<'a> {
    word: &'a str,
    name: &'a str,
    arguments: Arguments,
}

impl<'a> Call<'a> {
    /// The first word must look like `/name` or `/a:b`, be it a possible name or not, so that a
    /// slip of the keyboard is not sent to a model; all else, paths above all, is a plain prompt.
    fn in_words(words: &'a [String]) -> Option<Self> {
        let (first, tail) = words.split_first()?;
        let end = first.find(char::is_whitespace).unwrap_or(first.len());
        let (word, rest) = first.split_at(end);
        let name = word.strip_prefix('/')?;
        let is_inner = |c: char| c.is_alphanumeric() || "-_:".contains(c);
        let looks_so = name.starts_with(char::is_alphabetic) && name.chars().all(is_inner);
        looks_so.then(|| Self { word, name, arguments: Arguments::new(rest, tail) })
    }
}

fn called(command: &dyn Command, call: &Call<'_>, input: &str) -> Result<Prompt, CliError> {
    let text = join(&command.expand(&call.arguments).map_err(refused)?, input);
    if text.trim().is_empty() {
        let problem = format!("`/{}` makes an empty prompt without arguments", call.name);
        return Err(CliError::usage(problem).with_hint("write after it what it is to work on"));
    }
    let run = CommandRun::by_user(command.info(), &call.arguments);
    let draft = run.draft().map_err(|e| CliError::internal(e.to_string()))?;
    Ok(Prompt { text, before: Some(draft) })
}

fn refused(error: CommandError) -> CliError {
    let refused = CliError::usage(error.message);
    match error.hint {
        Some(hint) => refused.with_hint(hint),
        None => refused,
    }
}

async fn unknown(scope: &Scope, name: &str) -> CliError {
    let (list, names) = known(scope).await;
    let near = nearest(&name.to_lowercase(), names.iter().map(String::as_str));
    let meant = near.map(|near| format!("; did you mean `/{near}`?")).unwrap_or_default();
    let name = terminal::one_line(name, LINE_CELLS);
    CliError::usage(format!("there is no prompt `/{name}`{meant}"))
        .with_hint(format!("{AS_IT_IS}; {list}"))
}

/// The prompts that there are, as lines for a hint, and the names of all.
async fn known(scope: &Scope) -> (String, Vec<String>) {
    let (list, errors) = list_commands(scope).await;
    let mut lines = Vec::new();
    if list.names.is_empty() {
        let places = scope.entries::<dyn CommandSource>().into_iter();
        let places: Vec<String> = places.map(|source| source.value.place()).collect();
        lines.push(format!("a file NAME.md in `{}` is the prompt `/NAME`", places.join("` or `")));
    } else {
        lines.push("prompts are:".to_owned());
    }
    for name in list.names.iter().take(MAX_LISTED) {
        lines.push(format!("  {}", line(name, find_command(scope, name).await)));
    }
    let more = list.names.len().saturating_sub(MAX_LISTED);
    match (more, list.incomplete) {
        (0, false) => {}
        (0, true) => lines.push("  and perhaps more".to_owned()),
        (more, false) => lines.push(format!("  and {more} more")),
        (more, true) => lines.push(format!("  and {more} more, or still others")),
    }
    if let Some(file) = list.unusable.first() {
        let others = match list.unusable.len() - 1 {
            0 => String::new(),
            others => format!(" and {}", terminal::count(others as u64, "other")),
        };
        lines.push(format!("  not `{}`{others}: {PROMPT_NAMES}", file.display()));
    }
    lines.extend(errors.iter().map(|error| format!("  {error}")));
    (lines.join("\n"), list.names)
}

/// `/name FILE – what it does`, or what is wrong with it.
fn line(name: &str, found: Result<Option<Arc<dyn Command>>, CommandError>) -> String {
    let mut line = format!("/{name}");
    match found {
        Ok(Some(command)) => {
            let info = command.info();
            line.extend(info.argument_hint.iter().map(|hint| format!(" {hint}")));
            line.extend(info.description.iter().map(|text| format!(" – {text}")));
        }
        // Removed meanwhile.
        Ok(None) => {}
        Err(error) => return format!("{line} – {error}"),
    }
    terminal::one_line(&line, LINE_CELLS)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]
mod tests {
    use super::*;

    fn call(words: &[&str]) -> Option<(String, String)> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let call = Call::in_words(&words)?;
        Some((call.name.to_owned(), call.arguments.text().to_owned()))
    }

    #[test]
    fn what_looks_like_a_name_after_a_slash_is_a_call() {
        let calls = [
            (&["/fix"][..], "fix", ""),
            (&["/fix a b"], "fix", "a b"),
            (&["/fix", "a", "b"], "fix", "a b"),
            (&["/fix a", "b c"], "fix", "a b c"),
            (&["/fix\ta"], "fix", "a"),
            (&["/fix\na\nb"], "fix", "a\nb"),
            (&["/a-1_b:c2:d"], "a-1_b:c2:d", ""),
            (&["/Fix it"], "Fix", "it"),
            (&["/fix:"], "fix:", ""),
            (&["/a::b"], "a::b", ""),
            (&["/größe"], "größe", ""),
        ];
        for (words, name, arguments) in calls {
            let expected = Some((name.to_owned(), arguments.to_owned()));
            assert_eq!(call(words), expected, "{words:?}");
        }
        let plain = [
            &[][..],
            &[""],
            &["", "/fix"],
            &[" /fix"],
            &["fix"],
            &["//fix"],
            &["/usr/bin is full"],
            &["/fix."],
            &["/:fix"],
            &["/1"],
            &["/-x"],
            &["/ fix"],
        ];
        for words in plain {
            assert_eq!(call(words), None, "{words:?}");
        }
    }
}
