//! A live agent with the test's own registrations, and the server that plays its model.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use reins_agent::{
    Agent, AgentFactory, AgentOrder, AnyTool, PresetScope, SessionOrder, Tool, ToolContext,
    ToolEffect, ToolReply, ToolSuccess, TurnLimits, erase,
};
use reins_host::{RunOrder, RunOutcome, run};
use reins_kernel::{
    BoxFuture, Catalog, Chain, Conflict, Generation, Layer, Next, Origin, References, Registration,
    Root, Scope, compose,
};
use reins_schema::{CallConfig, Event};
use reins_testkit::{Acts, StrictServer, Transcript};
use reins_world::{CancelToken, Env};
use schemars::JsonSchema;
use serde::Deserialize;

const ROWS: &str = r#"
[[insert]]
id = "clock"
plugin = "world-clock"
[[insert]]
id = "http"
plugin = "world-http"
[[insert]]
id = "store"
plugin = "store-jsonl"
config = { home = "${home}" }
[[insert]]
id = "agent-loop"
plugin = "agent-loop"
config = { cancel_grace_ms = 300 }
[[insert]]
id = "limits"
plugin = "limits"
config = { max_time_s = 60 }
[[insert]]
id = "deepseek"
plugin = "provider-chat"
config = { vendor = "deepseek", retry = { initial_delay_ms = 1, max_delay_ms = 2 } }
"#;

pub(crate) struct Rig {
    pub(crate) agent: Agent,
    pub(crate) server: StrictServer,
    generation: Generation,
    events: Mutex<Vec<Event>>,
    _home: tempfile::TempDir,
}

/// What a test registers in its agent's scope.
pub(crate) struct Own<'a> {
    scope: &'a Scope,
    pub(crate) kept: Vec<Registration>,
}

impl Own<'_> {
    pub(crate) fn add<E: ?Sized + Send + Sync + 'static>(&mut self, name: &str, entry: Arc<E>) {
        let added: Result<_, Conflict> = self.scope.add::<E>(name, entry, &Origin::runtime("test"));
        self.kept.push(added.unwrap());
    }

    pub(crate) fn tool(&mut self, tool: Probe) {
        let tool = tool.entry();
        self.add::<dyn AnyTool>(&tool.schema().name.clone(), tool.clone());
    }

    pub(crate) fn wrap<C: Chain, F: Future<Output = C::Out> + Send + 'static>(
        &mut self,
        layer: impl Fn(C, Next<C>) -> F + Send + Sync + 'static,
    ) {
        let layer =
            move |event, next| -> BoxFuture<'static, C::Out> { Box::pin(layer(event, next)) };
        self.kept.push(self.scope.wrap::<C>(0, layer, &Origin::runtime("test")));
    }
}

