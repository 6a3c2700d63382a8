//! One request on the wire: from the rendered body to the parts of the answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use reins_agent::{StreamPart, WireCall};
use reins_schema::{Failure, FailureCode};
use reins_world::{Clock, HttpError, HttpRequest, HttpResponse};
use serde::Deserialize;

use super::error::{self, Refused};
use super::stream::ChatDecoder;
use super::{Connection, ProviderServices, connect};
use crate::config::Route;

/// The most that is read of the body of a refusal.
const REFUSAL_MAX: usize = 64 * 1024;
/// How long the end of the body is awaited after the end mark, so that the connection can be used
/// again. Usually it has arrived already.
const LINGER: Duration = Duration::from_millis(50);
const USER_AGENT: &str = concat!("reins/", env!("CARGO_PKG_VERSION"));
const REQUEST_ID_HEADERS: [&str; 3] = ["x-request-id", "x-deepseek-request-id", "request-id"];

type Parts = BoxStream<'static, Result<StreamPart, Failure>>;
type Body = BoxStream<'static, Result<Bytes, HttpError>>;

/// Sends once. Nothing happens before the first poll; dropping the stream ends everything.
pub(super) fn send(route: Arc<Route>, services: ProviderServices, call: WireCall) -> Parts {
    let exchange = async move {
        let connection = match connect(&route, &services.env) {
            Ok(connection) => connection,
            Err(failure) => return failed(failure),
        };
        let host = host(&connection.url).to_owned();
        let (bytes, model) = (call.body.len(), || model_of(&call.body));
        log::debug!("{}: {bytes} bytes to {host} for model {}", route.id, model());
        let began = services.clock.monotonic_ms();
        let opened = open(&route, &services, &connection, call.body.clone()).await;
        let ms = services.clock.monotonic_ms().saturating_sub(began);
        match opened {
            Ok(answer) => {
                log::debug!("{}: {host} begins to answer after {ms} ms", route.id);
                answer.parts(connection)
            }
            Err(failure) => {
                // Its words may quote what was sent.
                let status = failure.status.map(|status| format!(", status {status}"));
                let status = status.unwrap_or_default();
                log::debug!("{}: {host}: {}{status} after {ms} ms", route.id, failure.code);
                failed(error::clean(failure, &connection.secrets))
            }
        }
    };
    stream::once(exchange).flatten().boxed()
}

/// Host and port of an address.
fn host(url: &str) -> &str {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    after_scheme.split('/').next().unwrap_or_default()
}

fn failed(failure: Failure) -> Parts {
    stream::once(std::future::ready(Err(failure))).boxed()
}

/// Waits for the head; a refusal is read and turned into its failure.
async fn open(
    route: &Route,
    services: &ProviderServices,
    connection: &Connection,
    body: Bytes,
) -> Result<Answer, Failure> {
    let request = HttpRequest {
        method: "POST",
        url: connection.url.clone(),
        headers: headers(route, connection),
        body: body.clone(),
    };
    let wait = Duration::from_millis(route.head_timeout_ms);
    let response = tokio::select! {
        biased;
        response = services.http.send(request) => response.map_err(|e| transport(&e))?,
        () = pause(&*services.clock, wait) => {
            let seconds = wait.as_secs_f64();
            let message = format!(
                "`{}` did not begin to answer for {seconds} s (`head_timeout_ms`)",
                connection.url
            );
            return Err(Failure::new(FailureCode::Timeout, message));
        }
    };
    let request_id =
        REQUEST_ID_HEADERS.iter().find_map(|name| response.header(name)).map(str::to_owned);
    let idle = Duration::from_millis(route.idle_timeout_ms);
    if !(200..300).contains(&response.status) {
        let refusal = Refusal { request_id, idle, model: model_of(&body) };
        return Err(refusal.read(response, connection, &*services.clock).await);
    }
    Ok(Answer {
        decoder: ChatDecoder::new(response.header("content-type"), route.quirks.done_mark),
        body: response.body,
        parts: VecDeque::new(),
        over: None,
        clock: Arc::clone(&services.clock),
        idle,
        url: connection.url.clone(),
        request_id,
    })
}

fn headers(route: &Route, connection: &Connection) -> Vec<(String, String)> {
    let mut headers = vec![
        ("content-type".to_owned(), "application/json".to_owned()),
        ("accept".to_owned(), "text/event-stream".to_owned()),
        ("user-agent".to_owned(), USER_AGENT.to_owned()),
    ];
    headers.extend(route.headers.iter().cloned());
    if let Some(key) = &connection.key {
        headers.push(("authorization".to_owned(), format!("Bearer {key}")));
    }
    headers
}

/// The clock is asked only when the other side was not ready.
async fn pause(clock: &dyn Clock, wait: Duration) {
    clock.sleep(wait).await;
}

