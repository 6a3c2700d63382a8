//! The prompt: arguments, piped input, or both.

use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

use crate::exit::CliError;
use crate::layers::{STDIN, from_stdin};
use crate::terminal;

/// More piped input than that is refused, in bytes.
const MAX_INPUT_BYTES: u64 = 16 * 1024 * 1024;
/// After this long without an end of the input, the user is told what is awaited.
const HINT_AFTER: Duration = Duration::from_secs(3);

/// A prompt as it was given.
pub(crate) struct Typed {
    /// The arguments; none when all comes from standard input.
    pub(super) words: Vec<String>,
    /// What was piped in.
    pub(super) input: String,
}

impl Typed {
    /// One argument and nothing else.
    pub(crate) fn text(text: &str) -> Self {
        Self { words: vec![text.to_owned()], input: String::new() }
    }

    /// The arguments as one text.
    pub(super) fn argument(&self) -> String {
        self.words.join(" ")
    }
}

/// A text with the piped input behind it; one of them alone when the other is blank.
pub(super) fn join(text: &str, input: &str) -> String {
    match (text.trim().is_empty(), input.trim().is_empty()) {
        (false, false) => format!("{text}\n\n{input}"),
        (true, false) => input.to_owned(),
        (_, true) => text.to_owned(),
    }
}

/// What a prompt is to be made from.
pub(super) struct Asked {
    words: Vec<String>,
    reads_input: bool,
}

impl Asked {
    /// From the arguments, and from standard input unless that is one of the patches. Reads nothing
    /// yet.
    pub(super) fn of(words: &[OsString], patches: &[PathBuf]) -> Result<Self, CliError> {
        let texts = texts_of(words)?;
        let from_input = texts == ["-"];
        if !from_input && texts.iter().any(|text| text == "-") {
            return Err(CliError::usage(
                "`-` reads the prompt from standard input and stands alone",
            )
            .with_hint(
                "piped input is added to a prompt without `-`; a prompt with a dash of its \
                     own is one argument in quotes",
            ));
        }
        let input = Input::of_process();
        let is_patch = match input {
            Input::Nothing => false,
            Input::Piped | Input::Typed => is_patch(patches)?,
        };
        let is_blank = texts.iter().all(|text| text.trim().is_empty());
        if is_patch && (from_input || is_blank) {
            return Err(CliError::usage("standard input is the patch")
                .with_hint("give the prompt as an argument"));
        }
        let reads_input = from_input || (input == Input::Piped && !is_patch);
        Ok(Self { words: if from_input { Vec::new() } else { texts }, reads_input })
    }

    /// Takes the piped input, too.
    pub(super) async fn read(self) -> Result<Typed, CliError> {
        let input = if self.reads_input { read_input().await? } else { String::new() };
        let typed = Typed { words: self.words, input };
        if join(&typed.argument(), &typed.input).trim().is_empty() {
            return Err(CliError::usage("the prompt is empty")
                .with_hint("reins run \"what to do\", or pipe text into `reins run -`"));
        }
        Ok(typed)
    }
}

fn texts_of(words: &[OsString]) -> Result<Vec<String>, CliError> {
    let text = |word: &OsString| {
        word.to_str().map(str::to_owned).ok_or_else(|| {
            let shown = word.to_string_lossy();
            CliError::usage(format!("the prompt `{shown}` is not UTF-8"))
                .with_hint("pass the text through a file or pipe in UTF-8")
        })
    };
    words.iter().map(text).collect()
}

/// Whether standard input is one of the patches; it can be read once.
fn is_patch(patches: &[PathBuf]) -> Result<bool, CliError> {
    match from_stdin(patches) {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(CliError::usage("standard input is given as a patch more than once")
            .with_hint("keep one --patch of it")),
    }
}

/// What standard input is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Input {
    /// `/dev/null` and its like, or closed.
    Nothing,
    /// A pipe, socket or file.
    Piped,
    /// A terminal.
    Typed,
}

impl Input {
    fn of_process() -> Self {
        if std::io::stdin().is_terminal() {
            return Self::Typed;
        }
        match std::fs::metadata(STDIN).map(|found| found.file_type()) {
            Ok(kind) if kind.is_fifo() || kind.is_socket() || kind.is_file() => Self::Piped,
            _ => Self::Nothing,
        }
    }
}

async fn read_input() -> Result<String, CliError> {
    let reading = tokio::task::spawn_blocking(|| {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes);
        read.map(|_| bytes)
    });
    tokio::pin!(reading);
    let done = tokio::select! {
        done = &mut reading => done,
        () = tokio::time::sleep(HINT_AFTER) => {
            terminal::note("reins: waiting for the end of standard input (`</dev/null` for none)");
            reading.await
        }
    };
    let bytes = done
        .map_err(|e| CliError::internal(e.to_string()))?
        .map_err(|e| CliError::usage(format!("standard input: {e}")))?;
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        return Err(CliError::usage(format!(
            "standard input has more than {MAX_INPUT_BYTES} bytes"
        ))
        .with_hint("name the file in the prompt and let the agent read it"));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        CliError::usage(format!("standard input is not UTF-8 text (byte {at})"))
            .with_hint("convert it first, for example with iconv")
    })
}
