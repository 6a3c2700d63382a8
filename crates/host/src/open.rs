//! The host: from the rows of a process to live agents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_agent::{
    Agent, AgentError, AgentFactory, AgentOrder, PresetScope, PresetSelected, SessionOrder,
    TurnLimits,
};
use reins_kernel::{Row, RowError, RowWarning, Scope};
use reins_schema::{CallConfig, Failure, Payload, SessionId, SessionMoved, SessionRecovered};
use reins_session::Status;
use reins_store::{Inspected, ListFilter, Listing, Store, StoreError};
use reins_world::{Clock, FileKind, Fs};
use tokio::sync::broadcast;

use crate::blueprint::Blueprint;
use crate::generations::{AgentGenerations, ProcessGenerations};
use crate::model::{check_model, resolve_model};
use crate::news::ReloadNews;
use crate::{DefaultPreset, defaults};

/// The agents and sessions of one process.
pub struct Host {
    generations: Arc<ProcessGenerations>,
    services: Services,
}

/// Why the host cannot do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Rows that cannot be mounted, or layers that cannot be read.
    #[error("{}", RowError::lines(.0))]
    Rows(Vec<RowError>),
    /// The model cannot be used.
    #[error("{0}")]
    Model(Failure),
    /// No session fits.
    #[error("there is no session of directory `{}` yet{}", cwd.display(), advice(*unreadable))]
    NoneHere {
        /// The directory.
        cwd: PathBuf,
        /// Session folders that cannot be read; one of them may be of this directory.
        unreadable: usize,
    },
    /// The session belongs to another directory than the one asked for.
    #[error(
        "session {session} belongs to `{}`, not to `{}`; leave --cwd out, or say that it belongs \
         there from now on: reins session move {session} DIR",
        is.display(),
        asked.display()
    )]
    OtherDirectory {
        /// The session.
        session: SessionId,
        /// Its directory.
        is: PathBuf,
        /// The one asked for.
        asked: PathBuf,
    },
    /// A directory whose path cannot be written down in a log or request.
    #[error(
        "the directory `{}` is not UTF-8; run in a directory whose whole path is",
        .0.display()
    )]
    NotUtf8(PathBuf),
    /// The session's directory is gone.
    #[error(
        "the directory{} of session {session} {}; say where it is now, with --cwd DIR or by: \
         reins session move {session} DIR",
        if is.as_os_str().is_empty() { String::new() } else { format!(" `{}`", is.display()) },
        if is.as_os_str().is_empty() { "is not known any more" } else { "does not exist" },
    )]
    DirectoryGone {
        /// The session.
        session: SessionId,
        /// Its directory.
        is: PathBuf,
    },
    /// The agent preset that the session used last is gone or broken.
    #[error(
        "{}\nsession {session} uses this agent preset; go on with another one: --preset {instead}",
        RowError::lines(errors)
    )]
    SessionPreset {
        /// The session.
        session: SessionId,
        /// What is wrong with its preset.
        errors: Vec<RowError>,
        /// Another preset.
        instead: String,
    },
    /// The store's words.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The agent's words.
    #[error(transparent)]
    Agent(#[from] AgentError),
}

/// The preset of sessions whose header names none: they were made before there were presets, with
/// what is in this one.
const FIRST_PRESET: &str = "standard";

/// Which session a run uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new one.
    New,
    /// The one whose id is this, or begins so when no other does.
    Id(SessionId),
    /// The one of this directory that was used last.
    Newest,
}

/// What a live agent is to be.
#[derive(Clone, Debug)]
pub struct OpenOrder {
    /// Which session.
    pub session: SessionChoice,
    /// The directory; with `explicit_cwd` it was asked for by name.
    pub cwd: PathBuf,
    /// `--cwd` was given.
    pub explicit_cwd: bool,
    /// `provider/model`, when asked for.
    pub model: Option<String>,
    /// The agent preset; `None` = the session's own, for a new one the default.
    pub preset: Option<String>,
    /// Limits of a turn, where they differ from those of the rows.
    pub limits: TurnLimits,
}

/// A live agent.
pub struct Opened {
    /// It.
    pub agent: Agent,
    /// What was damaged in the log, and what was done about it.
    pub recovered: Vec<SessionRecovered>,
}