impl Rig {
    pub(crate) async fn new(acts: Acts, own: impl FnOnce(&mut Own<'_>) + Send + 'static) -> Self {
        let home = tempfile::tempdir().unwrap();
        let server = StrictServer::start(acts).unwrap();
        let env: Env = [("DEEPSEEK_API_KEY", "k"), ("DEEPSEEK_BASE_URL", &server.base_url())]
            .into_iter()
            .collect();
        let plugins = [
            reins_world::PLUGINS,
            reins_store::PLUGINS,
            reins_agent::PLUGINS,
            reins_providers::PLUGINS,
        ];
        let catalog = Catalog::new(&plugins.concat()).unwrap();
        let layer = Layer { name: "test".to_owned(), file: None, head: &[], text: ROWS.to_owned() };
        let references = References { env: &|_| None, home: home.path() };
        let composition = compose(&[layer], &catalog, &references).unwrap();
        let mut root = Root::default();
        root.give::<Env>(Arc::new(env)).unwrap();
        let generation = composition.build(&catalog, 1, root).await.unwrap();
        let agents = generation.scope.need::<dyn AgentFactory>().unwrap();
        let own = Mutex::new(Some(own));
        let setup = move |scope: &Scope| {
            let mut registered = Own { scope, kept: Vec::new() };
            let own = own.lock().unwrap().take().expect("the agent stays in its generation");
            own(&mut registered);
            Ok(registered.kept)
        };
        let preset = PresetScope {
            preset: "test".into(),
            generation: 1,
            scope: generation.scope.clone(),
            keeper: Arc::new(()),
        };
        let order = AgentOrder {
            preset,
            generations: None,
            session: SessionOrder::New,
            cwd: home.path().to_owned(),
            model: Some(CallConfig {
                provider: "deepseek".to_owned(),
                model: "deepseek-v4-flash".to_owned(),
                ..CallConfig::default()
            }),
            limits: TurnLimits::default(),
            setup: Some(Arc::new(setup)),
        };
        let agent = agents.make(order).await.unwrap();
        let events = Mutex::new(Vec::new());
        Self { agent, server, generation, events, _home: home }
    }

    pub(crate) async fn run(&self, prompt: &str) -> RunOutcome {
        self.run_until(prompt, CancelToken::new()).await
    }

    pub(crate) async fn run_until(&self, prompt: &str, cancel: CancelToken) -> RunOutcome {
        let events = &self.events;
        let mut watch = |event: &Event| events.lock().unwrap().push(event.clone());
        let prompt = prompt.to_owned();
        let order = RunOrder { prompt, before: None, cancel, watch: &mut watch };
        run(&self.agent, order).await
    }

    /// The events seen so far, of these types only.
    pub(crate) fn transcript(&self, kinds: &[&str]) -> Transcript {
        Transcript::of(&self.events.lock().unwrap()).only(kinds)
    }

    /// All text of the results that the model read, in order.
    pub(crate) fn results(&self) -> Vec<String> {
        let bodies = self.server.json_bodies();
        let Some(messages) = bodies.last().and_then(|body| body["messages"].as_array()) else {
            return Vec::new();
        };
        let results = messages.iter().filter(|message| message["role"] == "tool");
        results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
    }

    /// Ends everything; the server must have seen only clean requests.
    pub(crate) async fn end(self) {
        self.agent.close().await;
        self.generation.stop().await;
        self.server.assert_clean();
        self.server.stop().await;
    }
}

type Body = Box<dyn Fn(ToolContext) -> BoxFuture<'static, ToolReply> + Send + Sync>;

/// A tool that does what its closure says.
pub(crate) struct Probe {
    name: &'static str,
    effect: ToolEffect,
    body: Body,
}

impl Probe {
    pub(crate) fn new<F: Future<Output = ToolReply> + Send + 'static>(
        name: &'static str,
        effect: ToolEffect,
        body: impl Fn(ToolContext) -> F + Send + Sync + 'static,
    ) -> Self {
        Self { name, effect, body: Box::new(move |ctx| Box::pin(body(ctx))) }
    }

    /// As an entry under its own name.
    pub(crate) fn entry(self) -> Arc<dyn AnyTool> {
        Arc::new(Named { name: self.name, tool: erase(self) })
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

impl Tool for Probe {
    type Input = Nothing;
    const NAME: &'static str = "probe";

    fn description(&self) -> String {
        "A tool of a test.".to_owned()
    }

    fn effect(&self, _input: &Nothing) -> ToolEffect {
        self.effect
    }

    fn run(&self, _input: Nothing, ctx: ToolContext) -> BoxFuture<'_, ToolReply> {
        (self.body)(ctx)
    }
}

/// Gives several probes names of their own.
struct Named {
    name: &'static str,
    tool: Arc<dyn AnyTool>,
}

impl AnyTool for Named {
    fn schema(&self) -> &reins_schema::ToolSchema {
        // Leaked once per probe of a test process; the schema must live as long as the tool.
        Box::leak(Box::new(reins_schema::ToolSchema {
            name: self.name.to_owned(),
            ..self.tool.schema().clone()
        }))
    }

    fn check(&self, arguments: &serde_json::Value) -> Result<ToolEffect, reins_agent::ToolFailure> {
        self.tool.check(arguments)
    }

    fn call(
        self: Arc<Self>,
        arguments: serde_json::Value,
        ctx: ToolContext,
    ) -> BoxFuture<'static, ToolReply> {
        self.tool.clone().call(arguments, ctx)
    }
}

/// A probe that answers with a text and counts its runs.
pub(crate) fn counting(name: &'static str, runs: &Arc<AtomicUsize>) -> Probe {
    let runs = runs.clone();
    Probe::new(name, ToolEffect::Exclusive, move |_| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { Ok(ToolSuccess::text("ran")) }
    })
}
