//! The generations of a process: the next one is built beside the one that serves, and serves when
//! everything in it is well.

use std::any::Any;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use reins_agent::{Newer, PresetScope};
use reins_kernel::{
    BoxFuture, Composition, Generation, Row, RowError, RowScope, RowWarning, Scope,
};
use reins_world::{CancelToken, Clock};
use tokio::sync::{Mutex, broadcast};
use tokio::task::{JoinError, spawn_blocking};
use tokio_util::task::TaskTracker;

use crate::blueprint::{Blueprint, GRAIN, Glance, Read, with_presets};
use crate::defaults;
use crate::live::{Keeper, Live, Users};
use crate::news::{ReloadNews, are_same, fresh};
use crate::reload::ReloadPolicy;
use crate::source::Stamps;

/// News that may wait for a front end that does not look; it misses older ones.
const NEWS: usize = 32;

/// The newest good generation, and those that agents still live in.
pub(crate) struct ProcessGenerations {
    blueprint: Arc<Blueprint>,
    /// `None` = files are read at the start only, that of a preset at its first use.
    watch: Option<(ReloadPolicy, Arc<dyn Clock>)>,
    state: Mutex<State>,
    users: Users,
    news: broadcast::Sender<ReloadNews>,
    /// Held while generations are stopped, which nobody's turn waits for.
    stopping: Mutex<()>,
    /// Work that goes to its end also when nobody waits for it any more.
    tasks: TaskTracker,
    /// Fires when nobody waits for the file system any more.
    ending: CancelToken,
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
    /// Why no new session could be made with the defaults.
    unusable: Vec<RowWarning>,
    /// What was told to be broken.
    broken: Option<Vec<RowError>>,
    /// What is wrong with the files of presets in use, whose last good rows serve.
    broken_presets: BTreeMap<String, Vec<RowError>>,
}

impl ProcessGenerations {
    /// Builds the first generation; answers with what has no effect in it.
    pub(crate) async fn start(
        blueprint: Blueprint,
    ) -> Result<(Arc<Self>, Vec<RowWarning>), Vec<RowError>> {
        let blueprint = Arc::new(blueprint);
        let reading = Arc::clone(&blueprint);
        // On a thread of its own, for a file system may not answer: the caller can go away.
        let read = spawn_blocking(move || reading.first()).await;
        let (composition, stamps, calm) = awaited(read).unwrap_or_else(|| Err(ends()))?;
        let warnings = composition.warnings.clone();
        let generation = composition.build(&blueprint.catalog, 1, blueprint.root()).await?;
        let scope = &generation.scope;
        let watch = scope.service::<ReloadPolicy>().map(|policy| *policy);
        let watch = watch.zip(scope.service::<dyn Clock>());
        let fresh =
            watch.as_ref().is_some_and(|(_, clock)| stamps.is_unsettled(clock.now_ms(), GRAIN));
        let state = State {
            current: Arc::new(Live::new(generation, BTreeMap::new())),
            retired: Vec::new(),
            replaced: Vec::new(),
            stamps,
            unsure: fresh || !calm,
            warnings: warnings.clone(),
            unusable: Vec::new(),
            broken: None,
            broken_presets: BTreeMap::new(),
        };
        let enabled = state.current.rows("").0.into_iter().filter(|row| !row.disabled);
        let enabled: Vec<String> = enabled.map(|row| row.id).collect();
        log::info!("generation 1 serves: {}", enabled.join(", "));
        let generations = Self {
            blueprint,
            watch,
            state: Mutex::new(state),
            users: Users::default(),
            news: broadcast::Sender::new(NEWS),
            stopping: Mutex::default(),
            tasks: TaskTracker::new(),
            ending: CancelToken::new(),
        };
        Ok((Arc::new(generations), warnings))
    }

    pub(crate) fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    pub(crate) fn news(&self) -> broadcast::Receiver<ReloadNews> {
        self.news.subscribe()
    }

    /// The scope `global` of the newest good generation.
    pub(crate) async fn scope(&self) -> Scope {
        self.state.lock().await.current.generation.scope.clone()
    }

