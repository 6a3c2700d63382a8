//! The generations of a process: the next one is built beside the one that serves, and serves when
//! everything in it is well.

use std::any::Any;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError};
use std::time::Duration;

use reins_agent::{Newer, PresetScope};
use reins_kernel::{
    BoxFuture, Catalog, Composition, Generation, Layer, References, Root, Row, RowChange, RowError,
    RowScope, RowWarning, Scope, compose,
};
use reins_world::{Clock, Env};
use tokio::sync::{Mutex, broadcast};
use tokio_util::task::TaskTracker;

use crate::reload::ReloadPolicy;
use crate::source::{LayerSource, Stamps};

/// What the generations of a process are made from.
pub struct Blueprint {
    /// The plugins that rows may name.
    pub catalog: Catalog,
    /// The layers.
    pub source: Arc<dyn LayerSource>,
    /// The environment, for `${env:NAME}` and for plugins that need it.
    pub env: Arc<Env>,
    /// The directory that `${home}` stands for.
    pub home: PathBuf,
}

/// What became of a change of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reload {
    /// Another generation serves.
    Changed {
        /// Its number.
        generation: u64,
        /// The rows that differ; empty when only rows differ that wait.
        changes: Vec<RowChange>,
        /// All changes that wait until the process starts again.
        waiting: Vec<RowWarning>,
        /// What has no effect and was probably meant to, as far as it was not told before.
        warnings: Vec<RowWarning>,
    },
    /// The rows are what they were, and this new part of the files has no effect.
    Warned(Vec<RowWarning>),
    /// The last good generation goes on. Told once for the same errors.
    Broken(Vec<RowError>),
    /// What was broken is again what serves.
    Mended,
}

/// News that may wait for a front end that does not look; it misses older ones.
const NEWS: usize = 32;
/// How often files are read at the start when they change while they are read.
const READS: usize = 3;
/// Two changes within this time may look the same: some file systems count in seconds. Longer than
/// a start takes, too.
const GRAIN: Duration = Duration::from_secs(2);

/// The newest good generation, and those that agents still live in.
pub(crate) struct Generations {
    blueprint: Blueprint,
    /// `None` = files are read at the start only.
    watch: Option<(ReloadPolicy, Arc<dyn Clock>)>,
    state: Mutex<State>,
    users: Users,
    news: broadcast::Sender<Reload>,
    /// Held while generations are stopped, which nobody's turn waits for.
    stopping: Mutex<()>,
    /// Work that goes to its end also when nobody waits for it any more.
    tasks: TaskTracker,
}

struct State {
    current: Arc<Live>,
    retired: Vec<Arc<Live>>,
    /// Rows of presets that others took the place of in the same generation.
    replaced: Vec<RowScope>,
    stamps: Stamps,
    /// Files may have changed since they were read without looking different.
    unsure: bool,
    warnings: Vec<RowWarning>,
    broken: Option<Vec<RowError>>,
}

/// A generation with the presets that are, or were, in use.
struct Live {
    // First, so that they go first when this is dropped: they stand below the generation.
    presets: Mutex<BTreeMap<String, RowScope>>,
    generation: Generation,
}

impl Live {
    async fn stop(self) {
        for (_, preset) in self.presets.into_inner() {
            preset.stop().await;
        }
        self.generation.stop().await;
    }

    async fn preset(self: &Arc<Self>, name: &str, users: &Users) -> Option<PresetScope> {
        let scope = self.presets.lock().await.get(name)?.scope.clone();
        Some(self.held(name, scope, users))
    }

    fn held(self: &Arc<Self>, name: &str, scope: Scope, users: &Users) -> PresetScope {
        PresetScope {
            preset: name.into(),
            generation: self.generation.number,
            scope,
            keeper: Arc::new(Hold::new(self, name, users)),
        }
    }

