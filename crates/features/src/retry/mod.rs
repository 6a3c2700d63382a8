//! Repeats failed attempts as the provider's policy says. The only retry layer there is.

use reins_agent::{RequestError, RetryPolicy};
use reins_kernel::{BoxFuture, Mount, MountError, Next, Plugin, PluginDef, Reload};
use reins_schema::Failure;
use reins_session::RetryDecision;
use schemars::JsonSchema;
use serde::Deserialize;

#[cfg(test)]
mod tests;

/// The row `retry`.
struct Retry;

/// The plugin of this folder.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<Retry>();

/// Nothing to set.
///
/// What is repeated, how often and after which wait is `retry` of the provider's row.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {}

/// Inner layers see a failure first, so that a repair (a compaction, say) is tried before a wait.
const ORDER: i32 = 0;

impl Plugin for Retry {
    const NAME: &'static str = "retry";
    const SUMMARY: &'static str = "Repeats failed model calls as the provider's retry policy says.";
    const RELOAD: Reload = Reload::Live;
    type Config = Config;

    fn mount(Config {}: Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
        mount.wrap::<RequestError>(ORDER, |event, next| layer(event, next));
        Ok(())
    }
}

fn layer(event: RequestError, next: Next<RequestError>) -> BoxFuture<'static, RetryDecision> {
    Box::pin(async move {
        let decision = decide(&event.policy, &event.failure, event.retries, random_unit());
        match next.run(event).await {
            RetryDecision::GiveUp => decision,
            repaired => repaired,
        }
    })
}

/// What the policy says about a failure after `retries` repetitions. `random` is in 0.0–1.0.
///
/// The wait is `initial · 2^retries`, at most the maximum, then moved by up to the jitter in both
/// directions, and again at most the maximum. The provider's own wish is taken as it is when it is
/// below the maximum; above, the attempt is not repeated, since a person should not wait that long
/// without being told.
fn decide(policy: &RetryPolicy, failure: &Failure, retries: u32, random: f64) -> RetryDecision {
    if !policy.codes.contains(&failure.code) || retries >= policy.max_retries {
        return RetryDecision::GiveUp;
    }
    let max_retries = Some(policy.max_retries);
    if let Some(delay_ms) = failure.retry_after_ms {
        if delay_ms > policy.max_delay_ms {
            return RetryDecision::GiveUp;
        }
        return RetryDecision::Retry { delay_ms, max_retries };
    }
    let doubled = policy.initial_delay_ms.saturating_mul(1u64 << retries.min(32));
    let base = doubled.min(policy.max_delay_ms);
    let factor = 1.0 - policy.jitter + 2.0 * policy.jitter * random;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a wait of some milliseconds; the conversion saturates"
    )]
    let moved = (base as f64 * factor) as u64;
    RetryDecision::Retry { delay_ms: moved.min(policy.max_delay_ms), max_retries }
}

/// Enough randomness to keep clients from repeating in step: the standard library's hash seed.
fn random_unit() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    let bits = std::collections::hash_map::RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1u64 << 53) as f64
}
