//! What a row says of its provider, and what becomes of it.

use std::collections::BTreeMap;

use reins_agent::RetryPolicy;
use reins_kernel::nearest;
use reins_schema::FailureCode;
use reins_world::Env;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chat::base_fault;
use crate::redact::Secrets;
use crate::vendor::{Model, Quirks, Unlisted, Vendor, VendorError};

/// Headers that the dialect sets itself.
const OWN_HEADERS: [&str; 7] = [
    "accept",
    "authorization",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "user-agent",
];

/// The longest waits that can be configured: above it a timer would overflow.
const MILLIS_MAX: u64 = i32::MAX as u64;

/// The `config` of a provider row.
///
/// Everything that is left out comes from the vendor.
// It may hold keys, so it has no debug text.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// The kind of service: `deepseek`, or `compatible` for any server of chat completions.
    #[schemars(extend("enum" = Vendor::names().collect::<Vec<_>>()))]
    pub vendor: String,
    /// What stands before the `/` of `id/model`. Left out: the vendor's, else the row's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Where the service is, with `http://` or `https://`, without `/chat/completions`.
    /// `compatible` needs it or `base_url_env`. Left out: the vendor's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// An environment variable that holds the base URL, used when `base_url` is absent. Left out:
    /// the vendor's, for `deepseek` `DEEPSEEK_BASE_URL`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "variable"))]
    pub base_url_env: Option<String>,
    /// The key; better `${env:NAME}` than the key itself. Left out: see `api_key_env`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("writeOnly" = true))]
    pub api_key: Option<String>,
    /// The environment variable that holds the key, read at each request. Left out: the vendor's,
    /// for `deepseek` `DEEPSEEK_API_KEY`. Without both, no key is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "variable"))]
    pub api_key_env: Option<String>,
    /// Replaces the vendor's list of models. Left out: the vendor's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<Model>>,
    /// What happens to a model that is not listed. Left out: `refuse` for `deepseek`, `allow` for
    /// `compatible`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlisted_models: Option<Unlisted>,
    /// More headers of each request.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("writeOnly" = true, "default" = {}))]
    pub headers: BTreeMap<String, String>,
    /// The effort of calls that name none. `deepseek` takes `off`, `high` and `max`; left out, it
    /// is `high` there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The output limit, in tokens, of calls that name none. Left out: the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_tokens: Option<u64>,
    /// The longest wait for the head of a response, in milliseconds.
    #[serde(default = "default_timeout_ms")]
    #[schemars(range(min = 1, max = MILLIS_MAX))]
    pub head_timeout_ms: u64,
    /// The longest wait for each further piece of it, in milliseconds.
    #[serde(default = "default_timeout_ms")]
    #[schemars(range(min = 1, max = MILLIS_MAX))]
    pub idle_timeout_ms: u64,
    /// When a failed attempt is repeated.
    #[serde(default)]
    pub retry: RetryConfig,
    /// Replaces how the server differs from others, all three together. Left out: the vendor's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quirks: Option<Quirks>,
}

fn default_timeout_ms() -> u64 {
    120_000
}

/// When a failed attempt is repeated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RetryConfig {
    /// Which failures, by their codes. Those of the default are safe to repeat, also in the middle
    /// of an answer: nothing of a failed attempt is executed or kept.
    pub codes: Vec<String>,
    /// How often in one step; 0 = never.
    pub max_retries: u32,
    /// The first wait in milliseconds; it doubles each time.
    pub initial_delay_ms: u64,
    /// The longest wait in milliseconds, at least `initial_delay_ms`. A provider that asks for a
    /// longer one is not asked again.
    #[schemars(range(max = MILLIS_MAX))]
    pub max_delay_ms: u64,
    /// The part of a wait that is random.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub jitter: f64,
}

impl Default for RetryConfig {
    fn default() -> Self {
        let codes = [
            FailureCode::RateLimit,
            FailureCode::Overloaded,
            FailureCode::Server,
            FailureCode::Transport,
            FailureCode::Timeout,
            FailureCode::StreamClosed,
            FailureCode::EmptyResponse,
        ];
        Self {
            codes: codes.iter().map(ToString::to_string).collect(),
            max_retries: 2,
            initial_delay_ms: 500,
            max_delay_ms: 10_000,
            jitter: 0.1,
        }
    }
}

