//! A host over rows and presets that a test writes, with a store that it can hold up or break.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::task::Poll;
use std::time::Duration;

use reins_agent::{
    AgentFactory, AgentOrder, AnyTool, PresetScope, SessionOrder, Setup, ToolEffect, ToolSuccess,
    TurnLimits,
};
use reins_host::{Blueprint, Host, LayerSource, OpenOrder, Opened, SessionChoice, Stamp};
use reins_kernel::{
    BoxFuture, Catalog, Layer, Mount, MountError, Origin, Plugin, PluginDef, RowError, Scope,
    ServiceKey,
};
use reins_schema::{CallConfig, Event, Header, SessionId};
use reins_session::KnownTypes;
use reins_store::{
    ExportOrder, Exported, ImportOrder, Imported, Inspected, JsonlStore, ListFilter, Listing,
    OpenSession, Prepared, Progress, Repaired, Store, StoreConfig, StoreError, Verified,
};
use reins_testkit::{Acts, StrictServer};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Notify;

use crate::rig::Probe;

/// Longer than anything here takes; a test that waits longer has failed.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const ROWS: &str = r#"
[[insert]]
id = "clock"
plugin = "world-clock"
[[insert]]
id = "fs"
plugin = "world-fs"
[[insert]]
id = "http"
plugin = "world-http"
[[insert]]
id = "store"
plugin = "store-gated"
config = { home = "${home}" }
[[insert]]
id = "agent-loop"
plugin = "agent-loop"
config = { cancel_grace_ms = 300 }
[[insert]]
id = "retry"
plugin = "retry"
[[insert]]
id = "prompt"
plugin = "prompt"
config = { persona = "Of all.", facts = false }
[[insert]]
id = "deepseek"
plugin = "provider-chat"
config = { vendor = "deepseek", retry = { initial_delay_ms = 100000, max_delay_ms = 100000 } }
[[insert]]
id = "read"
plugin = "tool-read"
[[insert]]
id = "write"
plugin = "tool-write"
[[insert]]
id = "edit"
plugin = "tool-edit"
[[insert]]
id = "default-model"
plugin = "default-model"
config = { model = "deepseek/deepseek-v4-flash" }
[[insert]]
id = "default-preset"
plugin = "default-preset"
config = { preset = "plain" }
"#;

/// The plugins of all crates below the command line.
pub(crate) fn plugins() -> Vec<PluginDef> {
    [
        reins_world::PLUGINS,
        reins_store::PLUGINS,
        reins_agent::PLUGINS,
        reins_providers::PLUGINS,
        reins_tools::PLUGINS,
        reins_features::PLUGINS,
        reins_host::PLUGINS,
    ]
    .concat()
}

/// Layers that never change.
struct Texts {
    rows: String,
    presets: BTreeMap<String, String>,
}

impl LayerSource for Texts {
    fn layers(&self) -> Result<Vec<Layer>, Vec<RowError>> {
        let (name, text) = ("rows".to_owned(), self.rows.clone());
        Ok(vec![Layer { name, file: None, text, head: &[] }])
    }

    fn preset(&self, name: &str) -> Result<Layer, Vec<RowError>> {
        let text = self.presets.get(name).unwrap_or_else(|| panic!("no preset `{name}`"));
        let name = format!("preset {name}");
        Ok(Layer { name, file: None, text: text.clone(), head: &[] })
    }

    fn presets(&self) -> Result<Vec<String>, Vec<RowError>> {
        Ok(self.presets.keys().cloned().collect())
    }

    fn stamp(&self) -> Stamp {
        Stamp::default()
    }

    fn preset_stamp(&self, _name: &str) -> Stamp {
        Stamp::default()
    }
}

pub(crate) struct House {
    pub(crate) host: Host,
    pub(crate) server: StrictServer,
    pub(crate) gate: Arc<Gate>,
    /// Of the preset `plain`.
    pub(crate) scope: Scope,
    pub(crate) home: tempfile::TempDir,
}

/// What there is when no agent lives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    tasks: usize,
    /// Of the preset's scope, its parent, and so on.
    contributions: Vec<usize>,
}

impl Rest {
    pub(crate) fn has_at_least_the_tasks_of_now(&self) -> bool {
        tokio::runtime::Handle::current().metrics().num_alive_tasks() <= self.tasks
    }
}

impl House {
    pub(crate) async fn new(acts: Acts) -> Self {
        Self::with(acts, "", &[("plain", "")]).await
    }

