//! What a person calls by `/name`: definitions, and the search through all sources.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_kernel::{BoxFuture, Entry, Origin, Scope};
use reins_schema::Draft;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::events::own_draft;

/// Where commands come from; an entry under the name of its row. Asked at each use, so that what
/// was changed on disk is in force at once.
pub trait CommandSource: Send + Sync {
    /// The place that people would look at to find or add a command, such as a folder.
    fn place(&self) -> String;

    /// What can be called. A command that is broken is listed too: [`CommandSource::find`] says
    /// what is wrong with it.
    fn list(&self) -> BoxFuture<'_, Result<CommandList, CommandError>>;

    /// The command of this name, without its slash; `None` when this source has none.
    fn find<'a>(
        &'a self,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<dyn Command>>, CommandError>>;
}

/// A command that was found.
pub trait Command: Send + Sync {
    /// What people are told of it.
    fn info(&self) -> &CommandInfo;

    /// The prompt that these arguments make.
    ///
    /// # Errors
    /// The arguments do not fit; the message names the place, what is missing and the hint.
    fn expand(&self, arguments: &Arguments) -> Result<String, CommandError>;
}

/// What people are told of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandInfo {
    /// Without the slash, for example `review` or `team:review`.
    pub name: String,
    /// One line.
    pub description: Option<String>,
    /// What it takes, for example `FILE [HOW]`.
    pub argument_hint: Option<String>,
    /// The file that it was read from, when there is one.
    pub file: Option<PathBuf>,
    /// SHA-256 of that file's bytes, in lower-case hex.
    pub sha256: Option<String>,
}

/// The commands of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandList {
    /// Names without the slash, sorted, each once.
    pub names: Vec<String>,
    /// Files that would be commands if their names could be typed, sorted.
    pub unusable: Vec<PathBuf>,
    /// There may be more; a limit of time or number was reached.
    pub incomplete: bool,
}

/// Why a command cannot be used, in words for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CommandError {
    /// What is wrong, and where.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
}

impl CommandError {
    /// An error without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// Says what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Whether a command may have this name: parts with `:` between them, each of lower-case letters,
/// digits, `-` and `_`, a letter first.
pub fn is_command_name(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c);
    let is_part = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase()) && part.chars().all(is_inner)
    };
    name.split(':').all(is_part)
}

/// What was typed after a command's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    text: String,
    /// The part of the text that is still to be split into words.
    head: String,
    /// Words that a shell has split already.
    tail: Vec<String>,
}

impl Arguments {
    /// Arguments as one text, in which quotes hold words together.
    pub fn of_text(text: &str) -> Self {
        Self::new(text, &[])
    }

    /// A text that goes on with words which stay as they are, whatever they contain.
    pub fn new(head: &str, tail: &[String]) -> Self {
        let mut text = head.trim().to_owned();
        for word in tail {
            text.push_str(if text.is_empty() { "" } else { " " });
            text.push_str(word);
        }
        let text = text.trim().to_owned();
        Self { text, head: head.to_owned(), tail: tail.to_vec() }
    }

    /// All of it as it was typed, without the space around it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The single words. As in a shell, quotes of both kinds hold a word together, and a backslash
    /// takes the meaning from the next character (between double quotes only from `"` and `\`).
    ///
    /// # Errors
    /// A quote is not closed.
    pub fn words(&self) -> Result<Vec<String>, OpenQuote> {
        let mut words = split(&self.head)?;
        words.extend(self.tail.iter().cloned());
        Ok(words)
    }
}

/// A quote in arguments that is not closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the quote {0} in the arguments is not closed")]
pub struct OpenQuote(pub char);

fn split(text: &str) -> Result<Vec<String>, OpenQuote> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if quote.is_none() && c.is_whitespace() {
            words.extend(word.take());
            continue;
        }
        let word = word.get_or_insert_default();
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (Some('"'), '\\') => {
                word.push(chars.next_if(|next| matches!(next, '"' | '\\')).unwrap_or(c));
            }
            // One at the end stands for itself.
            (None, '\\') => word.push(chars.next().unwrap_or(c)),
            (_, c) => word.push(c),
        }
    }
    words.extend(word);
    quote.map_or(Ok(words), |open| Err(OpenQuote(open)))
}

/// The command of this name that is nearest to `scope`.
///
/// # Errors
/// Two sources of one scope have it, or the one that has it cannot read it.
pub async fn find_command(
    scope: &Scope,
    name: &str,
) -> Result<Option<Arc<dyn Command>>, CommandError> {
    for sources in by_distance(scope) {
        let mut found = Vec::new();
        for source in sources {
            if let Some(command) = source.value.find(name).await? {
                found.push((command, source.origin));
            }
        }
        if let [(first, of), (second, and_of), ..] = found.as_slice() {
            let (first, second) = (placed(first.info(), of), placed(second.info(), and_of));
            let problem = format!("there are two commands `/{name}`: {first} and {second}");
            return Err(CommandError::new(problem)
                .with_hint("rename one of them, or disable one of the rows"));
        }
        if let Some((command, _)) = found.pop() {
            return Ok(Some(command));
        }
    }
    Ok(None)
}

/// What can be called in `scope`, of all sources. A source that fails is in the second part.
pub async fn list_commands(scope: &Scope) -> (CommandList, Vec<CommandError>) {
    let (mut all, mut errors) = (CommandList::default(), Vec::new());
    for source in scope.entries::<dyn CommandSource>() {
        match source.value.list().await {
            Ok(list) => {
                all.names.extend(list.names);
                all.unusable.extend(list.unusable);
                all.incomplete |= list.incomplete;
            }
            Err(error) => errors.push(error),
        }
    }
    all.names.sort();
    all.names.dedup();
    (all, errors)
}

/// The sources of each scope, those of the nearest scope first.
fn by_distance(scope: &Scope) -> Vec<Vec<Entry<dyn CommandSource>>> {
    let mut left = scope.entries::<dyn CommandSource>();
    let mut groups = Vec::new();
    for scope in scope.outward() {
        let (here, outer) = left.into_iter().partition(|entry| *entry.scope == *scope.name());
        groups.push(here);
        left = outer;
    }
    groups
}

fn placed(info: &CommandInfo, origin: &Origin) -> String {
    match &info.file {
        Some(file) => format!("`{}` of {origin}", file.display()),
        None => format!("that of {origin}"),
    }
}

/// `command/run`: a person has called a command; the message that it made follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandRun {
    /// Names this use of the command.
    pub command_id: String,
    /// Without the slash.
    pub name: String,
    /// What was typed after the name.
    pub args: String,
    /// Who called it.
    pub source: CommandCaller,
    /// The file that the command was read from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// SHA-256 of that file's bytes, in lower-case hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// Who called a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandCaller {
    /// `user`; there is nobody else yet.
    pub kind: String,
}

impl CommandRun {
    /// The event's type.
    pub const TYPE: &'static str = "command/run";

    /// A person's use of this command.
    pub fn by_user(command: &CommandInfo, arguments: &Arguments) -> Self {
        let path = |file: &Path| file.to_string_lossy().into_owned();
        Self {
            command_id: Uuid::now_v7().to_string(),
            name: command.name.clone(),
            args: arguments.text().to_owned(),
            source: CommandCaller { kind: "user".to_owned() },
            file: command.file.as_deref().map(path),
            sha256: command.sha256.clone(),
        }
    }

    /// As an event that is not committed yet.
    ///
    /// # Errors
    /// It does not serialise.
    pub fn draft(&self) -> Result<Draft, serde_json::Error> {
        own_draft(Self::TYPE, self)
    }
}

#[cfg(test)]
mod tests;
