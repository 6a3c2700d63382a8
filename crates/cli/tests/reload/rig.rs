//! A host over real files, with the layers of the command line, and the server that plays its
//! model.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use reins_agent::{
    Agent, AnyTool, CompositionChanged, Tool, ToolContext, ToolReply, ToolSuccess, TurnLimits,
    erase,
};
use reins_cli::Files;
use reins_host::{
    Blueprint, Host, OpenOrder, ReloadNews, RunOrder, RunOutcome, SessionChoice, run,
};
use reins_kernel::{BoxFuture, Catalog, Mount, MountError, Plugin, PluginDef};
use reins_schema::{Event, HeaderReason, Payload, SessionId};
use reins_testkit::StrictServer;
use reins_world::{CancelToken, Env};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::watch;

/// Longer than the row `reload` leaves a changed file alone, and the file system's clock is wrong.
pub(crate) const SETTLED: Duration = Duration::from_millis(90);

/// The rows of the tests' own plugins.
const ROWS: &str = "
[[insert]]
id = \"probe\"
plugin = \"probe\"
[[insert]]
id = \"gate\"
plugin = \"gate\"
";

/// How a house is built.
pub(crate) struct Plan<'a> {
    pub(crate) profile: &'a str,
    pub(crate) settings: Option<&'a str>,
    /// Below the home: `--patch` of it.
    pub(crate) patch: Option<&'a str>,
}

impl Default for Plan<'_> {
    fn default() -> Self {
        Self { profile: "default", settings: None, patch: None }
    }
}

/// A home, a project, and a host on them.
pub(crate) struct House {
    root: tempfile::TempDir,
    pub(crate) host: Host,
    news: Receiver<ReloadNews>,
}

impl House {
    pub(crate) async fn new(server: &StrictServer, plan: Plan<'_>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        for folder in ["home", "home/presets", "project"] {
            std::fs::create_dir(root.path().join(folder)).unwrap();
        }
        write(&root.path().join("project/a.txt"), "some text\n");
        if let Some(settings) = plan.settings {
            write(&home.join("settings.toml"), settings);
        }
        let patches: Vec<PathBuf> = plan.patch.iter().map(|name| home.join(name)).collect();
        for patch in &patches {
            write(patch, "");
        }
        let files = Files::new(home.clone(), plan.profile.to_owned(), &patches, Some(ROWS), None);
        let env: Env =
            [("DEEPSEEK_API_KEY", "a-key".to_owned()), ("DEEPSEEK_BASE_URL", server.base_url())]
                .into_iter()
                .collect();
        let blueprint =
            Blueprint { catalog: catalog(), source: Arc::new(files), env: Arc::new(env), home };
        let (host, warnings) = Host::start(blueprint).await.unwrap();
        assert_eq!(warnings, []);
        let news = host.reloads();
        Self { root, host, news }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    pub(crate) fn settings(&self) -> PathBuf {
        self.home().join("settings.toml")
    }

    /// Writes a file of the home and waits until it may be taken.
    pub(crate) async fn edit(&self, name: &str, text: &str) {
        write(&self.home().join(name), text);
        tokio::time::sleep(SETTLED).await;
    }

    /// Looks at the files; what came of it since this was asked last.
    pub(crate) async fn look(&mut self) -> Vec<ReloadNews> {
        self.host.refresh().await;
        self.told()
    }

    pub(crate) fn told(&mut self) -> Vec<ReloadNews> {
        let mut told = Vec::new();
        loop {
            match self.news.try_recv() {
                Ok(news) => told.push(news),
                Err(TryRecvError::Empty) => return told,
                Err(error) => panic!("{error}"),
            }
        }
    }

    pub(crate) async fn open(&self, preset: Option<&str>) -> Talk {
        self.open_session(SessionChoice::New, preset).await
    }

    pub(crate) async fn open_session(&self, session: SessionChoice, preset: Option<&str>) -> Talk {
        let order = OpenOrder {
            session,
            cwd: self.root.path().join("project"),
            explicit_cwd: false,
            model: None,
            preset: preset.map(str::to_owned),
            limits: TurnLimits::default(),
        };
        Talk { agent: self.host.open(order).await.unwrap().agent }
    }

    pub(crate) async fn end(self, server: StrictServer) {
        self.host.stop().await;
        server.assert_clean();
        server.stop().await;
    }
}

/// Everything that these hosts can mount.
fn catalog() -> Catalog {
    let plugins = [
        reins_world::PLUGINS,
        reins_store::PLUGINS,
        reins_agent::PLUGINS,
        reins_providers::PLUGINS,
        reins_tools::PLUGINS,
        reins_features::PLUGINS,
        reins_host::PLUGINS,
        &[PluginDef::of::<Probe>(), PluginDef::of::<GateTool>()],
    ];
    Catalog::new(&plugins.concat()).unwrap()
}