    /// With more rows, and with these presets.
    pub(crate) async fn with(acts: Acts, rows: &str, presets: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let server = StrictServer::start(acts).unwrap();
        let (host, gate) = open_host(home.path(), &server.base_url(), rows, presets).await;
        let scope = host.preset("plain").await.unwrap().scope;
        Self { host, server, gate, scope, home }
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    pub(crate) fn order(&self, session: Option<&SessionId>) -> OpenOrder {
        OpenOrder {
            session: session.map_or(SessionChoice::New, |id| SessionChoice::Id(id.clone())),
            cwd: self.home.path().to_owned(),
            explicit_cwd: false,
            model: None,
            preset: None,
            limits: TurnLimits::default(),
        }
    }

    pub(crate) async fn open(&self, session: Option<&SessionId>) -> Opened {
        self.host.open(self.order(session)).await.unwrap()
    }

    /// A session that ended well.
    pub(crate) async fn old_session(&self) -> SessionId {
        let opened = self.open(None).await;
        opened.agent.close().await;
        opened.agent.session().clone()
    }

    pub(crate) async fn factory(&self) -> Arc<dyn AgentFactory> {
        self.host.scope().await.need::<dyn AgentFactory>().unwrap()
    }

    /// An order with a set-up that adds a tool, and what tells when all of it is gone.
    pub(crate) async fn watched(&self, session: SessionOrder) -> (AgentOrder, Watched) {
        let tool: Arc<dyn AnyTool> =
            Probe::new("probe", ToolEffect::ReadOnly, |_| async { Ok(ToolSuccess::text("ran")) })
                .entry();
        let keeper = Arc::new(());
        let watched = Watched { tool: Arc::downgrade(&tool), keeper: Arc::downgrade(&keeper) };
        let tool = Mutex::new(Some(tool));
        let setup: Setup = Arc::new(move |scope: &Scope| {
            let tool = tool.lock().unwrap().take().expect("one set-up");
            Ok(vec![scope.add("probe", tool, &Origin::runtime("test")).unwrap()])
        });
        let scope = self.scope.clone();
        let order = AgentOrder {
            preset: PresetScope { preset: "plain".into(), generation: 1, scope, keeper },
            generations: None,
            session,
            cwd: self.home.path().to_owned(),
            model: Some(CallConfig::default()),
            limits: TurnLimits::default(),
            setup: Some(setup),
        };
        (order, watched)
    }

    pub(crate) fn rest(&self) -> Rest {
        let scopes = self.scope.outward();
        let contributions = scopes.map(Scope::contributions).collect();
        Rest { tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(), contributions }
    }

    /// What there is when what has ended is also gone.
    pub(crate) async fn at_rest(&self) -> Rest {
        let mut last = self.rest();
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let now = self.rest();
            last.tasks = last.tasks.min(now.tasks);
        }
        last
    }

    /// Waits until there is what there was, and no more.
    pub(crate) async fn rests(&self, rest: &Rest) {
        until(&format!("there is nothing but {rest:?}"), || self.rest() == *rest).await;
        assert_eq!(self.host.stop_unused().await, 1);
    }

    /// The folders of all sessions; each has a header.
    pub(crate) fn sessions(&self) -> Vec<SessionId> {
        let Ok(folders) = std::fs::read_dir(self.home.path().join("sessions")) else {
            return Vec::new();
        };
        let mut sessions = Vec::new();
        for folder in folders {
            let folder = folder.unwrap().path();
            assert!(folder.join("header.json").is_file(), "{} has no header", folder.display());
            sessions.push(SessionId::new(folder.file_name().unwrap().to_str().unwrap()));
        }
        sessions
    }

    /// Waits until the disk has these sessions and no trace of another one.
    pub(crate) async fn keeps(&self, sessions: &[SessionId]) {
        let folder = self.home.path().join("sessions");
        let names = || -> Vec<SessionId> {
            let entries = std::fs::read_dir(&folder).into_iter().flatten();
            let names = entries.map(|entry| entry.unwrap().file_name());
            names.map(|name| SessionId::new(name.to_str().unwrap())).collect()
        };
        let same = || HashSet::from_iter(names()) == HashSet::<_>::from_iter(sessions.to_vec());
        until(&format!("there is nothing but {sessions:?}"), same).await;
    }

    /// Every session can be opened at once.
    pub(crate) async fn all_open(&self) {
        for session in self.sessions() {
            let opened = self.open(Some(&session)).await;
            opened.agent.close().await;
        }
    }