impl Host {
    /// Builds the first generation. Also answers with what has no effect in it and was probably
    /// meant to. When this is dropped, nobody waits for files any more that do not answer.
    ///
    /// # Errors
    /// Everything that is wrong with the rows, or a row that the host needs is not enabled; nothing
    /// is left mounted.
    pub async fn start(blueprint: Blueprint) -> Result<(Self, Vec<RowWarning>), HostError> {
        let (generations, warnings) =
            ProcessGenerations::start(blueprint).await.map_err(HostError::Rows)?;
        let missing = match Services::of(&generations.scope().await) {
            Ok(services) => return Ok((Self { generations, services }, warnings)),
            Err(missing) => missing.into_iter(),
        };
        let (rows, _) = generations.rows("").await;
        let catalog = &generations.blueprint().catalog;
        let errors = missing.map(|name| defaults::missing(name, rows.iter(), catalog)).collect();
        generations.end().await;
        Err(HostError::Rows(errors))
    }

    /// The scope `global` of the newest good generation, for explaining.
    pub async fn scope(&self) -> Scope {
        self.generations.scope().await
    }

    /// The scope of an agent preset in the newest good generation.
    ///
    /// # Errors
    /// There is none of this name, or its rows cannot be mounted.
    pub async fn preset(&self, name: &str) -> Result<PresetScope, HostError> {
        self.generations.preset(name).await.map_err(HostError::Rows)
    }

    /// All rows of the newest good generation, then those of a preset that is in use; the disabled
    /// ones, too.
    pub async fn rows(&self, preset: &str) -> (Vec<Row>, Vec<Row>) {
        self.generations.rows(preset).await
    }

    /// Checks the defaults of new sessions: that the preset exists and that the model is known. A
    /// key may be absent.
    ///
    /// # Errors
    /// Which of the two is wrong.
    pub async fn check_defaults(&self) -> Result<(), HostError> {
        let preset = self.default_preset().await?;
        self.default_model(&preset).await.map(drop)
    }

    /// Checks an agent preset: its rows, and that the model of its new sessions is known. A key may
    /// be absent.
    ///
    /// # Errors
    /// What is wrong.
    pub async fn check_preset(&self, name: &str) -> Result<(), HostError> {
        let preset = self.preset(name).await?;
        self.default_model(&preset).await.map(drop)
    }

    /// What the generations are made from.
    pub fn blueprint(&self) -> &Blueprint {
        self.generations.blueprint()
    }

    /// Looks whether the files of the layers changed, and if so builds the next generation. Agents
    /// also look by themselves before each turn.
    pub async fn refresh(&self) {
        self.generations.refresh().await;
    }

    /// Watches the files as the row `reload` says; never returns. Run it beside other work and drop
    /// it with that.
    pub async fn watch(&self) -> std::convert::Infallible {
        self.generations.watch().await
    }

    /// What becomes of changed files from now on. A receiver that does not keep up misses the
    /// oldest news.
    pub fn reloads(&self) -> broadcast::Receiver<ReloadNews> {
        self.generations.news()
    }

    /// Stops the generations in which no agent lives any more, which else happens by the way. How
    /// many are left: the newest one, and those in which agents live.
    pub async fn stop_unused(&self) -> usize {
        self.generations.stop_unused().await
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.services.clock
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.services.store
    }

    /// All sessions, the last used first.
    ///
    /// # Errors
    /// The home cannot be read.
    pub async fn list(&self) -> Result<Listing, HostError> {
        Ok(self.services.store.list(ListFilter::default()).await?)
    }

    /// Opens or creates a session and starts its agent. What can be refused without touching the
    /// disk (no key, unknown model) is refused before.
    ///
    /// # Errors
    /// Any of [`HostError`].
    pub async fn open(&self, order: OpenOrder) -> Result<Opened, HostError> {
        self.refresh().await;
        let Chosen { session, cwd, moved, preset, last, next_seq } = self.choose(&order).await?;
        if cwd.to_str().is_none() {
            return Err(HostError::NotUtf8(cwd));
        }
        let preset = match (order.preset, preset, &session) {
            (None, Some(used), SessionOrder::Resume(id)) => self.used_preset(id, &used).await?,
            (Some(preset), ..) => self.preset(&preset).await?,
            (None, ..) => self.default_preset().await?,
        };
        let scope = &preset.scope;
        let model = match (&order.model, last) {
            (Some(model), _) => Some(resolve_model(scope, model).map_err(HostError::Model)?),
            // What the session used last goes on, with the provider's own defaults resolved anew.
            (None, Some(last)) => {
                check_model(scope, &last).map_err(HostError::Model)?;
                None
            }
            (None, None) => {
                let config = self.default_model(&preset).await?;
                check_model(scope, &config).map_err(HostError::Model)?;
                Some(config)
            }
        };
        let order = AgentOrder {
            preset,
            generations: Some(Arc::new(AgentGenerations(Arc::clone(&self.generations)))),
            session,
            cwd,
            model,
            limits: order.limits,
            setup: None,
        };
        let (preset, generation) = (order.preset.preset.clone(), order.preset.generation);
        let agent = self.services.agents.make(order).await?;
        let session = agent.session();
        log::info!("session {session} is open, preset {preset} of generation {generation}");
        let recovered = match next_seq {
            Some(seq) => recovered_since(&agent, seq).await,
            None => Vec::new(),
        };
        if !recovered.is_empty() {
            log::warn!("session {}: {} places were damaged", agent.session(), recovered.len());
        }
        if let Some(moved) = moved
            && let Err(error) = self.log_move(&agent, moved).await
        {
            agent.close().await;
            return Err(error);
        }
        Ok(Opened { agent, recovered })
    }

