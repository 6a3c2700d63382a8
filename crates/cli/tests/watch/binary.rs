//! Reins with plugins that write down which layers of chains really run, and that wrap chains.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use reins_agent::{
    AnyTool, Approval, ApprovalRequest, Execute, Guard, LimitQuestion, Permission, PostExecute,
    PreExecute, PreStep, RequestConfig, RequestError, ToolContext, ToolEffect, ToolFailure,
    ToolReply, ToolSuccess, TurnStopping,
};
use reins_kernel::{
    BoxFuture, Chain, LayerRan, Mount, MountError, Places, Plugin, PluginDef, Reload,
};
use reins_schema::ToolSchema;
use serde_json::Value;

/// What a layer around a limit answers.
type LimitAnswer = <LimitQuestion as Chain>::Out;

/// What a row says, by name. A map, since its schema needs no further crate.
type Texts = BTreeMap<String, String>;

fn main() -> ExitCode {
    let plugins = vec![PluginDef::of::<Watch>(), PluginDef::of::<Wrap>(), PluginDef::of::<Shade>()];
    // A test says which rows this binary brings along.
    let rows = std::env::var_os("TEST_ROWS").and_then(|rows| rows.into_string().ok());
    reins_cli::main(reins_cli::Additions { plugins, rows: rows.map(|rows| &*rows.leak()) })
}

/// Appends a line to `file` for each layer that runs.
struct Watch;

impl Plugin for Watch {
    const NAME: &'static str = "test-watch";
    const SUMMARY: &'static str = "Writes down which layers of chains run.";
    type Config = Texts;

    fn mount(config: Texts, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let file = File::options().append(true).create(true).open(text(&config, "file"))?;
        let file = Mutex::new(file);
        mount.observe::<LayerRan>(move |LayerRan { chain, layer }| {
            let origin = &layer.origin;
            let line = format!(
                "{chain}\t{}\t{}\t{}\t{}\t{}\n",
                origin.row,
                layer.order,
                layer.scope,
                origin.layer,
                origin.place()
            );
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = file.write_all(line.as_bytes()) {
                panic!("writing down which layers ran: {error}");
            }
        });
        Ok(())
    }
}

/// A chain that only this binary knows. It runs before each body, when a row says so.
struct Inspect;

impl Chain for Inspect {
    const NAME: &'static str = "test-inspect";
    type Out = ();
}

/// Wraps every chain with a layer of the row's `order` that lets everything pass, except: `ask` is
/// a tool about whose calls somebody is asked, `answer` allows what is asked, `extend` goes on
/// beyond limits, `inspect` runs the chain of this binary. `only` = nothing but this one chain.
/// `refuse` is a tool whose calls a guard refuses.
struct Wrap;

impl Plugin for Wrap {
    const NAME: &'static str = "test-wrap";
    const SUMMARY: &'static str = "Wraps chains.";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Both;
    type Config = Texts;

    fn mount(config: Texts, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let order: i32 = text(&config, "order").parse()?;
        if let Some(tool) = config.get("refuse") {
            mount.add::<dyn Guard>(&format!("no-{tool}"), Arc::new(Refuse(tool.clone())))?;
        }
        match config.get("only").map(String::as_str) {
            Some(Inspect::NAME) => pass::<Inspect>(mount, order),
            Some(PreExecute::NAME) => pass::<PreExecute>(mount, order),
            Some(other) => return Err(MountError::new(format!("cannot wrap `{other}` alone"))),
            None => wrap_all(&config, mount, order),
        }
        Ok(())
    }
}

fn wrap_all(config: &Texts, mount: &mut Mount<'_>, order: i32) {
    pass::<PreStep>(mount, order);
    pass::<RequestConfig>(mount, order);
    pass::<RequestError>(mount, order);
    pass::<PostExecute>(mount, order);
    pass::<TurnStopping>(mount, order);
    pass::<Inspect>(mount, order);
    let ask = text(config, "ask").to_owned();
    mount.wrap::<PreExecute>(order, move |call, next| {
        let asked = call.tool == ask;
        Box::pin(async move {
            match next.run(call).await {
                Permission::Allow if asked => Permission::Ask { reason: "a test".to_owned() },
                other => other,
            }
        })
    });
    let answers = config.contains_key("answer");
    mount.wrap::<ApprovalRequest>(order, move |request, next| {
        Box::pin(async move {
            let answer = next.run(request).await;
            if answers { Approval::AllowedOnce } else { answer }
        })
    });
    let extends = config.contains_key("extend");
    mount.wrap::<LimitQuestion>(order, move |question, next| {
        Box::pin(async move {
            let answer = next.run(question).await;
            if extends { LimitAnswer::Extend(10) } else { answer }
        })
    });
    let inspects = config.contains_key("inspect");
    mount.wrap::<Execute>(order, move |call, next| {
        Box::pin(async move {
            if inspects {
                call.ctx.scope.run(Inspect, |_| Box::pin(async {})).await;
            }
            next.run(call).await
        })
    });
}

struct Refuse(String);

impl Guard for Refuse {
    fn refuses(&self, call: &PreExecute) -> Option<String> {
        (call.tool == self.0).then(|| "refused by a test".to_owned())
    }
}

fn pass<C: Chain>(mount: &mut Mount<'_>, order: i32) {
    mount.wrap::<C>(order, |event, next| Box::pin(async move { next.run(event).await }));
}

/// A tool that answers to the name in `tool`.
struct Shade;

impl Plugin for Shade {
    const NAME: &'static str = "test-shade";
    const SUMMARY: &'static str = "A tool of any name.";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Both;
    type Config = Texts;

    fn mount(config: Texts, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let name = text(&config, "tool");
        let parameters = r#"{"type":"object","properties":{},"additionalProperties":false}"#;
        let schema = ToolSchema {
            name: name.to_owned(),
            description: "Stands in the place of another tool.".to_owned(),
            parameters: serde_json::value::RawValue::from_string(parameters.to_owned())?,
        };
        mount.add::<dyn AnyTool>(name, Arc::new(Shadow(schema)))
    }
}

struct Shadow(ToolSchema);

impl AnyTool for Shadow {
    fn schema(&self) -> &ToolSchema {
        &self.0
    }

    fn check(&self, _: &Value) -> Result<ToolEffect, ToolFailure> {
        Ok(ToolEffect::ReadOnly)
    }

    fn call(self: Arc<Self>, _: Value, _: ToolContext) -> BoxFuture<'static, ToolReply> {
        Box::pin(async { Ok(ToolSuccess::text("from the shade")) })
    }
}

fn text<'c>(config: &'c Texts, name: &str) -> &'c str {
    config.get(name).map_or("", String::as_str)
}
