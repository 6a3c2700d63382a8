//! Reins with a tool, a chain layer and a provider of one's own.

use futures_util::stream::{self, BoxStream, StreamExt};
use reins_agent::*;
use reins_kernel::{BoxFuture, Mount, MountError, Plugin, PluginDef};
use reins_providers::{ChatRenderer, Vendor};
use reins_schema::{Failure, FinishReason, PartKind};
use serde_json::{Value, json};
use std::{process::ExitCode, sync::Arc};

struct Shout;
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Words {
    /// What to shout.
    text: String,
}

impl Tool for Shout {
    type Input = Words;
    const NAME: &'static str = "shout";
    fn description(&self) -> String {
        "Says it in capitals.".into()
    }
    fn run(&self, Words { text }: Words, _: ToolContext) -> BoxFuture<'_, ToolReply> {
        Box::pin(async move { Ok(ToolSuccess::text(text.to_uppercase())) })
    }
}

/// A model without a network: it shouts what it is told, then says what came of it.
struct Parrot(Vendor);
impl Provider for Parrot {
    fn id(&self) -> &str {
        "parrot"
    }
    fn renderer(&self) -> Box<dyn Renderer> {
        Box::new(ChatRenderer::new("parrot", &[], self.0.quirks))
    }
    fn send(&self, call: WireCall) -> BoxStream<'static, Result<StreamPart, Failure>> {
        let body: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let last = body["messages"].as_array().and_then(|all| all.last());
        let text = last.and_then(|m| m["content"].as_str()).unwrap_or_default().to_owned();
        let (kind, reason, name, text) = match last.is_some_and(|m| m["role"] == "tool") {
            true => (PartKind::Text, FinishReason::Stop, None, text),
            false => {
                let arguments = json!({ "text": text }).to_string();
                (PartKind::Call, FinishReason::ToolCalls, Some("shout".into()), arguments)
            }
        };
        let part = StreamPart::Delta { index: 0, kind, id: None, name, text };
        stream::iter([Ok(part), Ok(StreamPart::Finish { reason, replay: None })]).boxed()
    }
}

struct Custom;
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Config {}
impl Plugin for Custom {
    const NAME: &'static str = "custom";
    const SUMMARY: &'static str = "A tool, a layer around calls, and a provider.";
    type Config = Config;
    fn mount(_: Config, mount: &mut Mount<'_>) -> Result<(), MountError> {
        mount.add::<dyn AnyTool>("shout", erase(Shout))?;
        mount.add::<dyn Provider>("parrot", Arc::new(Parrot(Vendor::named("compatible")?)))?;
        mount.wrap::<PreExecute>(0, |call, next| match call.arguments["text"] == "secret" {
            true => Box::pin(async { Permission::Deny { reason: "not aloud".into() } }),
            false => next.run(call),
        });
        Ok(())
    }
}

/// The facts go, so that the last thing the parrot hears is the prompt.
const ROWS: &str = "insert = [{ id = 'custom', plugin = 'custom' }]
row = [{ id = 'prompt', config = { facts = false } }]";

fn main() -> ExitCode {
    let plugins = vec![PluginDef::of::<Custom>()];
    reins_cli::main(reins_cli::Additions { plugins, rows: Some(ROWS) })
}