    /// The types of all events of a session on disk.
    pub(crate) async fn kinds(&self, session: &SessionId) -> Vec<String> {
        let events = self.host.store().read(session, 0, 10_000).await.unwrap();
        events.into_iter().map(|event| event.body.kind).collect()
    }

    pub(crate) async fn end(self) {
        drop(self.scope);
        let stopped = tokio::time::timeout(LONG, self.host.stop()).await;
        stopped.expect("the host stops");
        self.server.assert_clean();
        self.server.stop().await;
    }
}

pub(crate) async fn open_host(
    home: &Path,
    base_url: &str,
    rows: &str,
    presets: &[(&str, &str)],
) -> (Host, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    gates().insert(home.to_owned(), Arc::clone(&gate));
    let catalog = [plugins(), vec![PluginDef::of::<GatedPlugin>()]].concat();
    let texts = presets.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let env = [("DEEPSEEK_API_KEY", "k"), ("DEEPSEEK_BASE_URL", base_url)];
    let blueprint = Blueprint {
        catalog: Catalog::new(&catalog).unwrap(),
        source: Arc::new(Texts { rows: format!("{ROWS}\n{rows}"), presets: texts.collect() }),
        env: Arc::new(env.into_iter().collect()),
        home: home.to_owned(),
    };
    let (host, warnings) = Host::start(blueprint).await.unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    (host, gate)
}

/// Tells when everything of an order is gone.
pub(crate) struct Watched {
    tool: Weak<dyn AnyTool>,
    keeper: Weak<()>,
}

impl Watched {
    pub(crate) async fn gone(&self) {
        let gone = || self.tool.upgrade().is_none() && self.keeper.upgrade().is_none();
        until("what was set up is gone", gone).await;
    }
}

/// Waits for what cannot be awaited.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    if tokio::time::timeout(LONG, waiting).await.is_err() {
        panic!("not in time: {what}");
    }
}

/// Lets others run so often.
pub(crate) async fn yields(times: usize) {
    for _ in 0..times {
        tokio::task::yield_now().await;
    }
}

/// Polls so many times, each time when there is something new, and then drops the future.
pub(crate) async fn polled<T>(future: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut left = polls;
    let polling = std::future::poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    tokio::time::timeout(LONG, polling).await.expect("it goes on or ends")
}

/// A place in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    BeforeCreate,
    AfterCreate,
    BeforeOpen,
    AfterOpen,
    BeforeInspect,
}

/// Where a store fails or waits.
#[derive(Default)]
pub(crate) struct Gate {
    fails: Mutex<Option<Point>>,
    holds: Mutex<Option<Point>>,
    /// The log of the next session that is created or opened is not what its writer thinks.
    spoils: Mutex<bool>,
    reached: Notify,
    released: Notify,
}

impl Gate {
    pub(crate) fn fail(&self, at: Option<Point>) {
        *self.fails.lock().unwrap() = at;
    }

    pub(crate) fn spoil(&self) {
        *self.spoils.lock().unwrap() = true;
    }

    pub(crate) fn hold(&self, at: Point) {
        *self.holds.lock().unwrap() = Some(at);
    }

    /// Waits until somebody waits there.
    pub(crate) async fn reached(&self) {
        tokio::time::timeout(LONG, self.reached.notified()).await.expect("the point is reached");
    }

    pub(crate) fn release(&self) {
        self.released.notify_one();
    }

    async fn pass(&self, point: Point) -> Result<(), StoreError> {
        if *self.fails.lock().unwrap() == Some(point) {
            return Err(StoreError::Writer { problem: format!("{point:?}") });
        }
        let held = self.holds.lock().unwrap().take_if(|held| *held == point).is_some();
        if held {
            self.reached.notify_one();
            self.released.notified().await;
        }
        Ok(())
    }
}

type Gates = HashMap<PathBuf, Arc<Gate>>;

/// By home: a row can be given a path, not a gate.
fn gates() -> std::sync::MutexGuard<'static, Gates> {
    static GATES: OnceLock<Mutex<Gates>> = OnceLock::new();
    GATES.get_or_init(Mutex::default).lock().unwrap()
}

struct GatedPlugin;

#[derive(Deserialize, JsonSchema)]
struct GatedConfig {
    home: PathBuf,
}

impl Plugin for GatedPlugin {
    const NAME: &'static str = "store-gated";
    const SUMMARY: &'static str = "A store that a test holds up or breaks.";
    type Config = GatedConfig;

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Store>("store")]
    }

    fn mount(config: GatedConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let gate = gates().remove(&config.home).expect("a gate for this home");
        let inner = JsonlStore::new(StoreConfig::new(config.home));
        mount.provide::<dyn Store>(Arc::new(Gated { inner, gate }))
    }
}