    async fn choose(&self, order: &OpenOrder) -> Result<Chosen, HostError> {
        let id = match &order.session {
            SessionChoice::New => {
                let cwd = order.cwd.clone();
                let (session, moved, preset) = (SessionOrder::New, None, None);
                return Ok(Chosen { session, cwd, moved, preset, last: None, next_seq: None });
            }
            SessionChoice::Id(begins) => self.services.store.find(begins.as_str()).await?,
            SessionChoice::Newest => self.newest(&order.cwd).await?,
        };
        let known = reins_agent::known_types(&self.scope().await);
        let Inspected { header, fold, .. } = self.services.store.inspect(&id, known).await?;
        let last = fold.request_header().map(|header| header.config.clone());
        let selected = fold.last_of(PresetSelected::TYPE).and_then(PresetSelected::of);
        let preset = selected.or(header.agent_preset).unwrap_or_else(|| FIRST_PRESET.to_owned());
        let is = fold.cwd().to_owned();
        // A header that was lost does not say any more where the session began.
        let gone = is.as_os_str().is_empty() || self.directory(&is).await.is_none();
        if order.explicit_cwd && !gone && !self.same_directory(&is, &order.cwd).await {
            return Err(HostError::OtherDirectory { session: id, is, asked: order.cwd.clone() });
        }
        if gone && !order.explicit_cwd {
            return Err(HostError::DirectoryGone { session: id, is });
        }
        let to = order.cwd.clone();
        let moved = gone.then(|| SessionMoved { from: is.clone(), to: to.clone() });
        let cwd = if order.explicit_cwd { to } else { is };
        let (session, next_seq) = (SessionOrder::Resume(id), Some(fold.next_seq()));
        Ok(Chosen { session, cwd, moved, preset: Some(preset), last, next_seq })
    }

    /// From now on `--continue` finds the session in its new directory.
    async fn log_move(&self, agent: &Agent, moved: SessionMoved) -> Result<(), HostError> {
        let session = agent.session().clone();
        let failed = |reason: String| HostError::Agent(AgentError::Start { session, reason });
        let draft = match Payload::SessionMoved(moved).draft(Vec::new()) {
            Ok(draft) => draft,
            Err(error) => return Err(failed(error.to_string())),
        };
        agent.commit(draft).await.map(drop).map_err(|refusal| failed(refusal.0))
    }

    /// The preset of new sessions.
    pub(crate) async fn default_preset(&self) -> Result<PresetScope, HostError> {
        let (rows, _) = self.rows("").await;
        let name = defaults::preset(&self.scope().await, &rows, &self.blueprint().catalog)
            .map_err(HostError::Rows)?;
        match self.preset(&name).await {
            Err(HostError::Rows(errors)) => {
                Err(HostError::Rows(defaults::of_preset(errors, &name, &rows)))
            }
            found => found,
        }
    }

    /// The model of new sessions of a preset. A key may be absent.
    async fn default_model(&self, preset: &PresetScope) -> Result<CallConfig, HostError> {
        let (rows, own) = self.rows(&preset.preset).await;
        let catalog = &self.blueprint().catalog;
        defaults::model(&preset.scope, &rows, &own, catalog).map_err(HostError::Rows)
    }

