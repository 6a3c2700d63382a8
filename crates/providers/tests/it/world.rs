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
        let closed = ClosedMark(Some(Arc::clone(&self.closed)));
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
            let body = stream::unfold(steps, move |(mut steps, mut closed)| async move {
                loop {
                    let piece = match steps.pop_front() {
                        None => {
                            drop(closed.0.take());
                            return None;
                        }
                        Some(Step::Bytes(text)) => Ok(Bytes::from_static(text.as_bytes())),
                        Some(Step::Flood(bytes)) => {
                            steps.push_front(Step::Flood(bytes));
                            Ok(Bytes::from_static(bytes))
                        }
                        Some(Step::Wait(ms)) => {
                            tokio::time::sleep(Duration::from_millis(ms)).await;
                            continue;
                        }
                        Some(Step::Hang) => std::future::pending().await,
                        Some(Step::Break) => {
                            let problem = "reset by peer".to_owned();
                            Err(HttpError::Broken { host: "test:80".to_owned(), problem })
                        }
                    };
                    return Some((piece, (steps, closed)));
                }
            });
            Ok(HttpResponse { status, headers, body: body.boxed() })
        })
    }
}

struct ClosedMark(Option<Arc<AtomicBool>>);

impl Drop for ClosedMark {
    fn drop(&mut self) {
        if let Some(closed) = &self.0 {
            closed.store(true, Ordering::SeqCst);
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
