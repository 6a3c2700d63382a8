//! Outgoing HTTP of this machine.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use reins_kernel::BoxFuture;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, ClientBuilder, Method, Url};
use tokio::sync::OnceCell;

use crate::http::{Http, HttpError, HttpRequest, HttpResponse};

/// Connections kept open per host while idle, and for how long.
const IDLE_PER_HOST: usize = 4;
const IDLE_TIME: Duration = Duration::from_secs(60);

/// Sends requests from this machine; without proxies so far.
#[derive(Clone)]
pub struct LocalHttp {
    shared: Arc<Shared>,
}

struct Shared {
    connect_timeout: Duration,
    /// For `http`: loads no certificates, so that it costs nothing to build.
    plain: OnceCell<Client>,
    /// For `https`: certificates as the platform has them, loaded on first use.
    tls: OnceCell<Client>,
}

impl LocalHttp {
    /// `connect_timeout` bounds name lookup, connection and TLS handshake together.
    pub fn new(connect_timeout: Duration) -> Self {
        // Process-wide; an error only says that it is installed already.
        drop(rustls::crypto::ring::default_provider().install_default());
        let (plain, tls) = (OnceCell::new(), OnceCell::new());
        Self { shared: Arc::new(Shared { connect_timeout, plain, tls }) }
    }
}

impl Http for LocalHttp {
    fn send(&self, request: HttpRequest) -> BoxFuture<'static, Result<HttpResponse, HttpError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.send(request).await })
    }
}

impl Shared {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let url = usable(&request.url)?;
        let host = authority(&url);
        let headers = header_map(&request.headers)?;
        let method = Method::from_bytes(request.method.as_bytes()).map_err(|_| HttpError::Url {
            url: shown(&request.url),
            problem: format!("`{}` is not a method", request.method),
        })?;
        let client = self.client(&url, &host).await?;
        let mut outgoing = client.request(method.clone(), url).headers(headers);
        if method != Method::GET || !request.body.is_empty() {
            outgoing = outgoing.body(request.body);
        }
        let response = outgoing.send().await.map_err(|error| self.refused(&host, &error))?;
        let headers = response.headers().iter();
        Ok(HttpResponse {
            status: response.status().as_u16(),
            headers: headers
                .map(|(name, value)| {
                    let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
                    (name.as_str().to_owned(), value)
                })
                .collect(),
            body: response
                .bytes_stream()
                .map(move |piece| piece.map_err(|error| broken(&host, &error)))
                .boxed(),
        })
    }

    async fn client(&self, url: &Url, host: &str) -> Result<&Client, HttpError> {
        let refused = |problem: String| HttpError::Connect { host: host.to_owned(), problem };
        if url.scheme() == "http" {
            let build = async { self.base().tls_certs_only([]).build() };
            let built = self.plain.get_or_try_init(|| build).await;
            return built.map_err(|error| refused(chain(&error)));
        }
        let builder = self.base();
        let build = || async move {
            // Reads some hundred files.
            let built = tokio::task::spawn_blocking(move || builder.build()).await;
            let built = built.map_err(|error| format!("the TLS set-up ended early: {error}"))?;
            built.map_err(|error| chain(&error))
        };
        self.tls.get_or_try_init(build).await.map_err(refused)
    }

    fn base(&self) -> ClientBuilder {
        Client::builder()
            .connect_timeout(self.connect_timeout)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .no_proxy()
            .tcp_nodelay(true)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .pool_idle_timeout(IDLE_TIME)
    }

    fn refused(&self, host: &str, error: &reqwest::Error) -> HttpError {
        if !error.is_connect() {
            return broken(host, error);
        }
        let problem = if error.is_timeout() {
            format!("no answer within {} ms", self.connect_timeout.as_millis())
        } else {
            chain(error)
        };
        HttpError::Connect { host: host.to_owned(), problem }
    }
}

fn broken(host: &str, error: &reqwest::Error) -> HttpError {
    HttpError::Broken { host: host.to_owned(), problem: chain(error) }
}

/// The causes' words without the outermost one, which only says that there was an error, and
/// which would name the whole URL.
fn chain(error: &reqwest::Error) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        let text = text.split(" (os error").next().unwrap_or_default().to_owned();
        // Some layers repeat the words of the next one.
        if words.last().is_none_or(|last| !last.contains(&text)) {
            words.push(text);
        }
        cause = error.source();
    }
    if words.is_empty() { "the request could not be made".to_owned() } else { words.join(": ") }
}

fn usable(given: &str) -> Result<Url, HttpError> {
    let refused = |problem: String| HttpError::Url { url: shown(given), problem };
    let url = Url::parse(given).map_err(|error| refused(error.to_string()))?;
    match url.scheme() {
        "http" | "https" if url.has_host() => Ok(url),
        other => Err(refused(format!("`http` or `https` is needed, not `{other}`"))),
    }
}

/// Without what may hold a key.
fn shown(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    match (plain.find("://"), plain.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            format!("{}{}", &plain[..scheme + 3], &plain[at + 1..])
        }
        _ => plain.to_owned(),
    }
}

fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port_or_known_default().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, HttpError> {
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let refused = || HttpError::Header { name: name.clone() };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| refused())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| refused())?;
        value.set_sensitive(true);
        map.append(key, value);
    }
    Ok(map)
}
