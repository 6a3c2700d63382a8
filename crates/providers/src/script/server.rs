//! The HTTP side: it listens on loopback, numbers and records requests, and plays responses that
//! are written down step by step.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream};
use http_body_util::{BodyExt as _, Limited, StreamBody};
use hyper::StatusCode;
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use reins_world::CancelToken;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use super::format::Script;
use super::player::{Player, Refusal};
use super::record::Recorder;
use super::{SCRIPTED_HEADER, ScriptError};

/// Longest request body, in bytes; longer ones get 413.
pub const MAX_BODY_BYTES: usize = 256 * 1024 * 1024;

/// The most connections at a time; more wait in the listener's queue.
const CONNECTIONS_MAX: usize = 256;

/// After a failed accept (no file descriptors left, as a rule).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Headers whose values are never kept.
const SECRET_HEADERS: [&str; 5] =
    ["authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"];

/// A request with its whole body.
#[derive(Clone, Debug)]
pub struct Request {
    /// From 1, in the order in which the bodies were complete.
    pub number: u64,
    /// For example `POST`.
    pub method: String,
    /// Without the query.
    pub path: String,
    /// In order, lower-case names; values of authorization headers are `(withheld)`.
    pub headers: Vec<(String, String)>,
    /// The raw bytes.
    pub body: Bytes,
    /// When the body was complete.
    pub arrived: Instant,
    /// Number of the connection it came on, from 1 in the order in which they were accepted.
    pub connection: u64,
}

/// A response, step by step.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// What happens before the head is sent.
    pub before: Vec<Step>,
    /// Of HTTP.
    pub status: StatusCode,
    /// Besides the ones that HTTP needs and the label.
    pub headers: HeaderMap,
    /// What happens after the head; the body ends in order after the last step.
    pub body: Vec<Step>,
}

/// One step of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A piece of the body. Before the head it is skipped.
    Send(Bytes),
    /// Nothing for this long.
    Wait(Duration),
    /// Nothing until the client leaves, but not longer than this; then the connection is closed.
    Stall(Duration),
    /// The connection is closed.
    Cut,
    /// The connection is reset.
    Reset,
    /// The port is closed; open connections go on.
    Deaf,
}

impl Reply {
    /// A response with this content type and these steps, and nothing before it.
    pub fn new(status: StatusCode, content_type: &'static str, body: Vec<Step>) -> Self {
        let content_type = HeaderValue::from_static(content_type);
        let headers = HeaderMap::from_iter([(CONTENT_TYPE, content_type)]);
        Self { before: Vec::new(), status, headers, body }
    }

    /// A JSON document.
    pub fn json(status: StatusCode, document: &serde_json::Value) -> Self {
        let body = vec![Step::Send(Bytes::from(document.to_string()))];
        Self::new(status, "application/json", body)
    }
}

/// Decides what a request gets. Called for one request after the other, in the order of their
/// numbers; it must not wait.
pub trait Respond: Send + 'static {
    /// The response to this request.
    fn respond(&mut self, request: &Request) -> Reply;
}

impl Respond for Player {
    fn respond(&mut self, request: &Request) -> Reply {
        match self.play(request) {
            Ok(played) => played.reply(played.events()),
            Err(refusal) => refusal.reply(),
        }
    }
}

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct ScriptOptions {
    /// 0 = any free one.
    pub port: u16,
    /// Keeps what is sent.
    pub record: Option<Recorder>,
}

/// A running server on 127.0.0.1. Dropping it ends it; [`ScriptServer::stop`] also waits.
#[derive(Debug)]
pub struct ScriptServer {
    address: SocketAddr,
    cancel: CancelToken,
    tasks: TaskTracker,
}

impl ScriptServer {
    /// Listens, and plays the script. To be called within a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// [`ScriptError::Listen`]: the port is taken, as a rule.
    pub fn start(script: Script, options: ScriptOptions) -> Result<Self, ScriptError> {
        Self::start_with(Player::new(script), options)
    }

    /// Listens, and lets `respond` decide.
    ///
    /// # Errors
    /// As [`ScriptServer::start`].
    pub fn start_with(respond: impl Respond, options: ScriptOptions) -> Result<Self, ScriptError> {
        let port = options.port;
        let failed = |source| ScriptError::Listen { port, source };
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let listener = TcpListener::from_std(listener).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let cancel = CancelToken::new();
        let tasks = TaskTracker::new();
        let desk = Desk { count: 0, record: options.record, respond: Box::new(respond) };
        let shared = Arc::new(Shared {
            desk: Mutex::new(desk),
            deaf: cancel.child_token(),
            closed: CancelToken::new(),
            cancel: cancel.clone(),
        });
        tasks.spawn(accept(listener, shared, tasks.clone()));
        Ok(Self { address, cancel, tasks })
    }

