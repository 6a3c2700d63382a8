//! The dialect `chat`: chat completions, as DeepSeek and compatible servers speak it.

mod check;
mod chunk;
mod error;
mod plugin;
mod request;
mod send;
mod stream;
mod surrogate;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures_util::stream::BoxStream;
use reins_agent::{ModelInfo, Provider, Renderer, ResolvedCall, RetryPolicy, StreamPart, WireCall};
use reins_schema::{AdapterDefaults, CallConfig, Failure, FailureCode};
use reins_world::{Clock, Http};

pub use check::{Fault, Rules, check_body};
pub(crate) use plugin::PLUGIN;
pub use request::{ChatRenderer, DIALECT, RENDERER_VERSION};
pub use stream::ChatDecoder;

use crate::config::{ConfigError, Given, ProviderConfig, Route};
use crate::redact::Secrets;
use crate::vendor::{Model, Unlisted};

/// Reads an environment variable; an empty value counts as none.
pub type EnvLookup = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What a provider reaches the world through.
#[derive(Clone)]
pub struct ProviderServices {
    /// Sends requests.
    pub http: Arc<dyn Http>,
    /// Bounds the waits.
    pub clock: Arc<dyn Clock>,
    /// Asked for keys and base URLs at each request, so that a key added later works at once.
    pub env: EnvLookup,
}

/// A provider that speaks chat completions.
pub struct ChatProvider {
    route: Arc<Route>,
    services: ProviderServices,
}

impl ChatProvider {
    /// The provider of the row with this id.
    ///
    /// # Errors
    /// The configuration names an unknown vendor, or a field's value cannot work.
    pub fn new(
        row: &str,
        config: ProviderConfig,
        services: ProviderServices,
    ) -> Result<Self, ConfigError> {
        Ok(Self { route: Arc::new(Route::new(row, config)?), services })
    }

    /// Other names that mean this provider.
    pub fn aliases(&self) -> &[String] {
        &self.route.aliases
    }

    pub(crate) fn withhold_secrets(&self, env: &reins_world::Env) {
        self.route.withhold_secrets(env);
    }

    /// The rules that the strict checker applies to its requests.
    pub fn rules(&self) -> Rules {
        Rules::of(self.route.quirks)
    }

    fn model(&self, id: &str) -> Result<Option<&Model>, Failure> {
        let route = &self.route;
        let known = route.models.iter().find(|model| model.id == id);
        if known.is_some() || route.unlisted == Unlisted::Allow {
            return Ok(known);
        }
        let ids: Vec<&str> = route.models.iter().map(|model| model.id.as_str()).collect();
        let near = match reins_kernel::nearest(id, ids.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? Its"),
            None => "its".to_owned(),
        };
        let message = format!(
            "provider `{}` has no model `{id}`; {near} models are {}; to use others: `reins config \
             set {}.unlisted_models allow`",
            route.id,
            ids.join(", "),
            route.row
        );
        Err(Failure::new(FailureCode::InvalidRequest, message))
    }
}

impl Provider for ChatProvider {
    fn id(&self) -> &str {
        &self.route.id
    }

    fn models(&self) -> Vec<ModelInfo> {
        let info = |model: &Model| ModelInfo {
            id: model.id.clone(),
            context_window: model.context_window,
        };
        self.route.models.iter().map(info).collect()
    }

    fn ready(&self) -> Result<(), Failure> {
        connect(&self.route, &self.services.env).map(drop)
    }

    fn resolve(&self, config: CallConfig) -> Result<ResolvedCall, Failure> {
        let route = &self.route;
        let mut config = CallConfig { provider: route.id.clone(), ..config };
        if config.model.is_empty() {
            let first = route.models.first().map(|model| model.id.clone());
            config.model = first.ok_or_else(|| {
                let message = format!("provider `{0}` needs a model: `{0}/<model>`", route.id);
                Failure::new(FailureCode::InvalidRequest, message)
            })?;
        }
        let model = self.model(&config.model)?;
        let context_window = model.and_then(|model| model.context_window);
        let mut defaults = AdapterDefaults::default();
        if config.max_tokens.is_none() {
            config.max_tokens = route.max_tokens.or_else(|| model.and_then(|m| m.max_tokens));
            defaults.max_tokens = config.max_tokens.is_some();
        }
        if config.reasoning_effort.is_none() {
            config.reasoning_effort.clone_from(&route.effort);
            defaults.reasoning_effort = config.reasoning_effort.is_some();
        }
        if let Some(effort) = &config.reasoning_effort
            && !route.efforts.is_empty()
            && !route.efforts.contains(effort)
        {
            let efforts = route.efforts.join(", ");
            let message =
                format!("provider `{}` has no effort `{effort}`; it has {efforts}", route.id);
            return Err(Failure::new(FailureCode::InvalidRequest, message));
        }
        Ok(ResolvedCall { config, defaults, context_window })
    }