/// A row's configuration that cannot work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// See [`VendorError`].
    #[error(transparent)]
    Vendor(#[from] VendorError),
    /// A field's value.
    #[error("{problem}")]
    Field {
        /// Path of the field.
        field: String,
        /// What is wrong and what would be right.
        problem: String,
    },
}

impl ConfigError {
    fn field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Field { field: field.into(), problem: problem.into() }
    }

    /// The field that is to blame.
    pub fn at(&self) -> &str {
        match self {
            Self::Vendor(_) => "vendor",
            Self::Field { field, .. } => field,
        }
    }
}

/// Where something secret or local is read from.
#[derive(Clone)]
pub(crate) enum Given {
    /// The row.
    Row(String),
    /// An environment variable, read at each use.
    Env(String),
}

/// Everything about a provider that does not change while its row is mounted.
#[derive(Clone)]
pub(crate) struct Route {
    pub(crate) row: String,
    pub(crate) id: String,
    pub(crate) aliases: Vec<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) base_url_env: Option<String>,
    pub(crate) default_base_url: Option<String>,
    pub(crate) key: Option<Given>,
    pub(crate) models: Vec<Model>,
    pub(crate) unlisted: Unlisted,
    pub(crate) efforts: Vec<String>,
    pub(crate) effort: Option<String>,
    pub(crate) max_tokens: Option<u64>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) header_secrets: Secrets,
    pub(crate) head_timeout_ms: u64,
    pub(crate) idle_timeout_ms: u64,
    pub(crate) retry: RetryPolicy,
    pub(crate) quirks: Quirks,
}

impl Route {
    /// Marks the variables that hold this provider's secrets, whatever their names: children must
    /// not get them.
    pub(crate) fn withhold_secrets(&self, env: &Env) {
        match &self.key {
            Some(Given::Env(name)) => env.withhold(name),
            Some(Given::Row(key)) => env.withhold_value(key),
            None => {}
        }
        self.header_secrets.values().for_each(|value| env.withhold_value(value));
    }

    /// Joins row and vendor.
    pub(crate) fn new(row: &str, config: ProviderConfig) -> Result<Self, ConfigError> {
        let vendor = Vendor::named(&config.vendor)?;
        check(&config, &vendor)?;
        let id = config.id.clone().or_else(|| vendor.provider.clone());
        let id = id.unwrap_or_else(|| row.to_owned());
        if id.is_empty() || id.contains('/') || id.contains(char::is_whitespace) {
            let problem = format!("`{id}` cannot stand before the `/` of `id/model`");
            return Err(ConfigError::field("id", problem));
        }
        let aliases = if config.id.is_none() { vendor.aliases } else { Vec::new() };
        let headers: Vec<(String, String)> = config
            .headers
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        let key = match (config.api_key, config.api_key_env.or(vendor.api_key_env)) {
            (Some(key), _) => Some(Given::Row(key)),
            (None, variable) => variable.map(Given::Env),
        };
        Ok(Self {
            row: row.to_owned(),
            id,
            aliases,
            base_url: config.base_url,
            base_url_env: config.base_url_env.or(vendor.base_url_env),
            default_base_url: vendor.base_url,
            key,
            models: config.models.unwrap_or(vendor.models),
            unlisted: config.unlisted_models.unwrap_or(vendor.unlisted_models),
            efforts: vendor.efforts,
            effort: config.effort.or(vendor.effort),
            max_tokens: config.max_tokens,
            header_secrets: Secrets::new(headers.iter().map(|(_, value)| value.clone())),
            headers,
            head_timeout_ms: config.head_timeout_ms,
            idle_timeout_ms: config.idle_timeout_ms,
            retry: retry_policy(config.retry)?,
            quirks: config.quirks.unwrap_or(vendor.quirks),
        })
    }
}