fn transport(problem: &HttpError) -> Failure {
    let code = match problem {
        HttpError::Url { .. } | HttpError::Header { .. } => FailureCode::InvalidRequest,
        _ => FailureCode::Transport,
    };
    Failure::new(code, problem.to_string())
}

fn model_of(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Model {
        model: String,
    }
    serde_json::from_slice(body).map_or_else(|_| String::new(), |body: Model| body.model)
}

/// A response that is no success, while its reason is read.
struct Refusal {
    request_id: Option<String>,
    idle: Duration,
    model: String,
}

impl Refusal {
    async fn read(
        self,
        mut response: HttpResponse,
        connection: &Connection,
        clock: &dyn Clock,
    ) -> Failure {
        let mut text: Vec<u8> = Vec::new();
        while text.len() < REFUSAL_MAX {
            // The status alone says enough when its words do not arrive.
            let piece = tokio::select! {
                biased;
                piece = response.body.next() => piece,
                () = pause(clock, self.idle) => None,
            };
            let Some(Ok(piece)) = piece else { break };
            text.extend_from_slice(&piece[..piece.len().min(REFUSAL_MAX - text.len())]);
        }
        let failure = error::refused(&Refused {
            status: response.status,
            body: &String::from_utf8_lossy(&text),
            url: &connection.url,
            model: &self.model,
            key_from: &connection.key_from,
            should_retry: match response.header("x-should-retry") {
                Some("true") => Some(true),
                Some("false") => Some(false),
                _ => None,
            },
        });
        let retry_after_ms = error::retry_after(
            response.header("retry-after-ms"),
            response.header("retry-after"),
            clock.now_ms(),
        );
        let mut message = failure.message;
        if let Some(ms) = retry_after_ms {
            message.push_str(&format!("; it asks to wait {}", error::wait(ms)));
        }
        Failure { message, retry_after_ms, request_id: self.request_id, ..failure }
    }
}

/// An answer that arrives.
struct Answer {
    decoder: ChatDecoder,
    body: Body,
    parts: VecDeque<StreamPart>,
    /// Set once nothing more is read; the parts that are left come first.
    over: Option<Result<(), Failure>>,
    clock: Arc<dyn Clock>,
    idle: Duration,
    url: String,
    request_id: Option<String>,
}

impl Answer {
    fn parts(self, connection: Connection) -> Parts {
        let secrets = connection.secrets;
        let next = |mut answer: Box<Self>| async move {
            loop {
                if let Some(part) = answer.parts.pop_front() {
                    return Some((Ok(part), answer));
                }
                match answer.over.take() {
                    None => answer.over = answer.read().await,
                    Some(Ok(())) => {
                        answer.linger().await;
                        return None;
                    }
                    Some(Err(failure)) => {
                        answer.over = Some(Ok(()));
                        answer.body = stream::empty().boxed();
                        return Some((Err(failure), answer));
                    }
                }
            }
        };
        stream::unfold(Box::new(self), next)
            .map(move |part| part.map_err(|failure| error::clean(failure, &secrets)))
            .boxed()
    }

    /// One piece of the body; says when and how the answer is over.
    async fn read(&mut self) -> Option<Result<(), Failure>> {
        let piece = tokio::select! {
            biased;
            piece = self.body.next() => piece,
            () = pause(&*self.clock, self.idle) => {
                let message = format!(
                    "no data from `{}` for {} s (`idle_timeout_ms`)",
                    self.url,
                    self.idle.as_secs_f64()
                );
                return Some(Err(self.known(Failure::new(FailureCode::Timeout, message))));
            }
        };
        let result = match piece {
            None => self.decoder.end(&mut self.parts).map(|()| true),
            Some(Ok(bytes)) => {
                self.decoder.push(&bytes, &mut self.parts).map(|()| self.decoder.is_done())
            }
            Some(Err(problem)) => Err(transport(&problem)),
        };
        match result {
            Ok(true) => Some(Ok(())),
            Ok(false) => None,
            Err(failure) => {
                let url = &self.url;
                let message = match failure.code {
                    FailureCode::MalformedResponse | FailureCode::StreamClosed => {
                        format!("`{url}`: {}", failure.message)
                    }
                    _ => failure.message,
                };
                Some(Err(self.known(Failure { message, ..failure })))
            }
        }
    }

    /// One more read after the end mark; what it brings means nothing.
    async fn linger(&mut self) {
        tokio::select! {
            biased;
            piece = self.body.next() => drop(piece),
            () = pause(&*self.clock, LINGER) => {}
        }
    }

    fn known(&self, failure: Failure) -> Failure {
        Failure { request_id: self.request_id.clone(), ..failure }
    }
}
