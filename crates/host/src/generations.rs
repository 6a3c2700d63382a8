//! The generations of a process: the next one is built beside the one that serves, and serves when
//! everything in it is well.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reins_agent::{Newer, PresetScope};
use reins_kernel::{
    BoxFuture, Catalog, Composition, Generation, Layer, References, Root, RowChange, RowError,
    RowScope, RowWarning, compose,
};
use reins_world::{Clock, Env};
use tokio::sync::{Mutex, broadcast};

use crate::reload::ReloadPolicy;
use crate::source::{LayerSource, Stamp};

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
        /// The rows that differ.
        changes: Vec<RowChange>,
        /// Changes that wait until the process starts again.
        waiting: Vec<RowWarning>,
        /// What has no effect and was probably meant to.
        warnings: Vec<RowWarning>,
    },
    /// The last good generation goes on. Told once for the same errors.
    Broken(Vec<RowError>),
    /// What was broken is again what serves.
    Mended,
}

/// News that may wait for a front end that does not look; it misses older ones.
const NEWS: usize = 32;
/// How often files are read again when they change while they are read.
const READS: usize = 3;

/// The newest good generation, and those that agents still live in.
pub(crate) struct Generations {
    blueprint: Blueprint,
    /// `None` = files are read at the start only.
    watch: Option<(ReloadPolicy, Arc<dyn Clock>)>,
    state: Mutex<State>,
    news: broadcast::Sender<Reload>,
}

struct State {
    current: Arc<Live>,
    retired: Vec<Arc<Live>>,
    stamps: Stamps,
    broken: Option<Vec<RowError>>,
}

/// What the files were like when they were read last.
#[derive(Clone, Default, PartialEq, Eq)]
struct Stamps {
    layers: Stamp,
    presets: BTreeMap<String, Stamp>,
}

impl Stamps {
    fn take<'a>(source: &dyn LayerSource, presets: impl Iterator<Item = &'a String>) -> Self {
        let presets = presets.map(|name| (name.clone(), source.preset_stamp(name)));
        Self { layers: source.stamp(), presets: presets.collect() }
    }

    fn same_files(&self, other: &Self) -> bool {
        self.all().map(|stamp| &stamp.files).eq(other.all().map(|stamp| &stamp.files))
    }

    fn all(&self) -> impl Iterator<Item = &Stamp> {
        std::iter::once(&self.layers).chain(self.presets.values())
    }

    /// Whether somebody may be writing one of the files at this moment.
    fn is_unsettled(&self, now_ms: i64, settle: Duration) -> bool {
        let settle_ms = i64::try_from(settle.as_millis()).unwrap_or(i64::MAX);
        let newest = self.all().filter_map(|stamp| stamp.newest_ms).max();
        // A time in the future says nothing about this moment.
        newest.is_some_and(|ms| ms <= now_ms && now_ms - ms < settle_ms)
    }
}

/// A generation with the presets that are in use.
struct Live {
    generation: Generation,
    presets: Mutex<BTreeMap<String, RowScope>>,
}

impl Live {
    async fn stop(self) {
        for (_, preset) in self.presets.into_inner() {
            preset.stop().await;
        }
        self.generation.stop().await;
    }
}

/// Everything that was read, and what the files were like before.
struct Read {
    composition: Composition,
    presets: BTreeMap<String, Composition>,
    stamps: Stamps,
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

    fn preset(&self, name: &str) -> Result<Composition, Vec<RowError>> {
        let composition = self.compose(&[self.source.preset(name)?])?;
        // Rows of the process cannot be patched from here, so a patch that meets none is wrong.
        match composition.warnings.is_empty() {
            true => Ok(composition),
            false => Err(composition.warnings.into_iter().map(|warning| warning.0).collect()),
        }
    }

    /// Reads everything, between two looks at the files that show the same.
    fn read(&self, presets: &[String]) -> Result<Read, Vec<RowError>> {
        let look = || Stamps::take(&*self.source, presets.iter());
        let mut stamps = look();
        let mut left = READS;
        loop {
            let read = self.read_once(presets);
            let after = look();
            left -= 1;
            let same = after.same_files(&stamps);
            if same || left == 0 {
                let (composition, presets) = read?;
                // Somebody writes all the time: what was read now is read again next time.
                let stamps = if same { stamps } else { Stamps::default() };
                return Ok(Read { composition, presets, stamps });
            }
            stamps = after;
        }
    }