    fn renderer(&self) -> Box<dyn Renderer> {
        let route = &self.route;
        Box::new(ChatRenderer::new(&route.id, &route.aliases, route.quirks))
    }

    fn send(&self, call: WireCall) -> BoxStream<'static, Result<StreamPart, Failure>> {
        send::send(Arc::clone(&self.route), self.services.clone(), call)
    }

    fn retry_policy(&self) -> RetryPolicy {
        self.route.retry.clone()
    }
}

/// Everything of a route that is looked up for one request, once.
struct Connection {
    /// Of the end point.
    url: String,
    key: Option<String>,
    /// For messages.
    key_from: String,
    secrets: Secrets,
}

fn connect(route: &Route, env: &EnvLookup) -> Result<Connection, Failure> {
    let read = |name: &str| env(name).filter(|value| !value.trim().is_empty());
    let url = end_point(route, &read)?;
    let (key, key_from) = match &route.key {
        None => (None, format!("row `{}`, which gives none: set `api_key_env`", route.row)),
        Some(Given::Row(key)) => (Some(key.clone()), format!("`api_key` of row `{}`", route.row)),
        Some(Given::Env(name)) => {
            let key = read(name).ok_or_else(|| {
                let message = format!(
                    "no key for provider `{}`: set the environment variable {name}, or \
                     `api_key_env` or `api_key` in the settings of row `{}`",
                    route.id, route.row
                );
                Failure::new(FailureCode::Auth, message)
            })?;
            (Some(key), format!("the environment variable {name}"))
        }
    };
    let key = key.map(|key| key.trim().to_owned());
    if let Some(key) = &key
        && (key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()))
    {
        let fault =
            if key.is_empty() { "is empty" } else { "holds a space or a special character" };
        let message = format!("the key from {key_from} {fault}; copy it again");
        return Err(Failure::new(FailureCode::Auth, message));
    }
    let secrets = route.header_secrets.with(key.clone());
    Ok(Connection { url, key, key_from, secrets })
}

/// The URL of the end point; slashes at the end of the base URL mean nothing.
fn end_point(route: &Route, read: &dyn Fn(&str) -> Option<String>) -> Result<String, Failure> {
    let from_env = || {
        let name = route.base_url_env.as_deref()?;
        Some((read(name)?, format!("the environment variable {name}")))
    };
    let row = || Some((route.base_url.clone()?, format!("`base_url` of row `{}`", route.row)));
    let vendor = || Some((route.default_base_url.clone()?, "the vendor".to_owned()));
    let invalid = |message: String| Failure::new(FailureCode::InvalidRequest, message);
    let Some((base, from)) = row().or_else(from_env).or_else(vendor) else {
        let name = route.base_url_env.as_deref().unwrap_or_default();
        return Err(invalid(format!(
            "no address for provider `{}`: set `base_url` in row `{}` or the environment \
             variable {name}",
            route.id, route.row
        )));
    };
    match base_fault(&base) {
        Some(fault) => Err(invalid(format!("{from} {fault}"))),
        None => Ok(format!("{}/chat/completions", trimmed(&base))),
    }
}

fn trimmed(base: &str) -> &str {
    base.trim().trim_end_matches('/')
}

/// Whether what follows the host's colon, if there is one, is a port.
fn has_port(host: &str) -> bool {
    let authority = host.split('/').next().unwrap_or_default();
    let after_address = authority.rsplit_once(']').map_or(authority, |(_, rest)| rest);
    after_address.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_ok())
}

/// An address for a message: without what stands before an `@` and after a `?`.
fn without_secrets(base: &str) -> String {
    let (base, query) = base.split_once('?').map_or((base, ""), |(base, _)| (base, "?…"));
    let host = base.rsplit_once('@').map(|(_, host)| host);
    host.map_or_else(|| format!("{base}{query}"), |host| format!("…@{host}{query}"))
}

/// What is wrong with a base URL, to be read after what it came from.
pub(crate) fn base_fault(base: &str) -> Option<String> {
    let base = trimmed(base);
    let host = ["https://", "http://"].iter().find_map(|scheme| base.strip_prefix(scheme));
    if host.is_some_and(|host| host.split('/').next().is_some_and(|host| host.contains('@'))) {
        return Some("holds a name or password; a key belongs in `api_key`".to_owned());
    }
    let no_url = host
        .is_none_or(|host| host.is_empty() || host.starts_with('/') || !has_port(host))
        || base.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#'));
    if !no_url && base.ends_with("/chat/completions") {
        return Some("must not hold `/chat/completions`, which is appended to it".to_owned());
    }
    let quoted = error::quote(&without_secrets(base));
    no_url.then(|| format!("is no base URL such as `https://api.deepseek.com`: `{quoted}`"))
}
