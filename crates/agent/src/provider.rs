//! What a model back end is.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use reins_kernel::Scope;
use reins_schema::{
    AdapterDefaults, CallConfig, Failure, FailureCode, FinishReason, PartKind, RequestHeader,
    RequestSent, SessionId, Usage,
};
use reins_session::{RenderedFacts, Surface};
use serde_json::value::RawValue;

/// A registered back end; an entry under its id.
pub trait Provider: Send + Sync {
    /// The id that addresses it: `deepseek` in `deepseek/deepseek-v4-flash`.
    fn id(&self) -> &str;

    /// Models that are known, best first. Empty when any id is accepted.
    fn models(&self) -> Vec<ModelInfo> {
        Vec::new()
    }

    /// Whether a request could leave now: key present, URL usable. No network.
    ///
    /// # Errors
    /// AUTH when there is no key, saying every way to give one.
    fn ready(&self) -> Result<(), Failure> {
        Ok(())
    }

    /// Fills in defaults and checks what can be checked without the network. Without an
    /// implementation every model is taken as it is.
    ///
    /// # Errors
    /// INVALID_REQUEST for an unknown model (naming the nearest) or an unsupported effort.
    fn resolve(&self, config: CallConfig) -> Result<ResolvedCall, Failure> {
        Ok(ResolvedCall { config, defaults: AdapterDefaults::default(), context_window: None })
    }

    /// A renderer for one agent; it keeps rolling state, so one agent uses one at a time.
    fn renderer(&self) -> Box<dyn Renderer>;

    /// Sends a rendered request once. The stream yields parts and ends after `Finish`, or with one
    /// `Err`. Dropping it closes the connection. No retries inside.
    fn send(&self, call: WireCall) -> BoxStream<'static, Result<StreamPart, Failure>>;

    /// How often and when a failed attempt is repeated.
    fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy::never()
    }
}

/// Another name of a provider: an entry under that name. The id of a provider in reach wins over
/// any such name. A row that adds one under its own id, too, is refused beside a row of the same
/// scope that claims that id as a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderName {
    /// The id of the provider, under which its `dyn Provider` entry stands.
    pub provider: String,
}

/// A known model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// The provider's id of it.
    pub id: String,
    /// In tokens, when known.
    pub context_window: Option<u64>,
}

/// A call with everything filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedCall {
    /// Complete.
    pub config: CallConfig,
    /// Which of it the provider filled in.
    pub defaults: AdapterDefaults,
    /// In tokens, when known.
    pub context_window: Option<u64>,
}

/// Renders requests of one agent. Its output is a function of header, surface and its version.
pub trait Renderer: Send {
    /// The body of the next request, strictly checked. Costs the delta since the last call, plus
    /// copying the body. `previous` is the last `request/sent` of the same purpose; the hash chain
    /// tells how many of its items are the first items of this one.
    ///
    /// # Errors
    /// INVALID_REQUEST when the strict checker finds a fault, UNSUPPORTED_CONTENT.
    fn render(
        &mut self,
        header: &RequestHeader,
        surface: &Surface,
        previous: Option<&RequestSent>,
    ) -> Result<Rendered, Failure>;
}

/// A request ready to leave.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The exact body.
    pub body: Bytes,
    /// For `request/sent`. `cause` names what differs when fewer items are shared: `surface` or
    /// `renderer` or `dialect` or `header`; the driver makes `header` precise.
    pub facts: RenderedFacts,
}

/// What goes on the wire.
#[derive(Clone, Debug)]
pub struct WireCall {
    /// The rendered body.
    pub body: Bytes,
    /// For the transport envelope only.
    pub session: SessionId,
}

/// One part of an answer as it arrives.
#[derive(Clone, Debug)]
pub enum StreamPart {
    /// A piece of one part of the answer.
    Delta {
        /// Number of the part, in order of first appearance.
        index: u32,
        /// What the part is.
        kind: PartKind,
        /// The call's id, when this piece brought it.
        id: Option<String>,
        /// The call's name, when this piece brought it.
        name: Option<String>,
        /// Text, reasoning, or arguments.
        text: String,
    },
    /// What it cost; a later one replaces an earlier one.
    Usage(Usage),
    /// The end mark arrived and the answer is complete.
    Finish {
        /// Why the model stopped.
        reason: FinishReason,
        /// What this provider needs to see again.
        replay: Option<Box<RawValue>>,
    },
}

