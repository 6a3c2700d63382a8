//! The script server: it stands in for a model's endpoint and plays answers from a file, over
//! loopback HTTP in the chat-completions dialect. Every response carries the header
//! `x-reins-scripted: true`; the model's text is as the script says.
//!
//! ```toml
//! # Played once, first: text, then a call.
//! [[answer]]
//! text = "I look at the file."
//! usage = { input = 900, output = 20, cached = 512 }
//! [[answer.call]]
//! name = "read"
//! arguments = { file_path = "notes.txt" }
//!
//! # Out of order: whenever the last message contains `No such file`.
//! [[answer]]
//! when = "No such file"
//! text = "There is no such file."
//! repeat = "forever"
//!
//! [[answer]]
//! reasoning = "Short is enough."
//! text = "Request {{n}}: {{last_tool_result}}"
//! chunk_bytes = 8
//! chunk_delay_ms = 20
//! ```
//!
//! Keys of `[[answer]]`: `reasoning`, `text`, `call` (tables with `name`, `arguments`: a table or
//! the raw text, and `id`), `usage` (`input` with what was cached, `output`, `cached`), `finish`,
//! `delay_ms` (before the head), `chunk_bytes`, `chunk_delay_ms`, `when`, `repeat` (a number or
//! `"forever"`). Placeholders in texts and arguments: `{{n}}` (the request's number, from 1),
//! `{{round}}` (how often this answer has been played, from 1), both also with an offset:
//! `{{n-1}}`; `{{last_message}}`, `{{last_tool_result}}`.
//!
//! A request that no answer is left for gets HTTP 400. The same text stands in
//! `docs/scripted-model.md`, at more length.

mod chat;
mod format;
mod placeholder;
mod player;
mod record;
mod server;

use reins_world::CancelToken;

pub use chat::{Place, WireEvent};
pub use format::{Answer, Arguments, Call, CallUsage, MAX_SCRIPT_BYTES, Repeat, Script};
pub use player::{Played, Player, Refusal};
pub use record::Recorder;
pub use server::{MAX_BODY_BYTES, Reply, Request, Respond, ScriptOptions, ScriptServer, Step};

/// The label of every response.
pub const SCRIPTED_HEADER: &str = "x-reins-scripted";

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// The text is no script.
    #[error("{name}:{line}: {problem}")]
    Format {
        /// The script's.
        name: String,
        /// From 1.
        line: usize,
        /// What is wrong there, and what is meant.
        problem: String,
    },
    /// The port cannot be used.
    #[error("cannot listen on 127.0.0.1:{port}: {source}; choose another port, or 0 for any")]
    Listen {
        /// As asked for.
        port: u16,
        /// Of the operating system.
        source: std::io::Error,
    },
}

/// Plays a script until `cancel` fires; calls `ready` with the base URL once it listens.
///
/// # Errors
/// As [`ScriptServer::start`].
pub async fn serve(
    script: Script,
    options: ScriptOptions,
    cancel: CancelToken,
    ready: impl FnOnce(&str),
) -> Result<(), ScriptError> {
    let server = ScriptServer::start(script, options)?;
    ready(&server.base_url());
    cancel.cancelled().await;
    server.stop().await;
    Ok(())
}