/// Writes in place.
pub(crate) fn write(path: &Path, text: &str) {
    File::create(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// An agent and its turns.
pub(crate) struct Talk {
    pub(crate) agent: Agent,
}

/// One turn, as its events tell.
pub(crate) struct Turn {
    pub(crate) outcome: RunOutcome,
    /// Of each `composition/changed` the rows.
    pub(crate) changes: Vec<Vec<String>>,
    /// Of each `request/sent` the cause.
    pub(crate) causes: Vec<Option<String>>,
    /// Of each changed `request/header` the cause.
    pub(crate) headers: Vec<String>,
}

impl Talk {
    pub(crate) fn session(&self) -> SessionId {
        self.agent.session().clone()
    }

    pub(crate) async fn turn(&self, prompt: &str) -> Turn {
        let (mut changes, mut causes, mut headers) = (Vec::new(), Vec::new(), Vec::new());
        let mut watch = |event: &Event| {
            if event.body.kind == CompositionChanged::TYPE {
                let changed: CompositionChanged =
                    serde_json::from_str(event.body.data.get()).unwrap();
                assert_eq!(changed.refused, None);
                changes.push(changed.rows.into_iter().map(|row| row.row).collect());
            }
            match Payload::read(&event.body) {
                Ok(Payload::RequestSent(sent)) => causes.push(sent.cause),
                Ok(Payload::RequestHeader(header)) => {
                    if let HeaderReason::Change { cause } = header.reason {
                        headers.push(cause);
                    }
                }
                _ => {}
            }
        };
        let cancel = CancelToken::new();
        let order = RunOrder { prompt: prompt.to_owned(), before: None, cancel, watch: &mut watch };
        let outcome = run(&self.agent, order).await;
        Turn { outcome, changes, causes, headers }
    }
}

/// What a request says of the settings: who the model is, and the most tokens of an answer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Asked {
    pub(crate) persona: String,
    pub(crate) max_tokens: Option<u64>,
}

impl Asked {
    pub(crate) fn of(body: &Value) -> Self {
        let system = body["messages"][0]["content"].as_str().unwrap();
        let persona = system.lines().next().unwrap_or_default().to_owned();
        Self { persona, max_tokens: body["max_tokens"].as_u64() }
    }
}

pub(crate) fn asked(server: &StrictServer) -> Vec<Asked> {
    server.json_bodies().iter().map(Asked::of).collect()
}

pub(crate) fn personas(server: &StrictServer) -> Vec<String> {
    asked(server).into_iter().map(|asked| asked.persona).collect()
}

/// Settings with a persona.
pub(crate) fn persona(text: &str) -> String {
    format!("[[row]]\nid = \"prompt\"\nconfig = {{ persona = \"{text}\" }}\n")
}

/// A row that leaves a value in each generation.
struct Probe;

/// What it leaves.
struct Trace;

static TRACES: Mutex<BTreeMap<u64, Weak<Trace>>> = Mutex::new(BTreeMap::new());

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ProbeConfig {
    /// Whether its end waits for the gate of this name.
    gate: Option<String>,
}

impl Plugin for Probe {
    const NAME: &'static str = "probe";
    const SUMMARY: &'static str = "Leaves a trace.";
    const RELOAD: reins_kernel::Reload = reins_kernel::Reload::Live;
    type Config = ProbeConfig;

    fn mount(config: ProbeConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let trace = Arc::new(Trace);
        let mut traces = TRACES.lock().unwrap();
        let number = traces.len() as u64;
        traces.insert(number, Arc::downgrade(&trace));
        drop(traces);
        let kept = Arc::clone(&trace);
        mount.on_stop(move || {
            Box::pin(async move {
                if let Some(gate) = config.gate {
                    pass(&gate).await;
                }
                drop(kept);
            })
        });
        mount.add::<Trace>("trace", trace)
    }
}

/// How many traces were left in this process, and how many are still there.
#[allow(dead_code, reason = "for a test that is alone in its process")]
pub(crate) fn traces() -> (usize, usize) {
    let traces = TRACES.lock().unwrap();
    (traces.len(), traces.values().filter(|trace| trace.strong_count() > 0).count())
}

/// A place where something waits until a test lets it go on.
pub(crate) struct Gate {
    reached: watch::Sender<u64>,
    open: watch::Sender<bool>,
}

static GATES: Mutex<BTreeMap<String, Arc<Gate>>> = Mutex::new(BTreeMap::new());

impl Gate {
    pub(crate) fn named(name: &str) -> Arc<Self> {
        let mut gates = GATES.lock().unwrap();
        let gate =
            || Arc::new(Self { reached: watch::Sender::new(0), open: watch::Sender::new(false) });
        Arc::clone(gates.entry(name.to_owned()).or_insert_with(gate))
    }

    /// Waits until somebody stands there.
    pub(crate) async fn reached(&self) {
        self.reached.subscribe().wait_for(|times| *times > 0).await.unwrap();
    }

    pub(crate) fn open(&self) {
        self.open.send_replace(true);
    }
}

async fn pass(name: &str) {
    let gate = Gate::named(name);
    gate.reached.send_modify(|times| *times += 1);
    gate.open.subscribe().wait_for(|open| *open).await.unwrap();
}

/// The tool `gate`, which waits at a gate.
struct GateTool;

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GateInput {
    /// Which gate.
    name: String,
}

impl Plugin for GateTool {
    const NAME: &'static str = "gate";
    const SUMMARY: &'static str = "A tool that waits.";
    const RELOAD: reins_kernel::Reload = reins_kernel::Reload::Live;
    type Config = Nothing;

    fn mount(_: Nothing, mount: &mut Mount<'_>) -> Result<(), MountError> {
        mount.add::<dyn AnyTool>("gate", erase(Self))
    }
}

impl Tool for GateTool {
    type Input = GateInput;
    const NAME: &'static str = "gate";

    fn description(&self) -> String {
        "Waits.".to_owned()
    }

    fn run(&self, input: GateInput, _: ToolContext) -> BoxFuture<'_, ToolReply> {
        Box::pin(async move {
            pass(&input.name).await;
            Ok(ToolSuccess::text("passed"))
        })
    }
}
