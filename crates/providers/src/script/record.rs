//! What the server was sent.

use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use super::server::Request;

/// The most bytes of bodies that are kept in memory; the request above it is refused.
const KEPT_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Keeps every request, in the order in which their numbers were given. Cheap to clone; clones
/// share what is kept.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<Sink>>);

enum Sink {
    Memory { requests: Vec<Request>, bytes: usize },
    Writer(Box<dyn Write + Send>),
}

impl Recorder {
    /// In memory.
    pub fn in_memory() -> Self {
        Self(Arc::new(Mutex::new(Sink::Memory { requests: Vec::new(), bytes: 0 })))
    }

    /// Every body as one line: the body's text as a JSON string. Each line is flushed.
    pub fn to_writer(writer: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(Sink::Writer(Box::new(writer)))))
    }

    /// The requests so far; none when they go to a writer.
    pub fn requests(&self) -> Vec<Request> {
        match &*self.lock() {
            Sink::Memory { requests, .. } => requests.clone(),
            Sink::Writer(_) => Vec::new(),
        }
    }

    /// Their bodies.
    pub fn bodies(&self) -> Vec<Bytes> {
        self.requests().into_iter().map(|request| request.body).collect()
    }

    /// Keeps a request, or says why that is impossible.
    pub(super) fn record(&self, request: &Request) -> Result<(), String> {
        match &mut *self.lock() {
            Sink::Memory { requests, bytes } => {
                *bytes = bytes.saturating_add(request.body.len());
                if *bytes > KEPT_BYTES_MAX {
                    return Err(format!("more than {KEPT_BYTES_MAX} bytes of requests"));
                }
                requests.push(request.clone());
                Ok(())
            }
            Sink::Writer(writer) => {
                let text = std::str::from_utf8(&request.body).map_err(|e| e.to_string())?;
                let line = format!("{}\n", serde_json::Value::from(text));
                let written = writer.write_all(line.as_bytes()).and_then(|()| writer.flush());
                written.map_err(|error| error.to_string())
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Sink> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}
