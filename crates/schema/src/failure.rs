//! Why a model call failed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The closed list of failure codes. Unknown text read from a log becomes `Other`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum FailureCode {
    /// Key missing, wrong or without permission.
    Auth,
    /// Balance or quota exhausted; waiting does not help.
    Quota,
    /// Too many requests; waiting helps.
    RateLimit,
    /// The provider is overloaded (503, 529).
    Overloaded,
    /// The provider failed (other 5xx).
    Server,
    /// The connection could not be made, or broke.
    Transport,
    /// Nothing arrived for the idle limit.
    Timeout,
    /// The stream ended without its end mark.
    StreamClosed,
    /// What arrived is not the protocol.
    MalformedResponse,
    /// A complete answer with nothing in it.
    EmptyResponse,
    /// The request does not fit the model's window.
    ContextWindowExceeded,
    /// The provider, or our own strict checker, refused the request.
    InvalidRequest,
    /// The request holds something that this model cannot take.
    UnsupportedContent,
    /// Cancelled by us.
    Aborted,
    /// The answer was cut at the output limit and nothing of it is left.
    MaxTokens,
    /// The provider's content filter stopped the answer.
    ContentFilter,
    /// A code this version does not know.
    Other(String),
}

impl FailureCode {
    /// Every code but [`FailureCode::Other`].
    pub const KNOWN: [Self; 16] = [
        Self::Auth,
        Self::Quota,
        Self::RateLimit,
        Self::Overloaded,
        Self::Server,
        Self::Transport,
        Self::Timeout,
        Self::StreamClosed,
        Self::MalformedResponse,
        Self::EmptyResponse,
        Self::ContextWindowExceeded,
        Self::InvalidRequest,
        Self::UnsupportedContent,
        Self::Aborted,
        Self::MaxTokens,
        Self::ContentFilter,
    ];

    /// The code as it stands in logs and in `json` output.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Auth => "AUTH",
            Self::Quota => "QUOTA",
            Self::RateLimit => "RATE_LIMIT",
            Self::Overloaded => "OVERLOADED",
            Self::Server => "SERVER",
            Self::Transport => "TRANSPORT",
            Self::Timeout => "TIMEOUT",
            Self::StreamClosed => "STREAM_CLOSED",
            Self::MalformedResponse => "MALFORMED_RESPONSE",
            Self::EmptyResponse => "EMPTY_RESPONSE",
            Self::ContextWindowExceeded => "CONTEXT_WINDOW_EXCEEDED",
            Self::InvalidRequest => "INVALID_REQUEST",
            Self::UnsupportedContent => "UNSUPPORTED_CONTENT",
            Self::Aborted => "ABORTED",
            Self::MaxTokens => "MAX_TOKENS",
            Self::ContentFilter => "CONTENT_FILTER",
            Self::Other(text) => text,
        }
    }
}

impl From<String> for FailureCode {
    fn from(text: String) -> Self {
        Self::KNOWN.into_iter().find(|code| code.as_str() == text).unwrap_or(Self::Other(text))
    }
}

impl From<FailureCode> for String {
    fn from(code: FailureCode) -> Self {
        code.as_str().to_owned()
    }
}

impl fmt::Display for FailureCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A failed attempt or turn, as logged and as shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{code}: {message}")]
pub struct Failure {
    /// What kind of failure.
    pub code: FailureCode,
    /// One sentence for people: what was expected, what was got, what to do.
    pub message: String,
    /// The HTTP status, when one arrived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own wish, in milliseconds, before the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// The provider's id of the request, for a support case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

impl Failure {
    /// A failure with a code and a message and nothing else known.
    pub fn new(code: FailureCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), status: None, retry_after_ms: None, request_id: None }
    }
}
