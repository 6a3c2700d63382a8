//! From the bytes of a file and a call's strings to the new bytes, or to a failure that helps.

use reins_agent::ToolFailure;

use super::find::{FindError, Rule, find, is_large};
use super::nearest::nearest;
use super::splice::splice;
use crate::failure::{INVALID_ARGS, NOT_TEXT};

/// How many line numbers a failure names.
const MAX_LINES_NAMED: usize = 10;

/// What an edit will do.
pub(super) struct Plan {
    /// The whole new file.
    pub(super) bytes: Vec<u8>,
    pub(super) rule: Rule,
    /// 1-based lines of the old file where the places begin.
    pub(super) lines: Vec<usize>,
    /// Line ends of the new text were written as CRLF.
    pub(super) wrote_crlf: bool,
}

/// What a call asks for.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    /// Every place.
    pub(super) all: bool,
    pub(super) beside: Beside,
}

/// What the model has beside `edit`, so that no advice names a tool that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    /// `read`, `glob` and `write`.
    FileTools,
    /// Perhaps a shell.
    NoFileTools,
}

/// Checks that need no file.
pub(super) fn check_strings(wanted: Wanted<'_>) -> Result<(), ToolFailure> {
    let problem = if wanted.old.is_empty() {
        match wanted.beside {
            Beside::FileTools => {
                "`old_string` is empty; give the text to replace, or use `write` to create a file"
            }
            Beside::NoFileTools => "`old_string` is empty; give the text to replace",
        }
    } else if wanted.old == wanted.new {
        "`old_string` and `new_string` are equal, so nothing would change; give the new text"
    } else {
        return Ok(());
    };
    Err(ToolFailure::new(INVALID_ARGS, problem))
}

/// Plans the edit of a file called `name`, which may have at most `limit` bytes afterwards.
pub(super) fn plan(
    name: &str,
    file: &[u8],
    wanted: Wanted<'_>,
    limit: u64,
) -> Result<Plan, ToolFailure> {
    check_strings(wanted)?;
    let Wanted { old, new, all, beside } = wanted;
    if let Some(at) = memchr::memchr(0, file) {
        let message = format!(
            "`{name}` is a binary file (NUL byte at offset {at}); `edit` changes text only, use \
             `bash` with a fitting program"
        );
        return Err(ToolFailure::new(NOT_TEXT, message));
    }
    let found = find(file, old.as_bytes(), all).map_err(|error| match error {
        FindError::NotFound => not_found(name, file, old, beside),
        FindError::Ambiguous { rule, starts, more } => ambiguous(name, file, rule, &starts, more),
        FindError::TooMany { limit } => {
            let message = format!(
                "`old_string` occurs more than {limit} times in `{name}`; use `bash` with `sed`"
            );
            ToolFailure::new("FS_AMBIGUOUS_EDIT", message)
        }
    })?;
    let most = file.len() + found.places.len().saturating_mul(new.len());
    if most as u64 > limit {
        let message = format!(
            "the edit could make `{name}` as large as {most} bytes, more than the limit of {limit}"
        );
        return Err(ToolFailure::new("FS_TOO_LARGE", message));
    }
    let spliced = splice(file, old, new, &found);
    if spliced.bytes == file {
        let message = format!(
            "nothing would change in `{name}`: the text is there, but `new_string` gives the same \
             bytes (only its line ends differ, and those follow the file)"
        );
        return Err(ToolFailure::new("FS_EDIT_NO_CHANGE", message));
    }
    Ok(Plan {
        bytes: spliced.bytes,
        rule: found.rule,
        lines: line_numbers(file, found.places.iter().map(|place| place.raw.start)),
        wrote_crlf: spliced.wrote_crlf,
    })
}

fn ambiguous(name: &str, file: &[u8], rule: Rule, starts: &[usize], more: bool) -> ToolFailure {
    let how = match rule {
        Rule::Exact => String::new(),
        rule => format!(" (compared without {})", rule.name()),
    };
    let lines = line_numbers(file, starts.iter().copied());
    let message = format!(
        "`old_string` occurs {}{} times in `{name}`{how}: {}. Add lines around it to make it \
         unique, or set `replace_all` to change every place.",
        if more { "more than " } else { "" },
        starts.len(),
        name_lines(&lines)
    );
    ToolFailure::new("FS_AMBIGUOUS_EDIT", message)
}

fn not_found(name: &str, file: &[u8], old: &str, beside: Beside) -> ToolFailure {
    let mut message = format!("`old_string` was not found in `{name}`; nothing was changed. ");
    if is_large(file, old.as_bytes()) {
        message.push_str(
            "A file over 4 MiB or a text over 64 KiB is compared exactly, and no similar text is \
             looked for. ",
        );
    } else if let Some(near) = nearest(file, old) {
        message.push_str(&near);
    }
    let advice = match (beside, has_line_numbers(old)) {
        (Beside::FileTools, true) => {
            "`old_string` seems to hold the line numbers that `read` adds; leave them out."
        }
        (Beside::FileTools, false) => {
            "Copy the text from a fresh `read`, without its line numbers."
        }
        (Beside::NoFileTools, true) => "`old_string` seems to hold line numbers; leave them out.",
        (Beside::NoFileTools, false) => {
            "Look at the file as it is now, and copy the text from it exactly."
        }
    };
    message.push_str(advice);
    ToolFailure::new("FS_EDIT_NOT_FOUND", message)
}

fn has_line_numbers(old: &str) -> bool {
    let mut lines = old.lines().filter(|line| !line.trim().is_empty()).peekable();
    lines.peek().is_some()
        && lines.all(|line| {
            let rest = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
            rest.len() < line.trim_start().len() && rest.starts_with(": ")
        })
}

/// `line 3` or `lines 3, 8 and 12 more`.
pub(super) fn name_lines(lines: &[usize]) -> String {
    let named: Vec<String> = lines.iter().take(MAX_LINES_NAMED).map(usize::to_string).collect();
    let more = lines.len() - named.len();
    let plural = if lines.len() == 1 { "line" } else { "lines" };
    match more {
        0 => format!("{plural} {}", named.join(", ")),
        more => format!("{plural} {} and {more} more", named.join(", ")),
    }
}

/// 1-based line numbers of ascending positions.
fn line_numbers(file: &[u8], positions: impl Iterator<Item = usize>) -> Vec<usize> {
    let (mut line, mut counted) = (1, 0);
    positions
        .map(|at| {
            line += memchr::memchr_iter(b'\n', &file[counted..at]).count();
            counted = at;
            line
        })
        .collect()
}
