//! An HTTP end point that plays scripts, and a clock that tests can stop.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use reins_kernel::BoxFuture;
use reins_providers::{ChatProvider, ProviderConfig, ProviderServices};
use reins_world::{Clock, Http, HttpError, HttpRequest, HttpResponse};

/// What the end point does next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Bytes(&'static str),
    /// In milliseconds.
    Wait(u64),
    Break,
    Hang,
    /// The same bytes for ever.
    Flood(&'static [u8]),
}

/// One response; without a status there never is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) status: Option<u16>,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) steps: Vec<Step>,
}

impl Script {
    pub(crate) fn ok(steps: Vec<Step>) -> Self {
        Self { status: Some(200), headers: vec![("x-request-id", "r-1")], steps }
    }

    pub(crate) fn refusal(status: u16, body: &'static str) -> Self {
        Self { status: Some(status), headers: Vec::new(), steps: vec![Step::Bytes(body)] }
    }
}

pub(crate) struct EndPoint {
    scripts: Mutex<VecDeque<Script>>,
    pub(crate) requests: Mutex<Vec<HttpRequest>>,
    /// Whether a body was dropped before it ended.
    pub(crate) closed: Arc<AtomicBool>,
    pub(crate) env: Mutex<BTreeMap<String, String>>,
}

impl EndPoint {
    pub(crate) fn new(scripts: impl IntoIterator<Item = Script>) -> Arc<Self> {
        let env = [("DEEPSEEK_API_KEY".to_owned(), "sk-test-secret".to_owned())];
        Arc::new(Self {
            scripts: Mutex::new(scripts.into_iter().collect()),
            requests: Mutex::default(),
            closed: Arc::default(),
            env: Mutex::new(env.into()),
        })
    }

    pub(crate) fn set(&self, name: &str, value: &str) {
        self.env.lock().unwrap().insert(name.to_owned(), value.to_owned());
    }

    /// A provider of this configuration whose requests end here.
    pub(crate) fn provider(self: &Arc<Self>, config: &str) -> ChatProvider {
        let config: ProviderConfig = toml::from_str(config).unwrap();
        ChatProvider::new("row-1", config, self.services()).unwrap()
    }

    pub(crate) fn services(self: &Arc<Self>) -> ProviderServices {
        let env = Arc::clone(self);
        ProviderServices {
            http: Arc::<Self>::clone(self),
            clock: Arc::new(TokioClock),
            env: Arc::new(move |name| env.env.lock().unwrap().get(name).cloned()),
        }
    }
}

impl Http for EndPoint {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, HttpError>> {
        self.requests.lock().unwrap().push(request);
        let script = self.scripts.lock().unwrap().pop_front();
        let closed = ClosedMark { closed: Arc::clone(&self.closed), ended: AtomicBool::new(false) };
        Box::pin(async move {
            let host = || "test:80".to_owned();
            let Some(script) = script else {
                let problem = "connection refused".to_owned();
                return Err(HttpError::Connect { host: host(), problem });
            };
            let Some(status) = script.status else { return std::future::pending().await };
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let headers = script.headers.iter().map(owned).collect();
            let steps = (VecDeque::from(script.steps), closed);
            let body = stream::unfold(steps, |(mut steps, closed)| async move {
                let piece = next_piece(&mut steps).await;
                if piece.is_none() {
                    closed.ended();
                }
                Some((piece?, (steps, closed)))
            });
            Ok(HttpResponse { status, headers, body: body.boxed() })
        })
    }
}

/// Plays up to the next piece of the body.
async fn next_piece(steps: &mut VecDeque<Step>) -> Option<Result<Bytes, HttpError>> {
    loop {
        match steps.pop_front()? {
            Step::Bytes(text) => return Some(Ok(Bytes::from_static(text.as_bytes()))),
            Step::Flood(bytes) => {
                steps.push_front(Step::Flood(bytes));
                return Some(Ok(Bytes::from_static(bytes)));
            }
            Step::Wait(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
            Step::Hang => std::future::pending().await,
            Step::Break => {
                let problem = "reset by peer".to_owned();
                return Some(Err(HttpError::Broken { host: "test:80".to_owned(), problem }));
            }
        }
    }
}

/// Tells when a body is dropped that was not read to its end.
struct ClosedMark {
    closed: Arc<AtomicBool>,
    ended: AtomicBool,
}

impl ClosedMark {
    fn ended(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

impl Drop for ClosedMark {
    fn drop(&mut self) {
        if !self.ended.load(Ordering::SeqCst) {
            self.closed.store(true, Ordering::SeqCst);
        }
    }
}

struct TokioClock;

impl Clock for TokioClock {
    fn now_ms(&self) -> i64 {
        1_000_000_000_000
    }

    fn monotonic_ms(&self) -> u64 {
        0
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