    /// Rows of the newest good generation and of one preset of it that was asked for.
    pub(crate) async fn rows(&self, preset: &str) -> (Vec<Row>, Vec<Row>) {
        self.state.lock().await.current.rows(preset)
    }

    /// Looks at the files again and again, as the row `reload` says, until it is dropped.
    pub(crate) async fn watch(self: &Arc<Self>) -> Infallible {
        let Some((policy, clock)) = &self.watch else { return std::future::pending().await };
        loop {
            clock.sleep(policy.every).await;
            self.refresh().await;
        }
    }

    /// Looks at the files and builds the next generation when they changed. Generations in which
    /// nobody lives any more are stopped meanwhile and afterwards.
    pub(crate) async fn refresh(self: &Arc<Self>) {
        let this = Arc::clone(self);
        self.own(async move { this.look().await }).await;
        self.sweep_soon();
    }

    /// The scope of a preset in the newest good generation.
    pub(crate) async fn preset(self: &Arc<Self>, name: &str) -> Result<PresetScope, Vec<RowError>> {
        let (this, name) = (Arc::clone(self), name.to_owned());
        self.own(async move { this.mount_preset(&name).await }).await
    }

    /// The names of all presets.
    pub(crate) async fn preset_names(&self) -> Result<Vec<String>, Vec<RowError>> {
        let blueprint = Arc::clone(&self.blueprint);
        self.aside(move || blueprint.source.presets()).await.unwrap_or_else(|| Err(ends()))
    }