    /// What differs from an earlier generation for those who use these presets.
    async fn changes_since(
        &self,
        earlier: &Self,
        uses: impl Fn(&str) -> bool,
        catalog: &Catalog,
    ) -> Vec<RowChange> {
        let mut changes = self.generation.changes_since(&earlier.generation, catalog);
        let (before, now) = (earlier.presets.lock().await, self.presets.lock().await);
        for (name, scope) in now.iter().filter(|(name, _)| uses(name)) {
            if let Some(earlier) = before.get(name) {
                changes.extend(scope.changes_since(earlier, catalog));
            }
        }
        changes
    }

    /// Whether everything that was read gives what is mounted here.
    async fn is(&self, read: &Read, catalog: &Catalog) -> bool {
        let presets = self.presets.lock().await;
        !self.generation.differs(&read.composition, catalog)
            && read.presets.iter().all(|(name, composition)| {
                presets.get(name).is_some_and(|built| !built.differs(composition, catalog))
            })
    }
}

/// How many hold each preset, in whatever generation.
#[derive(Clone, Default)]
struct Users(Arc<StdMutex<BTreeMap<String, usize>>>);

impl Users {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }
}

/// Keeps a generation, and with it the file of a preset under watch.
struct Hold {
    live: Arc<Live>,
    preset: String,
    users: Users,
}

impl Hold {
    fn new(live: &Arc<Live>, preset: &str, users: &Users) -> Self {
        *users.lock().entry(preset.to_owned()).or_default() += 1;
        Self { live: Arc::clone(live), preset: preset.to_owned(), users: users.clone() }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut users = self.users.lock();
        let left = users.get_mut(&self.preset).map(|users| {
            *users = users.saturating_sub(1);
            *users
        });
        if left == Some(0) {
            users.remove(&self.preset);
        }
    }
}

/// Everything that was read.
struct Read {
    composition: Composition,
    presets: BTreeMap<String, Composition>,
}

impl Blueprint {
    fn compose(&self, layers: &[Layer]) -> Result<Composition, Vec<RowError>> {
        let env =
            |name: &str| self.env.get(name).and_then(|value| value.to_str()).map(str::to_owned);
        let references = References { env: &env, home: &self.home };
        compose(layers, &self.catalog, &references)
    }

    /// The rows of all layers, without the presets.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn rows(&self) -> Result<Composition, Vec<RowError>> {
        self.compose(&self.source.layers()?)
    }

    /// The rows of an agent preset.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn preset(&self, name: &str) -> Result<Composition, Vec<RowError>> {
        let composition = self.compose(&[self.source.preset(name)?])?;
        if composition.warnings.is_empty() {
            return Ok(composition);
        }
        // Rows of the process cannot be patched from here, so a patch that meets none is wrong.
        let own = |id: &str| composition.rows.iter().any(|row| row.id == id);
        let mut errors = Vec::new();
        for RowWarning(mut error) in composition.warnings {
            if !error.row.as_deref().is_some_and(own) {
                error.problem =
                    "an agent preset cannot change rows of the profile; write `[[insert]]` with a \
                     row of the same plugin, which takes the place of the other's contributions"
                        .to_owned();
            }
            errors.push(error);
        }
        Err(errors)
    }

    fn read(&self, names: &[String]) -> Result<Read, Vec<RowError>> {
        let mut errors = Vec::new();
        let composition = self.rows().map_err(|found| errors.extend(found));
        let mut presets = BTreeMap::new();
        for name in names {
            match self.preset(name) {
                Ok(preset) => drop(presets.insert(name.clone(), preset)),
                Err(found) => errors.extend(found),
            }
        }
        match composition {
            Ok(composition) if errors.is_empty() => Ok(Read { composition, presets }),
            _ => Err(errors),
        }
    }

    /// The rows of all layers between two looks at the files that show the same, as far as others
    /// leave the files alone for so long; with whether they did.
    fn first(&self) -> Result<(Composition, Stamps, bool), Vec<RowError>> {
        let look = || Stamps::take(&*self.source, &[]);
        let mut before = look();
        let mut left = READS;
        loop {
            let rows = self.rows();
            let after = look();
            let calm = after.is_in(&before);
            left -= 1;
            if calm || left == 0 {
                return rows.map(|rows| (rows, after, calm));
            }
            before = after;
        }
    }

    fn root(&self) -> Root {
        let mut root = Root::default();
        // Nothing was given before, so nothing can be in its place.
        drop(root.give::<Env>(Arc::clone(&self.env)));
        root
    }
}

