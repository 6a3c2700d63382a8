//! Models as people write them, found among the providers of a scope.

use std::sync::Arc;

use reins_agent::{Provider, find_provider};
use reins_kernel::{Scope, nearest};
use reins_schema::{CallConfig, Failure, FailureCode};

/// Resolves `provider/model` and checks that a request could leave.
pub(crate) fn resolve_model(scope: &Scope, text: &str) -> Result<CallConfig, Failure> {
    let config = known_model(scope, text)?;
    check_model(scope, &config)?;
    Ok(config)
}

/// Resolves `provider/model`.
pub(crate) fn known_model(scope: &Scope, text: &str) -> Result<CallConfig, Failure> {
    let (provider, model) = split_model(scope, text)?;
    let config = CallConfig {
        provider: provider.id().to_owned(),
        model: model.to_owned(),
        ..CallConfig::default()
    };
    provider.resolve(config.clone())?;
    Ok(config)
}

pub(crate) fn check_model(scope: &Scope, config: &CallConfig) -> Result<(), Failure> {
    let provider = find_provider(scope, &config.provider)?;
    provider.resolve(config.clone())?;
    provider.ready()
}

/// Provider and model id of `provider/model`.
fn split_model<'a>(scope: &Scope, text: &'a str) -> Result<(Arc<dyn Provider>, &'a str), Failure> {
    let Some((provider, model)) =
        text.split_once('/').filter(|(p, m)| !p.is_empty() && !m.is_empty())
    else {
        let meant = listed(scope, text);
        let hint = meant.map(|model| format!("; did you mean `{model}`?")).unwrap_or_default();
        let failure = Failure::new(
            FailureCode::InvalidRequest,
            format!("`{text}` is not a model; models are written provider/model{hint}"),
        );
        return Err(failure);
    };
    Ok((find_provider(scope, provider)?, model))
}

/// The full name of the listed model that `text` names, or nearly names.
fn listed(scope: &Scope, text: &str) -> Option<String> {
    let providers = scope.entries::<dyn Provider>();
    let models = providers.iter().flat_map(|entry| {
        let names = entry.value.models().into_iter().map(|model| model.id);
        names.map(|id| (format!("{}/{id}", entry.value.id()), id))
    });
    let models: Vec<(String, String)> = models.collect();
    let near = nearest(text.trim_matches('/'), models.iter().map(|(_, id)| id.as_str()))?;
    models.iter().find(|(_, id)| id == near).map(|(name, _)| name.clone())
}