    /// The preset that a session used last.
    async fn used_preset(&self, session: &SessionId, name: &str) -> Result<PresetScope, HostError> {
        let errors = match self.preset(name).await {
            Err(HostError::Rows(errors)) => errors,
            found => return found,
        };
        let default = self.scope().await.service::<DefaultPreset>().map(|name| name.0.clone());
        let known = self.generations.preset_names().await.map_err(HostError::Rows)?;
        match default.into_iter().chain(known).find(|other| other != name) {
            Some(instead) => {
                let session = session.clone();
                Err(HostError::SessionPreset { session, errors, instead })
            }
            None => Err(HostError::Rows(errors)),
        }
    }

    async fn newest(&self, cwd: &Path) -> Result<SessionId, HostError> {
        let cwd = cwd.to_owned();
        let limit = Some(1);
        let wanted = ListFilter { cwd: Some(cwd.clone()), limit, ..ListFilter::default() };
        let listing = self.services.store.list(wanted).await?;
        let newest = listing.sessions.into_iter().next().map(|session| session.header.id);
        newest.ok_or(HostError::NoneHere { cwd, unreadable: listing.damaged.len() })
    }

    /// Whether both name one directory, also through links.
    async fn same_directory(&self, a: &Path, b: &Path) -> bool {
        if a == b {
            return true;
        }
        let real = self.directory(a).await;
        real.is_some() && real == self.directory(b).await
    }

    /// The real path of a directory that exists.
    async fn directory(&self, path: &Path) -> Option<PathBuf> {
        let place = self.services.files.resolve(path, ".").await.ok()?;
        (place.kind == Some(FileKind::Directory)).then_some(place.real)
    }

    /// Closes all agents, then stops all rows in reverse order, also those of a generation that
    /// somebody still holds; awaits all their work. Nobody waits for a file system that does not
    /// answer a look at the files of rows.
    pub async fn stop(self) {
        let Self { generations, services } = self;
        generations.give_up_looks();
        services.agents.close_all().await;
        log::info!("all sessions are closed");
        drop(services);
        generations.end().await;
    }
}

/// What the host uses itself.
struct Services {
    agents: Arc<dyn AgentFactory>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    files: Arc<dyn Fs>,
}

impl Services {
    /// # Errors
    /// The names of those that are not there.
    fn of(scope: &Scope) -> Result<Self, Vec<&'static str>> {
        let mut missing = Vec::new();
        let (agents, store) = (
            found::<dyn AgentFactory>(scope, "agents", &mut missing),
            found::<dyn Store>(scope, "store", &mut missing),
        );
        let (clock, files) = (
            found::<dyn Clock>(scope, "clock", &mut missing),
            found::<dyn Fs>(scope, "fs", &mut missing),
        );
        match (agents, store, clock, files) {
            (Some(agents), Some(store), Some(clock), Some(files)) => {
                Ok(Self { agents, store, clock, files })
            }
            _ => Err(missing),
        }
    }
}

fn found<S: ?Sized + Send + Sync + 'static>(
    scope: &Scope,
    name: &'static str,
    missing: &mut Vec<&'static str>,
) -> Option<Arc<S>> {
    let found = scope.service::<S>();
    missing.extend(found.is_none().then_some(name));
    found
}

fn advice(unreadable: usize) -> String {
    match unreadable {
        0 => "; start one without --continue".to_owned(),
        1 => "; 1 session folder cannot be read, `reins session list` names it".to_owned(),
        n => format!("; {n} session folders cannot be read, `reins session list` names them"),
    }
}

/// The session that an order chose, before anything of it is opened.
struct Chosen {
    session: SessionOrder,
    cwd: PathBuf,
    /// Its directory is gone, and another was given.
    moved: Option<SessionMoved>,
    /// The preset that the session used last; a new one has none yet.
    preset: Option<String>,
    last: Option<CallConfig>,
    /// The number of the next event of a session that there was before.
    next_seq: Option<u64>,
}

/// What opening found in the log. It was written before the agent could be used.
async fn recovered_since(agent: &Agent, seq: u64) -> Vec<SessionRecovered> {
    let (mut events, mut status) = (agent.events(seq), agent.status());
    let mut recovered = Vec::new();
    for _ in seq..agent.next_seq() {
        let event = tokio::select! {
            biased;
            event = events.next() => event,
            // Nothing is written any more.
            _ = status.wait_for(|status| *status == Status::Dead) => None,
        };
        let Some(event) = event else { break };
        if let Ok(Payload::SessionRecovered(facts)) = Payload::read(&event.body) {
            recovered.push(facts);
        }
    }
    recovered
}