impl Generations {
    /// Builds the first generation; answers with what has no effect in it.
    pub(crate) async fn start(
        blueprint: Blueprint,
    ) -> Result<(Arc<Self>, Vec<RowWarning>), Vec<RowError>> {
        let (composition, stamps, calm) = blueprint.first()?;
        let warnings = composition.warnings.clone();
        let generation = composition.build(&blueprint.catalog, 1, blueprint.root()).await?;
        let scope = &generation.scope;
        let watch = scope.service::<ReloadPolicy>().map(|policy| *policy);
        let watch = watch.zip(scope.service::<dyn Clock>());
        let fresh =
            watch.as_ref().is_some_and(|(_, clock)| stamps.is_unsettled(clock.now_ms(), GRAIN));
        let state = State {
            current: Arc::new(Live { generation, presets: Mutex::default() }),
            retired: Vec::new(),
            replaced: Vec::new(),
            stamps,
            unsure: fresh || !calm,
            warnings: warnings.clone(),
            broken: None,
        };
        let generations = Self {
            blueprint,
            watch,
            state: Mutex::new(state),
            users: Users::default(),
            news: broadcast::Sender::new(NEWS),
            stopping: Mutex::default(),
            tasks: TaskTracker::new(),
        };
        Ok((Arc::new(generations), warnings))
    }

    pub(crate) fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    pub(crate) fn news(&self) -> broadcast::Receiver<Reload> {
        self.news.subscribe()
    }

    /// The scope `global` of the newest good generation.
    pub(crate) async fn scope(&self) -> Scope {
        self.state.lock().await.current.generation.scope.clone()
    }

    /// Rows of the newest good generation and of one preset of it that was asked for.
    pub(crate) async fn rows(&self, preset: &str) -> (Vec<Row>, Vec<Row>) {
        let live = Arc::clone(&self.state.lock().await.current);
        let presets = live.presets.lock().await;
        let own = presets.get(preset).map(|scope| scope.rows.clone()).unwrap_or_default();
        (live.generation.rows.clone(), own)
    }

    /// Looks at the files again and again, as the row `reload` says, until it is dropped.
    pub(crate) async fn watch(self: &Arc<Self>) -> Infallible {
        let Some((policy, clock)) = &self.watch else { return std::future::pending().await };
        loop {
            clock.sleep(policy.every).await;
            self.refresh().await;
        }
    }

