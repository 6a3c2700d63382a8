//! Outgoing HTTP as a service; the only way to the network for everything above `world`.

use std::fmt;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use reins_kernel::BoxFuture;

/// A request; bodies are held in memory.
#[derive(Clone)]
pub struct HttpRequest {
    /// `GET` or `POST`.
    pub method: &'static str,
    /// Absolute URL, `http` or `https`.
    pub url: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// May be empty.
    pub body: Bytes,
}

impl fmt::Debug for HttpRequest {
    /// Without header values: they hold keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpRequest")
            .field("method", &self.method)
            .field("url", &self.url)
            .field("headers", &names)
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

/// What came back. The body arrives as it is read; dropping it closes the connection.
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: BoxStream<'static, Result<Bytes, HttpError>>,
}

impl HttpResponse {
    /// The first header with this lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Why no response, or no further body, arrived. Never holds a header value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The URL is not usable.
    #[error("`{url}` is not a usable URL: {problem}")]
    Url {
        /// As given.
        url: String,
        /// What is wrong.
        problem: String,
    },
    /// A header's name or value has characters that HTTP forbids.
    #[error("header `{name}` has a character that HTTP does not allow")]
    Header {
        /// The header's name.
        name: String,
    },
    /// No connection.
    #[error("no connection to `{host}`: {problem}")]
    Connect {
        /// Host and port.
        host: String,
        /// The operating system's or TLS library's words.
        problem: String,
    },
    /// The connection broke.
    #[error("the connection to `{host}` broke: {problem}")]
    Broken {
        /// Host and port.
        host: String,
        /// What happened.
        problem: String,
    },
}

/// Sends requests. No retries, no total time limit, no redirects to other hosts; callers bound
/// each wait.
pub trait Http: Send + Sync {
    /// Resolves when the response's head has arrived. Dropping the future drops the connection.
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, HttpError>>;
}