struct Gated {
    inner: JsonlStore,
    gate: Arc<Gate>,
}

impl Gated {
    fn spoiled(&self, opened: &OpenSession) {
        if std::mem::take(&mut *self.gate.spoils.lock().unwrap()) {
            let folder = self.inner.home().join("sessions").join(opened.header.id.as_str());
            let log = std::fs::File::options().append(true).open(folder.join("00000000.log"));
            std::io::Write::write_all(&mut log.unwrap(), b"{\"seq\":0,\"time\":").unwrap();
        }
    }
}

impl Store for Gated {
    fn create(
        &self,
        header: Header,
        known: KnownTypes,
    ) -> BoxFuture<'_, Result<OpenSession, StoreError>> {
        Box::pin(async move {
            self.gate.pass(Point::BeforeCreate).await?;
            let opened = self.inner.create(header, known).await?;
            self.spoiled(&opened);
            if let Err(error) = self.gate.pass(Point::AfterCreate).await {
                opened.log.discard().await?;
                return Err(error);
            }
            Ok(opened)
        })
    }

    fn open<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
    ) -> BoxFuture<'a, Result<OpenSession, StoreError>> {
        Box::pin(async move {
            self.gate.pass(Point::BeforeOpen).await?;
            let opened = self.inner.open(id, known).await?;
            self.spoiled(&opened);
            self.gate.pass(Point::AfterOpen).await.map(|()| opened)
        })
    }

    fn inspect<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
    ) -> BoxFuture<'a, Result<Inspected, StoreError>> {
        Box::pin(async move {
            self.gate.pass(Point::BeforeInspect).await?;
            self.inner.inspect(id, known).await
        })
    }

    fn read<'a>(
        &'a self,
        id: &'a SessionId,
        from: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Event>, StoreError>> {
        self.inner.read(id, from, limit)
    }

    fn list(&self, wanted: ListFilter) -> BoxFuture<'_, Result<Listing, StoreError>> {
        self.inner.list(wanted)
    }

    fn put_blob<'a>(
        &'a self,
        id: &'a SessionId,
        bytes: Vec<u8>,
    ) -> BoxFuture<'a, Result<String, StoreError>> {
        self.inner.put_blob(id, bytes)
    }

    fn get_blob<'a>(
        &'a self,
        id: &'a SessionId,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Vec<u8>, StoreError>> {
        self.inner.get_blob(id, name)
    }

    fn prepare<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
    ) -> BoxFuture<'a, Result<Prepared, StoreError>> {
        self.inner.prepare(id, known)
    }

    fn find<'a>(&'a self, begins: &'a str) -> BoxFuture<'a, Result<SessionId, StoreError>> {
        self.inner.find(begins)
    }

    fn fork<'a>(
        &'a self,
        parent: &'a SessionId,
        at: Option<u64>,
    ) -> BoxFuture<'a, Result<Header, StoreError>> {
        self.inner.fork(parent, at)
    }

    fn verify<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
        progress: Progress,
    ) -> BoxFuture<'a, Result<Verified, StoreError>> {
        self.inner.verify(id, known, progress)
    }

    fn repair<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
        dry_run: bool,
        progress: Progress,
    ) -> BoxFuture<'a, Result<Repaired, StoreError>> {
        self.inner.repair(id, known, dry_run, progress)
    }

    fn move_to<'a>(
        &'a self,
        id: &'a SessionId,
        dir: &'a Path,
        known: KnownTypes,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.move_to(id, dir, known)
    }

    fn remove<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.remove(id)
    }

    fn archive<'a>(
        &'a self,
        id: &'a SessionId,
        archived: bool,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.archive(id, archived)
    }

    fn export<'a>(
        &'a self,
        order: ExportOrder,
        progress: Progress,
    ) -> BoxFuture<'a, Result<Exported, StoreError>> {
        self.inner.export(order, progress)
    }

    fn import<'a>(
        &'a self,
        order: ImportOrder,
        progress: Progress,
    ) -> BoxFuture<'a, Result<Imported, StoreError>> {
        self.inner.import(order, progress)
    }

    fn path<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<PathBuf, StoreError>> {
        self.inner.path(id)
    }

    fn blobs<'a>(
        &'a self,
        id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Vec<(String, u64)>, StoreError>> {
        self.inner.blobs(id)
    }
}