    /// Does work to its end, also when the caller goes away: half a change is none.
    async fn own<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        match awaited(self.tasks.spawn(work).await) {
            Some(done) => done,
            // The runtime is going, and the caller with it.
            None => std::future::pending().await,
        }
    }

    /// Does work with files on a thread of its own, for a file system may not answer. `None` = the
    /// process ends and does not wait for it.
    async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        tokio::select! {
            biased;
            () = self.ending.cancelled() => None,
            done = spawn_blocking(work) => awaited(done),
        }
    }

    async fn mount_preset(&self, name: &str) -> Result<PresetScope, Vec<RowError>> {
        let mut state = self.state.lock().await;
        let live = Arc::clone(&state.current);
        let is_used = self.users.has(name);
        if is_used && let Some(errors) = state.broken_presets.get(name) {
            return Err(errors.clone());
        }
        // Else nobody has watched its file since it was in use, if it ever was.
        let is_known = self.watch.is_none() || is_used;
        if is_known && let Some(scope) = live.scope(name) {
            return Ok(self.users.hold(&live, name, scope));
        }
        let (blueprint, preset) = (Arc::clone(&self.blueprint), name.to_owned());
        let read = move || (blueprint.source.preset_stamp(&preset), blueprint.preset(&preset));
        let (stamp, composition) = self.aside(read).await.ok_or_else(ends)?;
        let scope = self.put_preset(&mut state, &live, name, composition?).await?;
        state.unsure |=
            self.watch.as_ref().is_some_and(|(_, clock)| stamp.is_unsettled(clock.now_ms(), GRAIN));
        state.stamps.presets.insert(name.to_owned(), stamp);
        state.broken_presets.remove(name);
        Ok(self.users.hold(&live, name, scope))
    }

    async fn put_preset(
        &self,
        state: &mut State,
        live: &Live,
        name: &str,
        composition: Composition,
    ) -> Result<Scope, Vec<RowError>> {
        let catalog = &self.blueprint.catalog;
        if let Some(scope) = live.kept(name, &composition, catalog) {
            return Ok(scope);
        }
        let built = live.generation.nested(&scope_name(name), composition, catalog).await?;
        let scope = built.scope.clone();
        state.replaced.extend(live.put(name, built));
        Ok(scope)
    }

    /// Looks at the files and takes what changed.
    async fn look(&self) {
        let Some((policy, clock)) = &self.watch else { return };
        let mut state = self.state.lock().await;
        let glance = Glance {
            presets: self.users.names(),
            known: (!state.unsure).then(|| state.stamps.clone()),
            settle: policy.settle,
            now_ms: clock.now_ms(),
        };
        let blueprint = Arc::clone(&self.blueprint);
        let Some(found) = self.aside(move || blueprint.look(&glance)).await.flatten() else {
            return;
        };
        (state.unsure, state.stamps) = (found.unsure, found.stamps);
        match found.read {
            Ok(read) => self.take(&mut state, read).await,
            Err(errors) => self.tell_broken(&mut state, errors),
        }
    }

    async fn take(&self, state: &mut State, mut read: Read) {
        let mut warnings = fresh(&state.warnings, &read.composition.warnings);
        let all_warnings = read.composition.warnings.clone();
        let old = Arc::clone(&state.current);
        state.broken_presets.clone_from(&read.broken);
        let broken = with_presets(Vec::new(), &read.broken);
        for name in read.broken.keys() {
            read.presets.extend(old.composition(name).map(|last_good| (name.clone(), last_good)));
        }
        if old.is(&read, &self.blueprint.catalog) {
            state.warnings = all_warnings;
            if !warnings.is_empty() {
                self.tell(ReloadNews::Warned(warnings));
            }
            if !broken.is_empty() {
                self.tell_broken(state, broken);
            } else if state.broken.take().is_some() {
                self.tell(ReloadNews::Mended);
            }
            return;
        }
        match self.build(state, &old.generation, read).await {
            Ok(live) => {
                let unusable = self.check_defaults(state, &live).await;
                warnings.extend(fresh(&state.unusable, &unusable));
                let changes = live.changes_since(&old, |_| true, &self.blueprint.catalog);
                let (generation, waiting) =
                    (live.generation.number, live.generation.waiting.clone());
                (state.warnings, state.unusable) = (all_warnings, unusable);
                state.retired.push(std::mem::replace(&mut state.current, Arc::new(live)));
                let rows = changes.iter().map(|change| format!("{} {}", change.row, change.what));
                let rows: Vec<String> = rows.collect();
                log::info!("generation {generation} serves: {}", rows.join(", "));
                let is_broken = !broken.is_empty();
                self.tell(ReloadNews::Changed {
                    generation,
                    changes,
                    waiting,
                    warnings,
                    broken: is_broken,
                });
                if is_broken {
                    self.tell_broken(state, broken);
                } else {
                    state.broken = None;
                }
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
        let Read { composition, presets: rows, broken } = read;
        let with_broken = |errors| with_presets(errors, &broken);
        let generation = old.next(composition, catalog).await.map_err(with_broken)?;
        let (mut presets, mut errors) = (BTreeMap::new(), Vec::new());
        for (name, composition) in rows {
            match generation.nested(&scope_name(&name), composition, catalog).await {
                Ok(scope) => drop(presets.insert(name, scope)),
                Err(found) if broken.contains_key(&name) => {
                    errors.extend(found.into_iter().map(|error| of_last_good(error, &name)));
                }
                Err(found) => errors.extend(found),
            }
        }
        let live = Live::new(generation, presets);
        if errors.is_empty() {
            return Ok(live);
        }
        state.retired.push(Arc::new(live));
        Err(with_broken(errors))
    }

    /// What a new session would be refused with in this generation if it asked for nothing. That
    /// does not make the generation a bad one: sessions may ask for something else.
    async fn check_defaults(&self, state: &mut State, live: &Live) -> Vec<RowWarning> {
        let catalog = &self.blueprint.catalog;
        let (rows, _) = live.rows("");
        let checked = match defaults::preset(&live.generation.scope, &rows, catalog) {
            Err(errors) => Err(errors),
            Ok(name) => match self.default_preset(state, live, &name).await {
                Err(errors) => Err(defaults::of_preset(errors, &name, &rows)),
                Ok(scope) => defaults::model(&scope, &rows, &live.rows(&name).1, catalog).map(drop),
            },
        };
        checked.err().into_iter().flatten().map(RowWarning).collect()
    }

    async fn default_preset(
        &self,
        state: &mut State,
        live: &Live,
        name: &str,
    ) -> Result<Scope, Vec<RowError>> {
        if let Some(scope) = live.scope(name) {
            return Ok(scope);
        }
        let (blueprint, preset) = (Arc::clone(&self.blueprint), name.to_owned());
        let composition = self.aside(move || blueprint.preset(&preset)).await.ok_or_else(ends)?;
        self.put_preset(state, live, name, composition?).await
    }

    /// Stops the generations that nobody holds any more, beside everything else: nobody waits for
    /// the stops of strangers.
    fn sweep_soon(self: &Arc<Self>) {
        let this = Arc::clone(self);
        drop(self.tasks.spawn(async move {
            // Whoever stops some at the moment also finds what came meanwhile.
            let Ok(_stopping) = this.stopping.try_lock() else { return };
            while this.stop_free().await {}
        }));
    }

    /// Whether there was anything to stop.
    async fn stop_free(&self) -> bool {
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
        for preset in &replaced {
            preset.stop().await;
        }
        for live in &free {
            live.stop().await;
        }
        !(replaced.is_empty() && free.is_empty())
    }

    fn tell_broken(&self, state: &mut State, errors: Vec<RowError>) {
        log::warn!("changed files are broken: {} errors", errors.len());
        if !state.broken.as_ref().is_some_and(|told| are_same(told, &errors)) {
            self.tell(ReloadNews::Broken(errors.clone()));
            state.broken = Some(errors);
        }
    }

    fn tell(&self, news: ReloadNews) {
        // Nobody may be listening.
        drop(self.news.send(news));
    }

    /// Stops the generations in which nobody lives any more; how many are left.
    pub(crate) async fn stop_unused(self: &Arc<Self>) -> usize {
        let this = Arc::clone(self);
        self.own(async move {
            let stopping = this.stopping.lock().await;
            this.stop_free().await;
            let left = this.state.lock().await.retired.len() + 1;
            drop(stopping);
            left
        })
        .await
    }

    /// From now on nobody waits for the file system.
    pub(crate) fn give_up_looks(&self) {
        self.ending.cancel();
    }

    /// Stops what is left, the oldest first, also what somebody still holds.
    pub(crate) async fn end(&self) {
        self.give_up_looks();
        self.tasks.close();
        self.tasks.wait().await;
        let mut state = self.state.lock().await;
        for preset in std::mem::take(&mut state.replaced) {
            preset.stop().await;
        }
        for live in std::mem::take(&mut state.retired) {
            live.stop().await;
        }
        state.current.stop().await;
    }

    async fn newer(self: &Arc<Self>, of: PresetScope) -> Option<Newer> {
        let state = self.state.lock().await;
        if !state.retired.is_empty() {
            self.sweep_soon();
        }
        let live = Arc::clone(&state.current);
        if live.generation.number == of.generation {
            return None;
        }
        let keeper: Arc<dyn Any + Send + Sync> = of.keeper;
        let keeper = keeper.downcast::<Keeper>().ok()?;
        let uses = |name: &str| name == &*of.preset;
        let changes = live.changes_since(&keeper.live, uses, &self.blueprint.catalog);
        let scope = live.scope(&of.preset)?;
        Some(Newer { preset: self.users.hold(&live, &of.preset, scope), changes })
    }
}

/// What a task answered; `None` = the runtime is going.
fn awaited<T>(done: Result<T, JoinError>) -> Option<T> {
    match done.map_err(JoinError::try_into_panic) {
        Ok(done) => Some(done),
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(_)) => None,
    }
}

fn ends() -> Vec<RowError> {
    let problem = "Reins ends and reads no file any more".to_owned();
    vec![RowError::new(problem)]
}

/// An error of the last good row of a preset, which does not fit what else is new.
fn of_last_good(mut error: RowError, preset: &str) -> RowError {
    error.problem.push_str(&format!(
        "; this is the last good row of agent preset `{preset}`, whose file is broken or gone: put \
         the file right, or undo the change that the row does not fit"
    ));
    error
}

fn scope_name(preset: &str) -> String {
    format!("preset {preset}")
}

/// The generations as agents see them.
pub(crate) struct AgentGenerations(pub(crate) Arc<ProcessGenerations>);

impl reins_agent::Generations for AgentGenerations {
    fn newer(&self, of: &PresetScope) -> BoxFuture<'static, Option<Newer>> {
        let (generations, of) = (Arc::clone(&self.0), of.clone());
        Box::pin(async move {
            let looking = Arc::clone(&generations);
            generations.own(async move { looking.look().await }).await;
            generations.newer(of).await
        })
    }
}