    /// Looks at the files, builds the next generation when they changed, and stops generations in
    /// which nobody lives any more.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        let this = Arc::clone(self);
        self.own(async move {
            this.look().await;
            this.sweep().await;
        })
        .await;
    }

    /// The scope of a preset in the newest good generation.
    pub(crate) async fn preset(self: &Arc<Self>, name: &str) -> Result<PresetScope, Vec<RowError>> {
        let (this, name) = (Arc::clone(self), name.to_owned());
        self.own(async move { this.mount_preset(&name).await }).await
    }

    /// Does work to its end, also when the caller goes away: half a change is none.
    async fn own<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        match self.tasks.spawn(work).await.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(done) => done,
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The runtime is going, and the caller with it.
            Err(Err(_)) => std::future::pending().await,
        }
    }

    async fn mount_preset(&self, name: &str) -> Result<PresetScope, Vec<RowError>> {
        let mut state = self.state.lock().await;
        let live = Arc::clone(&state.current);
        let watched = self.users.names().iter().any(|used| used == name);
        if watched && let Some(preset) = live.preset(name, &self.users).await {
            return Ok(preset);
        }
        // Nobody has watched its file since it was in use, if it ever was.
        let stamp = self.blueprint.source.preset_stamp(name);
        let composition = self.blueprint.preset(name)?;
        let scope = self.put_preset(&mut state, &live, name, composition).await?;
        state.unsure |=
            self.watch.as_ref().is_some_and(|(_, clock)| stamp.is_unsettled(clock.now_ms(), GRAIN));
        state.stamps.presets.insert(name.to_owned(), stamp);
        Ok(live.held(name, scope, &self.users))
    }

    async fn put_preset(
        &self,
        state: &mut State,
        live: &Live,
        name: &str,
        composition: Composition,
    ) -> Result<Scope, Vec<RowError>> {
        let catalog = &self.blueprint.catalog;
        let mut presets = live.presets.lock().await;
        if let Some(built) = presets.get(name)
            && !built.differs(&composition, catalog)
        {
            return Ok(built.scope.clone());
        }
        let built = live.generation.nested(&scope_name(name), composition, catalog).await?;
        let scope = built.scope.clone();
        state.replaced.extend(presets.insert(name.to_owned(), built));
        Ok(scope)
    }

    /// Looks at the files; when they changed, and nobody seems to be writing them, reads them and
    /// builds the next generation. Never takes what changed while it was read.
    async fn look(&self) {
        let Some((policy, clock)) = &self.watch else { return };
        let mut state = self.state.lock().await;
        let names = self.users.names();
        let look = || Stamps::take(&*self.blueprint.source, &names);
        let stamps = look();
        let same = !state.unsure && stamps.is_in(&state.stamps);
        let now_ms = clock.now_ms();
        if same || stamps.is_unsettled(now_ms, policy.settle) {
            return;
        }
        let read = self.blueprint.read(&names);
        if !stamps.is_in(&look()) {
            return;
        }
        // Before the file system's clock has moved on, the next change could hide behind this one.
        state.unsure = stamps.is_unsettled(now_ms, GRAIN);
        state.stamps = stamps;
        match read {
            Ok(read) => self.take(&mut state, read).await,
            Err(errors) => self.tell_broken(&mut state, errors),
        }
    }

    async fn take(&self, state: &mut State, read: Read) {
        let warnings = fresh(&state.warnings, &read.composition.warnings);
        let all_warnings = read.composition.warnings.clone();
        let old = Arc::clone(&state.current);
        if old.is(&read, &self.blueprint.catalog).await {
            state.warnings = all_warnings;
            if state.broken.take().is_some() {
                self.tell(Reload::Mended);
            }
            if !warnings.is_empty() {
                self.tell(Reload::Warned(warnings));
            }
            return;
        }
        match self.build(state, &old.generation, read).await {
            Ok(live) => {
                let changes = live.changes_since(&old, |_| true, &self.blueprint.catalog).await;
                let (generation, waiting) =
                    (live.generation.number, live.generation.waiting.clone());
                state.broken = None;
                state.warnings = all_warnings;
                state.retired.push(std::mem::replace(&mut state.current, Arc::new(live)));
                self.tell(Reload::Changed { generation, changes, waiting, warnings });
            }
            Err(errors) => self.tell_broken(state, errors),
        }
    }

    async fn build(
        &self,
        state: &mut State,
        old: &Generation,
        read: Read,
    ) -> Result<Live, Vec<RowError>> {
        let catalog = &self.blueprint.catalog;
        let generation = old.next(read.composition, catalog).await?;
        let (mut presets, mut errors) = (BTreeMap::new(), Vec::new());
        for (name, composition) in read.presets {
            match generation.nested(&scope_name(&name), composition, catalog).await {
                Ok(scope) => drop(presets.insert(name, scope)),
                Err(found) => errors.extend(found),
            }
        }
        let live = Live { generation, presets: Mutex::new(presets) };
        if errors.is_empty() {
            return Ok(live);
        }
        state.retired.push(Arc::new(live));
        Err(errors)
    }

    /// Stops the generations that nobody holds any more. Nobody waits for the state meanwhile.
    async fn sweep(&self) {
        let stopping = self.stopping.lock().await;
        self.stop_free().await;
        drop(stopping);
    }

    async fn stop_free(&self) {
        let (replaced, free) = {
            let mut state = self.state.lock().await;
            let (mut free, mut held) = (Vec::new(), Vec::new());
            for live in std::mem::take(&mut state.retired) {
                match Arc::try_unwrap(live) {
                    Ok(live) => free.push(live),
                    Err(live) => held.push(live),
                }
            }
            state.retired = held;
            (std::mem::take(&mut state.replaced), free)
        };
        for preset in replaced {
            preset.stop().await;
        }
        for live in free {
            live.stop().await;
        }
    }

    fn tell_broken(&self, state: &mut State, errors: Vec<RowError>) {
        if state.broken.as_ref() != Some(&errors) {
            self.tell(Reload::Broken(errors.clone()));
            state.broken = Some(errors);
        }
    }

    fn tell(&self, news: Reload) {
        // Nobody may be listening.
        drop(self.news.send(news));
    }

    /// How many generations are not stopped yet, after those in which nobody lives were.
    pub(crate) async fn alive(self: &Arc<Self>) -> usize {
        let this = Arc::clone(self);
        self.own(async move {
            let stopping = this.stopping.lock().await;
            this.stop_free().await;
            let alive = this.state.lock().await.retired.len() + 1;
            drop(stopping);
            alive
        })
        .await
    }

    /// Stops what is left, the oldest first.
    pub(crate) async fn end(self: Arc<Self>) {
        self.tasks.close();
        self.tasks.wait().await;
        let Some(this) = Arc::into_inner(self) else { return };
        let State { current, retired, replaced, .. } = this.state.into_inner();
        for preset in replaced {
            preset.stop().await;
        }
        for live in retired.into_iter().chain([current]) {
            // Whoever still holds one keeps its rows mounted until they let go.
            if let Some(live) = Arc::into_inner(live) {
                live.stop().await;
            }
        }
    }
}