    /// What a client puts before `/chat/completions`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Closes the port and every connection, and waits until all tasks have ended.
    pub async fn stop(self) {
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for ScriptServer {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

struct Shared {
    desk: Mutex<Desk>,
    /// Ends everything.
    cancel: CancelToken,
    /// Closes the port.
    deaf: CancelToken,
    /// Set when the port is closed.
    closed: CancelToken,
}

/// What is served one request at a time.
struct Desk {
    count: u64,
    record: Option<Recorder>,
    respond: Box<dyn Respond>,
}

impl Desk {
    fn reply(&mut self, connection: u64, head: Parts, body: Bytes) -> Reply {
        self.count += 1;
        let headers = head.headers.iter().map(|(name, value)| {
            let secret = SECRET_HEADERS.contains(&name.as_str());
            let value = String::from_utf8_lossy(value.as_bytes());
            let value = if secret { "(withheld)".to_owned() } else { value.into_owned() };
            (name.to_string(), value)
        });
        let request = Request {
            number: self.count,
            method: head.method.to_string(),
            path: head.uri.path().to_owned(),
            headers: headers.collect(),
            body,
            arrived: Instant::now(),
            connection,
        };
        if let Some(Err(problem)) = self.record.as_ref().map(|record| record.record(&request)) {
            let message = format!("request {} cannot be recorded: {problem}", request.number);
            return Refusal { status: StatusCode::INTERNAL_SERVER_ERROR, message }.reply();
        }
        self.respond.respond(&request)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>, tasks: TaskTracker) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = 0;
    loop {
        let next = async {
            let slot = Arc::clone(&slots).acquire_owned().await;
            (slot, listener.accept().await)
        };
        let accepted = tokio::select! {
            biased;
            () = shared.deaf.cancelled() => break,
            accepted = next => accepted,
        };
        match accepted {
            (Ok(slot), Ok((stream, _))) => {
                connections += 1;
                let serving = serve_connection(stream, connections, Arc::clone(&shared));
                tasks.spawn(async move {
                    serving.await;
                    drop(slot);
                });
            }
            _ => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
    drop(listener);
    shared.closed.cancel();
}

async fn serve_connection(stream: TcpStream, connection: u64, shared: Arc<Shared>) {
    // Without it small pieces would be held back; refused only for a socket that is gone.
    stream.set_nodelay(true).ok();
    let reset = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request: hyper::Request<Incoming>| -> BoxFuture<'static, _> {
        let stage = Stage { shared: Arc::clone(&shared), reset: Arc::clone(&reset) };
        Box::pin(exchange(request, connection, stage))
    });
    let http = hyper::server::conn::http1::Builder::new();
    let mut connection = http.serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        () = shared.cancel.cancelled() => {}
        // An error is the client's leaving or a cut by the script: nobody is left to be told.
        _ = poll_fn(|cx| connection.poll_without_shutdown(cx)) => {}
    }
    let stream = connection.into_parts().io.into_inner();
    if reset.load(Ordering::Acquire) {
        // Refused only for a socket that is gone already.
        stream.set_zero_linger().ok();
    }
}

/// The script closes the connection, or the client has left.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed")]
struct Closed;

type Body = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Closed>>>;

async fn exchange(
    request: hyper::Request<Incoming>,
    connection: u64,
    stage: Stage,
) -> Result<hyper::Response<Body>, Closed> {
    let (head, body) = request.into_parts();
    let reply = match Limited::new(body, MAX_BODY_BYTES).collect().await {
        Ok(body) => {
            let body = body.to_bytes();
            let mut desk = stage.shared.desk.lock().unwrap_or_else(PoisonError::into_inner);
            desk.reply(connection, head, body)
        }
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            let message = format!("the body is longer than {MAX_BODY_BYTES} bytes");
            Refusal { status: StatusCode::PAYLOAD_TOO_LARGE, message }.reply()
        }
        Err(_) => return Err(Closed),
    };
    for step in reply.before {
        stage.pause(step).await?;
    }
    let body = stream::unfold((reply.body.into_iter(), stage), |(mut steps, stage)| async move {
        loop {
            match steps.next()? {
                Step::Send(bytes) => return Some((Ok(Frame::data(bytes)), (steps, stage))),
                step => {
                    if let Err(closed) = stage.pause(step).await {
                        return Some((Err(closed), (Vec::new().into_iter(), stage)));
                    }
                }
            }
        }
    });
    let mut response = hyper::Response::new(StreamBody::new(body.boxed()));
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    response.headers_mut().insert(SCRIPTED_HEADER, HeaderValue::from_static("true"));
    Ok(response)
}

/// What steps other than sending need.
struct Stage {
    shared: Arc<Shared>,
    reset: Arc<AtomicBool>,
}

impl Stage {
    async fn pause(&self, step: Step) -> Result<(), Closed> {
        match step {
            Step::Send(_) => Ok(()),
            Step::Wait(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Step::Stall(limit) => {
                // hyper drops the response, and this with it, when the client leaves.
                tokio::time::sleep(limit).await;
                Err(Closed)
            }
            Step::Cut => {
                // What was sent before is flushed while this waits.
                tokio::task::yield_now().await;
                Err(Closed)
            }
            Step::Reset => {
                tokio::task::yield_now().await;
                self.reset.store(true, Ordering::Release);
                Err(Closed)
            }
            Step::Deaf => {
                self.shared.deaf.cancel();
                self.shared.closed.cancelled().await;
                Ok(())
            }
        }
    }
}
