//! The fixed table of exit codes, and errors as people see them.

use std::fmt;

use reins_agent::AgentError;
use reins_host::HostError;
use reins_schema::{Failure, FailureCode};
use reins_store::StoreError;

/// Everything went as asked.
pub(crate) const COMPLETED: u8 = 0;
/// A fault of Reins itself, or of the machine under it.
pub(crate) const INTERNAL: u8 = 1;
/// Arguments, configuration, no key, unknown model.
pub(crate) const USAGE: u8 = 2;
/// The provider failed for good.
pub(crate) const PROVIDER: u8 = 3;
/// Input was blocked, or a call was denied because nobody could be asked.
pub(crate) const BLOCKED: u8 = 4;
/// A limit was reached: steps, time, tokens of an answer.
pub(crate) const LIMIT: u8 = 5;
/// No such session, or it is in use or cannot be read.
pub(crate) const SESSION: u8 = 6;
/// The conversation does not fit the model's window.
pub(crate) const WINDOW: u8 = 7;
/// Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;
/// SIGTERM or SIGHUP.
pub(crate) const TERMINATED: u8 = 143;

const NO_KEY: &str = "`reins demo` needs no key; for other servers see README.md, Models";

/// An error with its exit code, in the words that the user reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CliError {
    pub(crate) exit: u8,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl CliError {
    pub(crate) fn new(exit: u8, code: &str, message: impl Into<String>) -> Self {
        Self { exit, code: code.to_owned(), message: message.into(), hint: None }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, "USAGE", message)
    }

    pub(crate) fn config(message: impl Into<String>) -> Self {
        Self::new(USAGE, "CONFIG", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(INTERNAL, "INTERNAL", message)
    }

    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// As [`CliError::with_hint`], for any number of them on one line.
    pub(crate) fn with_hints<'a>(mut self, hints: impl IntoIterator<Item = &'a str>) -> Self {
        let hints: Vec<&str> = hints.into_iter().collect();
        self.hint = (!hints.is_empty()).then(|| hints.join(" · "));
        self
    }

    /// A failure that was found before anything left the machine.
    pub(crate) fn before_request(failure: &Failure) -> Self {
        let error = Self::new(USAGE, failure.code.as_str(), failure.message.clone());
        if failure.code == FailureCode::Auth { error.with_hint(NO_KEY) } else { error }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "\nhint: {hint}"))
    }
}

/// The exit code of a failed turn.
pub(crate) fn of_failure(failure: &Failure) -> u8 {
    match &failure.code {
        FailureCode::ContextWindowExceeded => WINDOW,
        // Our own checker or assembly refused it: no status ever arrived.
        FailureCode::InvalidRequest | FailureCode::UnsupportedContent
            if failure.status.is_none() =>
        {
            INTERNAL
        }
        _ => PROVIDER,
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        let (exit, code) = match &error {
            StoreError::NotFound { .. } | StoreError::InvalidId { .. } => {
                (SESSION, "SESSION_NOT_FOUND")
            }
            StoreError::Ambiguous { .. } => (SESSION, "SESSION_AMBIGUOUS"),
            StoreError::Busy { .. } => (SESSION, "SESSION_BUSY"),
            StoreError::TurnOpen { .. } => (SESSION, "SESSION_INTERRUPTED"),
            StoreError::OnlyReadable { .. } => (SESSION, "SESSION_READ_ONLY"),
            StoreError::NoEvent { .. }
            | StoreError::InsideTurn { .. }
            | StoreError::FileExists { .. }
            | StoreError::NotImported { .. } => (USAGE, "USAGE"),
            StoreError::OtherContent { .. } => (SESSION, "SESSION_EXISTS"),
            StoreError::Unreadable { .. }
            | StoreError::Damaged(_)
            | StoreError::NewerFormat { .. } => (SESSION, "SESSION_UNREADABLE"),
            StoreError::HomeNotDirectory { .. }
            | StoreError::HomeImpossible { .. }
            | StoreError::NotOurs { .. }
            | StoreError::Permission { .. }
            | StoreError::ReadOnly { .. } => (USAGE, "HOME"),
            _ => (INTERNAL, "STORE"),
        };
        Self::new(exit, code, error.to_string())
    }
}

impl From<HostError> for CliError {
    fn from(error: HostError) -> Self {
        match error {
            HostError::Store(error) | HostError::Agent(AgentError::Store(error)) => error.into(),
            HostError::Model(failure) => Self::before_request(&failure),
            HostError::NoneHere { .. } => {
                Self::new(SESSION, "SESSION_NOT_FOUND", error.to_string())
            }
            HostError::OtherDirectory { .. }
            | HostError::DirectoryGone { .. }
            | HostError::NotUtf8(_) => Self::usage(error.to_string()),
            HostError::Rows(_) | HostError::SessionPreset { .. } => Self::config(error.to_string()),
            HostError::Agent(AgentError::ReadOnly { .. }) => {
                Self::new(SESSION, "SESSION_READ_ONLY", error.to_string())
            }
            _ => Self::internal(error.to_string()),
        }
    }
}
