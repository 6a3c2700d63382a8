//! The base system prompt and the plain facts about where the agent works.

use std::sync::Arc;

use reins_agent::{PromptContext, PromptSection, RuntimeFact};
use reins_kernel::{BoxFuture, Mount, MountError, Places, Plugin, PluginDef, Reload, ServiceKey};
use reins_world::Clock;
use schemars::JsonSchema;
use serde::Deserialize;

/// The row `prompt`.
struct Prompt;

/// The plugin of this folder.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<Prompt>();

#[derive(Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Config {
    /// Replaces the text that says who the model is and how it works. Left out: the shipped one,
    /// `crates/features/src/prompt/persona.md`.
    persona: Option<String>,
    /// Tell the model its directory, system and the date.
    facts: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self { persona: None, facts: true }
    }
}

const PERSONA: &str = include_str!("persona.md");

impl Plugin for Prompt {
    const NAME: &'static str = "prompt";
    const SUMMARY: &'static str = "The base system prompt and facts about directory and date.";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Both;
    type Config = Config;

    fn needs() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Clock>("clock")]
    }

    fn mount(config: Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let text = config.persona.unwrap_or_else(|| PERSONA.to_owned());
        mount.add::<dyn PromptSection>("persona", Arc::new(Persona { text }))?;
        if config.facts {
            let clock = mount.need::<dyn Clock>()?;
            mount.add::<dyn RuntimeFact>("1-directory", Arc::new(Directory))?;
            mount.add::<dyn RuntimeFact>("2-system", Arc::new(System))?;
            mount.add::<dyn RuntimeFact>("3-date", Arc::new(Date { clock }))?;
        }
        Ok(())
    }
}

struct Persona {
    text: String,
}

impl PromptSection for Persona {
    fn order(&self) -> i32 {
        0
    }

    fn text(&self, _of: &PromptContext) -> String {
        self.text.clone()
    }
}

fn say(text: String) -> BoxFuture<'static, Option<String>> {
    Box::pin(std::future::ready(Some(text)))
}

struct Directory;

impl RuntimeFact for Directory {
    fn text(&self, of: &PromptContext) -> BoxFuture<'static, Option<String>> {
        say(format!("Working directory: {}", of.cwd.display()))
    }
}

struct System;

impl RuntimeFact for System {
    fn text(&self, _of: &PromptContext) -> BoxFuture<'static, Option<String>> {
        say(format!("Operating system: {} ({})", std::env::consts::OS, std::env::consts::ARCH))
    }
}

struct Date {
    clock: Arc<dyn Clock>,
}

impl RuntimeFact for Date {
    fn text(&self, _of: &PromptContext) -> BoxFuture<'static, Option<String>> {
        let now = jiff::Timestamp::from_millisecond(self.clock.now_ms());
        let date = now.map(|now| jiff::tz::Offset::UTC.to_datetime(now).date());
        Box::pin(std::future::ready(date.ok().map(|date| format!("Date (UTC): {date}"))))
    }
}