/// When a failed attempt is repeated; belongs to the provider as data.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Which failures.
    pub codes: Vec<FailureCode>,
    /// How often in one step; 0 = never.
    pub max_retries: u32,
    /// First wait in milliseconds; doubles each time.
    pub initial_delay_ms: u64,
    /// Longest wait in milliseconds, also for the provider's own Retry-After: above it the attempt
    /// is not repeated.
    pub max_delay_ms: u64,
    /// Part of the wait that is random, 0.0–1.0.
    pub jitter: f64,
}

impl RetryPolicy {
    /// No failure is repeated.
    pub fn never() -> Self {
        Self {
            codes: Vec::new(),
            max_retries: 0,
            initial_delay_ms: 0,
            max_delay_ms: 0,
            jitter: 0.0,
        }
    }
}

/// Finds the provider and lets it complete the configuration.
pub(crate) fn resolve(
    scope: &Scope,
    config: CallConfig,
) -> Result<(Arc<dyn Provider>, ResolvedCall), Failure> {
    let provider = find_provider(scope, &config.provider)?;
    let config = CallConfig { provider: provider.id().to_owned(), ..config };
    let call = provider.resolve(config)?;
    Ok((provider, call))
}

/// The provider with this id; if there is none, the one with this other name.
///
/// # Errors
/// INVALID_REQUEST naming the ids that exist.
pub fn find_provider(scope: &Scope, id: &str) -> Result<Arc<dyn Provider>, Failure> {
    let found = scope.entry::<dyn Provider>(id).or_else(|| {
        let named = scope.entry::<ProviderName>(id)?;
        scope.entry::<dyn Provider>(&named.value.provider)
    });
    found.map(|entry| entry.value).ok_or_else(|| {
        let entries = scope.entries::<dyn Provider>();
        let ids: Vec<&str> = entries.iter().map(|entry| &*entry.name).collect();
        let known = if ids.is_empty() {
            "no provider row is enabled".to_owned()
        } else {
            format!("providers are: {}", ids.join(", "))
        };
        Failure::new(FailureCode::InvalidRequest, format!("there is no provider `{id}`; {known}"))
    })
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;
    use reins_kernel::Origin;

    use super::*;

    struct Named(&'static str);

    impl Provider for Named {
        fn id(&self) -> &str {
            self.0
        }

        fn renderer(&self) -> Box<dyn Renderer> {
            panic!("nothing is rendered")
        }

        fn send(&self, _call: WireCall) -> BoxStream<'static, Result<StreamPart, Failure>> {
            futures_util::stream::empty().boxed()
        }
    }

    /// The other name stands nearer, and yet.
    #[test]
    fn the_id_of_a_provider_wins_over_another_name_of_another_one() {
        let (outer, origin) = (Scope::root(), Origin::runtime("test"));
        let inner = outer.child("inner");
        let kept = [("one", &inner), ("two", &outer)].map(|(id, scope)| {
            scope.add::<dyn Provider>(id, Arc::new(Named(id)), &origin).unwrap()
        });
        let names = ["two", "uno", "gone"].map(|name| {
            let provider = if name == "gone" { "three" } else { "one" };
            let named = Arc::new(ProviderName { provider: provider.to_owned() });
            inner.add(name, named, &origin).unwrap()
        });
        let found = |id| find_provider(&inner, id).map(|found| found.id().to_owned());
        assert_eq!(found("one").unwrap(), "one");
        assert_eq!(found("uno").unwrap(), "one");
        assert_eq!(found("two").unwrap(), "two");
        for absent in ["gone", "none"] {
            let problem = found(absent).unwrap_err().message;
            let expected = format!("there is no provider `{absent}`; providers are: one, two");
            assert_eq!(problem, expected);
        }
        drop((kept, names));
    }
}