    fn read_once(
        &self,
        presets: &[String],
    ) -> Result<(Composition, BTreeMap<String, Composition>), Vec<RowError>> {
        let composition = self.rows()?;
        let named = presets.iter().map(|name| Ok((name.clone(), self.preset(name)?)));
        Ok((composition, named.collect::<Result<_, Vec<RowError>>>()?))
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
    ) -> Result<(Self, Vec<RowWarning>), Vec<RowError>> {
        let read = blueprint.read(&[])?;
        let warnings = read.composition.warnings.clone();
        let built = read.composition.build(&blueprint.catalog, 1, blueprint.root());
        let generation = built.await?;
        let scope = &generation.scope;
        let watch = scope.service::<ReloadPolicy>().map(|policy| *policy);
        let watch = watch.zip(scope.service::<dyn Clock>());
        let live = Live { generation, presets: Mutex::default() };
        let state = State {
            current: Arc::new(live),
            retired: Vec::new(),
            stamps: read.stamps,
            broken: None,
        };
        let news = broadcast::Sender::new(NEWS);
        Ok((Self { blueprint, watch, state: Mutex::new(state), news }, warnings))
    }

    /// Looks at the files again and again, as the row `reload` says, until it is dropped.
    pub(crate) async fn watch(&self) {
        match &self.watch {
            None => std::future::pending().await,
            Some((policy, clock)) => loop {
                clock.sleep(policy.every).await;
                self.refresh().await;
            },
        }
    }

    pub(crate) fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    pub(crate) fn news(&self) -> broadcast::Receiver<Reload> {
        self.news.subscribe()
    }

    /// The scope of a preset in the newest good generation.
    pub(crate) async fn preset(&self, name: &str) -> Result<PresetScope, Vec<RowError>> {
        let mut state = self.state.lock().await;
        let live = Arc::clone(&state.current);
        let mut presets = live.presets.lock().await;
        if !presets.contains_key(name) {
            let stamp = self.blueprint.source.preset_stamp(name);
            let composition = self.blueprint.preset(name)?;
            let scope = format!("preset {name}");
            let catalog = &self.blueprint.catalog;
            let built = live.generation.nested(&scope, composition, catalog).await?;
            presets.insert(name.to_owned(), built);
            state.stamps.presets.insert(name.to_owned(), stamp);
        }
        drop(presets);
        Ok(scope_of(&live, name).await)
    }

    /// The scope `global` of the newest good generation.
    pub(crate) async fn scope(&self) -> reins_kernel::Scope {
        self.state.lock().await.current.generation.scope.clone()
    }

    /// Rows of the newest good generation and of one preset of it, which is in use.
    pub(crate) async fn rows(
        &self,
        preset: &str,
    ) -> (Vec<reins_kernel::Row>, Vec<reins_kernel::Row>) {
        let live = Arc::clone(&self.state.lock().await.current);
        let presets = live.presets.lock().await;
        let own = presets.get(preset).map(|scope| scope.rows.clone()).unwrap_or_default();
        (live.generation.rows.clone(), own)
    }

    /// Looks at the files, and builds the next generation when they changed. Generations in which
    /// nobody lives any more are stopped.
    pub(crate) async fn refresh(&self) {
        let mut state = self.state.lock().await;
        self.sweep(&mut state).await;
        let Some((policy, clock)) = &self.watch else { return };
        let in_use: Vec<String> = state.current.presets.lock().await.keys().cloned().collect();
        let stamps = Stamps::take(&*self.blueprint.source, in_use.iter());
        if stamps.same_files(&state.stamps) || stamps.is_unsettled(clock.now_ms(), policy.settle) {
            return;
        }
        match self.blueprint.read(&in_use) {
            Ok(read) => {
                state.stamps = read.stamps.clone();
                self.take(&mut state, read).await;
            }
            Err(errors) => {
                state.stamps = stamps;
                self.tell_broken(&mut state, errors);
            }
        }
    }

