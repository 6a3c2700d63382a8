//! Narrows the tools that an agent preset inherits.

#[cfg(test)]
mod tests;

use reins_agent::AnyTool;
use reins_kernel::{Mount, MountError, Places, Plugin, PluginDef, Reload, Scope, nearest};
use schemars::JsonSchema;
use serde::Deserialize;

/// A row `offer`.
struct Offer;

/// The plugin of this folder.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<Offer>();

/// Which inherited tools the agents of a preset have.
///
/// Tools that the preset's own rows bring are always there.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Only these, by the names that the model calls them by; left out = all.
    tools: Option<Vec<String>>,
    /// Not these, by the same names.
    hide: Vec<String>,
}

impl Plugin for Offer {
    const NAME: &'static str = "offer";
    const SUMMARY: &'static str = "Narrows the tools that the agents of a preset inherit.";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Nested;
    type Config = Config;

    fn mount(Config { tools, hide }: Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
        // All rows around are mounted before those of a preset, so what is there is known.
        let around = mount.scope().parent();
        let known: Vec<String> = around.map(inherited).unwrap_or_default();
        for (field, names) in [("tools", tools.as_deref().unwrap_or_default()), ("hide", &hide)] {
            for (at, name) in names.iter().enumerate() {
                check(name, &known).map_err(|error| error.at(format!("{field}[{at}]")))?;
            }
        }
        mount.restrict::<dyn AnyTool>(move |name| {
            let offered = tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == name));
            offered && !hide.iter().any(|tool| tool == name)
        });
        Ok(())
    }
}

fn inherited(scope: &Scope) -> Vec<String> {
    scope.entries::<dyn AnyTool>().into_iter().map(|tool| tool.name.to_string()).collect()
}

fn check(name: &str, known: &[String]) -> Result<(), MountError> {
    if known.iter().any(|tool| tool == name) {
        return Ok(());
    }
    let hint = match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "there is none".to_owned(),
        None => format!("there are {}", known.join(", ")),
    };
    Err(MountError::new(format!("no tool `{name}` is inherited; {hint}")))
}