fn scope_name(preset: &str) -> String {
    format!("preset {preset}")
}

/// Those of `now` that are not in `before`, wherever in their files they stand.
fn fresh(before: &[RowWarning], now: &[RowWarning]) -> Vec<RowWarning> {
    let same = |a: &RowError, b: &RowError| {
        let line = b.line;
        RowError { line, ..a.clone() } == *b
    };
    let known = |warning: &&RowWarning| !before.iter().any(|old| same(&old.0, &warning.0));
    now.iter().filter(known).cloned().collect()
}

/// The generations as agents see them.
pub(crate) struct Shared(pub(crate) Arc<Generations>);

impl reins_agent::Generations for Shared {
    fn newer(&self, of: &PresetScope) -> BoxFuture<'static, Option<Newer>> {
        let (generations, of) = (Arc::clone(&self.0), of.clone());
        Box::pin(async move {
            let looking = Arc::clone(&generations);
            generations.own(async move { looking.look().await }).await;
            generations.newer(of).await
        })
    }
}

impl Generations {
    async fn newer(self: &Arc<Self>, of: PresetScope) -> Option<Newer> {
        let state = self.state.lock().await;
        if !state.retired.is_empty() {
            // An agent's turn does not wait until others have stopped.
            let sweeping = Arc::clone(self);
            drop(self.tasks.spawn(async move { sweeping.sweep().await }));
        }
        let live = Arc::clone(&state.current);
        if live.generation.number == of.generation {
            return None;
        }
        let keeper: Arc<dyn Any + Send + Sync> = of.keeper;
        let hold = keeper.downcast::<Hold>().ok()?;
        let uses = |name: &str| name == &*of.preset;
        let changes = live.changes_since(&hold.live, uses, &self.blueprint.catalog).await;
        let preset = live.preset(&of.preset, &self.users).await?;
        Some(Newer { preset, changes })
    }
}