fn check(config: &ProviderConfig, vendor: &Vendor) -> Result<(), ConfigError> {
    let no_url = config.base_url.is_none()
        && config.base_url_env.is_none()
        && vendor.base_url.is_none()
        && vendor.base_url_env.is_none();
    if no_url {
        let problem = format!("vendor `{}` needs a base URL: set `base_url`", vendor.name);
        return Err(ConfigError::field("base_url", problem));
    }
    if let Some(fault) = config.base_url.as_deref().and_then(base_fault) {
        return Err(ConfigError::field("base_url", fault));
    }
    check_variables(config)?;
    for (name, value) in &config.headers {
        let field = || format!("headers.{name}");
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(token) {
            let problem = "has a character that names of headers do not have";
            return Err(ConfigError::field(field(), problem));
        }
        if value.chars().any(|c| c.is_control() && c != '\t') {
            let problem =
                "has a line break or another control character, which HTTP does not allow";
            return Err(ConfigError::field(field(), problem));
        }
        let lower = name.to_ascii_lowercase();
        if OWN_HEADERS.contains(&lower.as_str()) {
            let problem = format!("header `{lower}` is set by Reins; a key belongs in `api_key`");
            return Err(ConfigError::field(field(), problem));
        }
    }
    if config
        .api_key
        .as_deref()
        .is_some_and(|key| !key.trim().bytes().all(|b| b.is_ascii_graphic()))
    {
        let problem = "holds a space or a special character; copy it again";
        return Err(ConfigError::field("api_key", problem));
    }
    check_models(config.models.as_deref().unwrap_or_default())?;
    if let Some(effort) = &config.effort
        && !vendor.efforts.is_empty()
        && !vendor.efforts.contains(effort)
    {
        let near = nearest(effort, vendor.efforts.iter().map(String::as_str));
        let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let problem = format!("`{effort}` is none of {}{hint}", vendor.efforts.join(", "));
        return Err(ConfigError::field("effort", problem));
    }
    let waits = [
        ("head_timeout_ms", config.head_timeout_ms, 1),
        ("idle_timeout_ms", config.idle_timeout_ms, 1),
        ("retry.max_delay_ms", config.retry.max_delay_ms, config.retry.initial_delay_ms),
    ];
    for (field, value, least) in waits {
        if !(least..=MILLIS_MAX).contains(&value) {
            let problem = format!("{value} is not between {least} and {MILLIS_MAX}");
            return Err(ConfigError::field(field, problem));
        }
    }
    if config.max_tokens == Some(0) {
        return Err(ConfigError::field("max_tokens", "an answer needs at least 1 token"));
    }
    Ok(())
}

/// The value is not repeated: a key in the place of its variable is the commonest slip.
fn check_variables(config: &ProviderConfig) -> Result<(), ConfigError> {
    for (field, name) in
        [("api_key_env", &config.api_key_env), ("base_url_env", &config.base_url_env)]
    {
        if name.as_deref().is_some_and(|name| !is_variable(name)) {
            let problem = "is no name of an environment variable, such as `DEEPSEEK_API_KEY`; what \
                           the variable holds does not belong here";
            return Err(ConfigError::field(field, problem));
        }
    }
    Ok(())
}

fn is_variable(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| !c.is_ascii_digit()) && name.chars().all(is_inner)
}

fn check_models(models: &[Model]) -> Result<(), ConfigError> {
    for (index, model) in models.iter().enumerate() {
        let problem = match &*model.id {
            "" => "must not be empty".to_owned(),
            id if models[..index].iter().any(|earlier| earlier.id == id) => {
                format!("`{id}` is there twice; keep one")
            }
            _ => continue,
        };
        return Err(ConfigError::field(format!("models[{index}].id"), problem));
    }
    Ok(())
}

fn retry_policy(retry: RetryConfig) -> Result<RetryPolicy, ConfigError> {
    if !(0.0..=1.0).contains(&retry.jitter) {
        let problem = format!("{} is not between 0.0 and 1.0", retry.jitter);
        return Err(ConfigError::field("retry.jitter", problem));
    }
    let mut codes = Vec::new();
    for (index, text) in retry.codes.into_iter().enumerate() {
        let code = FailureCode::from(text);
        if let FailureCode::Other(text) = &code {
            let known = FailureCode::KNOWN.map(|code| code.to_string());
            let hint = match nearest(text, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("codes are {}", known.join(", ")),
            };
            let problem = format!("there is no failure code `{text}`; {hint}");
            return Err(ConfigError::field(format!("retry.codes[{index}]"), problem));
        }
        if codes.contains(&code) {
            let problem = format!("`{code}` is there twice; keep one");
            return Err(ConfigError::field(format!("retry.codes[{index}]"), problem));
        }
        codes.push(code);
    }
    Ok(RetryPolicy {
        codes,
        max_retries: retry.max_retries,
        initial_delay_ms: retry.initial_delay_ms,
        max_delay_ms: retry.max_delay_ms,
        jitter: retry.jitter,
    })
}