    async fn take(&self, state: &mut State, read: Read) {
        let catalog = &self.blueprint.catalog;
        let old = Arc::clone(&state.current);
        let same = {
            let presets = old.presets.lock().await;
            !old.generation.differs(&read.composition, catalog)
                && presets.iter().all(|(name, scope)| {
                    read.presets.get(name).is_some_and(|new| !scope.differs(new, catalog))
                })
        };
        if same {
            if state.broken.take().is_some() {
                self.tell(Reload::Mended);
            }
            return;
        }
        let warnings = read.composition.warnings.clone();
        match self.build(&old.generation, read).await {
            Ok(live) => {
                let changes = changes_between(&old, &live, |_| true, catalog).await;
                let (generation, waiting) =
                    (live.generation.number, live.generation.waiting.clone());
                state.broken = None;
                state.retired.push(std::mem::replace(&mut state.current, Arc::new(live)));
                drop(old);
                self.sweep(state).await;
                self.tell(Reload::Changed { generation, changes, waiting, warnings });
            }
            Err(errors) => self.tell_broken(state, errors),
        }
    }

    async fn build(&self, old: &Generation, read: Read) -> Result<Live, Vec<RowError>> {
        let catalog = &self.blueprint.catalog;
        let generation = old.next(read.composition, catalog).await?;
        let mut presets = BTreeMap::new();
        let mut errors = None;
        for (name, composition) in read.presets {
            match generation.nested(&format!("preset {name}"), composition, catalog).await {
                Ok(scope) => drop(presets.insert(name, scope)),
                Err(found) => {
                    errors = Some(found);
                    break;
                }
            }
        }
        let live = Live { generation, presets: Mutex::new(presets) };
        match errors {
            None => Ok(live),
            Some(errors) => {
                live.stop().await;
                Err(errors)
            }
        }
    }

    /// Stops the generations that nobody holds any more.
    async fn sweep(&self, state: &mut State) {
        for live in std::mem::take(&mut state.retired) {
            match Arc::try_unwrap(live) {
                Ok(live) => live.stop().await,
                Err(held) => state.retired.push(held),
            }
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

    /// How many generations are not stopped yet.
    pub(crate) async fn alive(&self) -> usize {
        self.state.lock().await.retired.len() + 1
    }

    /// Stops what is left, the oldest first.
    pub(crate) async fn end(self) {
        let state = self.state.into_inner();
        for live in state.retired.into_iter().chain([state.current]) {
            // Whoever still holds one keeps its rows mounted until they let go.
            if let Some(live) = Arc::into_inner(live) {
                live.stop().await;
            }
        }
    }
}

async fn scope_of(live: &Arc<Live>, name: &str) -> PresetScope {
    let presets = live.presets.lock().await;
    let scope = presets
        .get(name)
        .map_or_else(|| live.generation.scope.clone(), |built| built.scope.clone());
    PresetScope {
        preset: name.into(),
        generation: live.generation.number,
        scope,
        keeper: Arc::clone(live) as Arc<dyn std::any::Any + Send + Sync>,
    }
}

/// What differs for those who use these presets.
async fn changes_between(
    old: &Live,
    new: &Live,
    uses: impl Fn(&str) -> bool,
    catalog: &Catalog,
) -> Vec<RowChange> {
    let mut changes = new.generation.changes_since(&old.generation, catalog);
    let (before, now) = (old.presets.lock().await, new.presets.lock().await);
    for (name, scope) in now.iter().filter(|(name, _)| uses(name)) {
        if let Some(earlier) = before.get(name) {
            changes.extend(scope.changes_since(earlier, catalog));
        }
    }
    changes
}

/// The generations as agents see them.
pub(crate) struct Shared(pub(crate) Arc<Generations>);

impl reins_agent::Generations for Shared {
    fn newer(&self, of: &PresetScope) -> BoxFuture<'static, Option<Newer>> {
        let (generations, of) = (Arc::clone(&self.0), of.clone());
        Box::pin(async move {
            generations.refresh().await;
            let state = generations.state.lock().await;
            let live = Arc::clone(&state.current);
            drop(state);
            if live.generation.number == of.generation {
                return None;
            }
            let old = Arc::clone(&of.keeper).downcast::<Live>().ok()?;
            let catalog = &generations.blueprint.catalog;
            let uses = |name: &str| name == &*of.preset;
            let changes = changes_between(&old, &live, uses, catalog).await;
            Some(Newer { preset: scope_of(&live, &of.preset).await, changes })
        })
    }
}
