//! From a composition to live agents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_agent::{
    Agent, AgentError, AgentFactory, AgentOrder, PresetScope, PresetSelected, Provider,
    SessionOrder, TurnLimits, find_provider,
};
use reins_kernel::{Catalog, Origin, Row, RowError, RowWarning, Scope, nearest};
use reins_schema::{CallConfig, Failure, Payload, SessionId, SessionRecovered};
use reins_session::Status;
use reins_store::{Listing, Store, StoreError};
use reins_world::{Clock, FileKind, Fs};
use tokio::sync::broadcast;

use crate::generations::{Blueprint, Generations, Reload, Shared};
use crate::{DefaultModel, DefaultPreset};

/// The agents and sessions of one process.
pub struct Host {
    generations: Arc<Generations>,
    agents: Arc<dyn AgentFactory>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    files: Arc<dyn Fs>,
}

/// Why the host cannot do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// Rows that cannot be mounted, or layers that cannot be read.
    #[error("{}", lines(.0))]
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
        "session {session} belongs to `{}`, not to `{}`; leave --cwd out",
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
        "the directory `{}` of session {session} does not exist; give another with --cwd",
        is.display()
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
        lines(errors)
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

/// Which session a run uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChoice {
    /// A new one.
    New,
    /// This one.
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
    /// The log had a torn tail, which was cut off and kept.
    pub recovered: Option<SessionRecovered>,
}

impl Host {
    /// Builds the first generation. Also answers with what has no effect in it and was probably
    /// meant to.
    ///
    /// # Errors
    /// Everything that is wrong with the rows, or a row that the host needs is not enabled; nothing
    /// is left mounted.
    pub async fn start(blueprint: Blueprint) -> Result<(Self, Vec<RowWarning>), HostError> {
        let (generations, warnings) =
            Generations::start(blueprint).await.map_err(HostError::Rows)?;
        let scope = generations.scope().await;
        if let Some(Services { agents, store, clock, files }) = Services::of(&scope) {
            return Ok((Self { generations, agents, store, clock, files }, warnings));
        }
        let (rows, _) = generations.rows("").await;
        let missing = Services::missing(&scope).into_iter();
        let catalog = &generations.blueprint().catalog;
        let errors = missing.map(|service| missing_service(service, &rows, catalog)).collect();
        drop(scope);
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
    pub fn reloads(&self) -> broadcast::Receiver<Reload> {
        self.generations.news()
    }

    /// How many generations are not stopped yet: the newest one, and those in which agents live.
    pub async fn generations(&self) -> usize {
        self.generations.alive().await
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// All sessions, the last used first.
    ///
    /// # Errors
    /// The home cannot be read.
    pub async fn list(&self) -> Result<Listing, HostError> {
        Ok(self.store.list().await?)
    }

    /// Opens or creates a session and starts its agent. What can be refused without touching the
    /// disk (no key, unknown model) is refused before.
    ///
    /// # Errors
    /// Any of [`HostError`].
    pub async fn open(&self, order: OpenOrder) -> Result<Opened, HostError> {
        self.refresh().await;
        let Chosen { session, cwd, preset, last, next_seq } = self.choose(&order).await?;
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
            (Some(model), _) => Some(resolve_model(scope, model)?),
            // What the session used last goes on, with the provider's own defaults resolved anew.
            (None, Some(last)) => {
                check_model(scope, &last)?;
                None
            }
            (None, None) => {
                let config = self.default_model(&preset).await?;
                check_model(scope, &config)?;
                Some(config)
            }
        };
        let order = AgentOrder {
            preset,
            generations: Some(Arc::new(Shared(Arc::clone(&self.generations)))),
            session,
            cwd,
            model,
            limits: order.limits,
            setup: None,
        };
        let agent = self.agents.make(order).await?;
        let recovered = match next_seq {
            // It is the first thing that is written.
            Some(seq) => recovered_at(&agent, seq).await,
            None => None,
        };
        Ok(Opened { agent, recovered })
    }

    async fn choose(&self, order: &OpenOrder) -> Result<Chosen, HostError> {
        let id = match &order.session {
            SessionChoice::New => {
                let cwd = order.cwd.clone();
                let session = SessionOrder::New;
                return Ok(Chosen { session, cwd, preset: None, last: None, next_seq: None });
            }
            SessionChoice::Id(id) => id.clone(),
            SessionChoice::Newest => self.newest(&order.cwd).await?,
        };
        let mut selected = None;
        let mut look = |event: &reins_schema::Event| {
            selected = PresetSelected::of(event).or_else(|| selected.take());
        };
        let known = reins_agent::known_types(&self.scope().await);
        let inspected = self.store.inspect(&id, known, &mut look).await?;
        let last = inspected.fold.request_header().map(|header| header.config.clone());
        let is_torn = inspected.damage.as_ref().is_some_and(|damage| damage.is_tail);
        let next_seq = is_torn.then(|| inspected.fold.next_seq());
        let header = inspected.header;
        let preset = selected.or(header.agent_preset);
        let gone = self.directory(&header.cwd).await.is_none();
        if order.explicit_cwd && !gone && !self.same_directory(&header.cwd, &order.cwd).await {
            return Err(HostError::OtherDirectory {
                session: id,
                is: header.cwd,
                asked: order.cwd.clone(),
            });
        }
        if gone && !order.explicit_cwd {
            return Err(HostError::DirectoryGone { session: id, is: header.cwd });
        }
        let cwd = if order.explicit_cwd { order.cwd.clone() } else { header.cwd };
        Ok(Chosen { session: SessionOrder::Resume(id), cwd, preset, last, next_seq })
    }

    /// The preset of new sessions.
    pub(crate) async fn default_preset(&self) -> Result<PresetScope, HostError> {
        let Some(name) = self.scope().await.service::<DefaultPreset>() else {
            return Err(self.missing("default preset", "").await);
        };
        let errors = match self.preset(&name.0).await {
            Err(HostError::Rows(errors)) => errors,
            found => return found,
        };
        let (rows, _) = self.rows("").await;
        let row = row_of(&rows, "default-preset");
        // An error without a layer is about the name, which the row says.
        let place = |error: RowError| match row {
            Some(row) if error.layer.is_empty() => {
                let suggestion = error.suggestion.clone();
                RowError { suggestion, ..row_error(row, "preset", error.problem) }
            }
            _ => error,
        };
        Err(HostError::Rows(errors.into_iter().map(place).collect()))
    }

    /// The model of new sessions of a preset. A key may be absent.
    async fn default_model(&self, preset: &PresetScope) -> Result<CallConfig, HostError> {
        let scope = &preset.scope;
        let Some(model) = scope.service::<DefaultModel>() else {
            return Err(self.missing("default model", &preset.preset).await);
        };
        let failure = match known_model(scope, &model.0) {
            Err(HostError::Model(failure)) => failure,
            found => return found,
        };
        let (rows, own) = self.rows(&preset.preset).await;
        match row_of(&own, "default-model").or_else(|| row_of(&rows, "default-model")) {
            Some(row) => Err(HostError::Rows(vec![row_error(row, "model", failure.message)])),
            None => Err(HostError::Model(failure)),
        }
    }

    /// The error of a service that no row of the process or of a preset provides.
    async fn missing(&self, service: &str, preset: &str) -> HostError {
        let (mut rows, own) = self.rows(preset).await;
        rows.extend(own);
        HostError::Rows(vec![missing_service(service, &rows, &self.blueprint().catalog)])
    }

    /// The preset that a session used last.
    async fn used_preset(&self, session: &SessionId, name: &str) -> Result<PresetScope, HostError> {
        let errors = match self.preset(name).await {
            Err(HostError::Rows(errors)) => errors,
            found => return found,
        };
        let default = self.scope().await.service::<DefaultPreset>().map(|name| name.0.clone());
        let others = default.into_iter().chain(self.blueprint().source.presets());
        match others.into_iter().find(|other| other != name) {
            Some(instead) => {
                let session = session.clone();
                Err(HostError::SessionPreset { session, errors, instead })
            }
            None => Err(HostError::Rows(errors)),
        }
    }

    async fn newest(&self, cwd: &Path) -> Result<SessionId, HostError> {
        let listing = self.store.list().await?;
        for session in listing.sessions {
            if self.same_directory(&session.header.cwd, cwd).await {
                return Ok(session.header.id);
            }
        }
        Err(HostError::NoneHere { cwd: cwd.to_owned(), unreadable: listing.damaged.len() })
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
        let place = self.files.resolve(path, ".").await.ok()?;
        (place.kind == Some(FileKind::Directory)).then_some(place.real)
    }

    /// Closes all agents, then stops all rows in reverse order; awaits all their work.
    pub async fn stop(self) {
        self.agents.close_all().await;
        let Self { generations, agents, store, clock, files } = self;
        drop((agents, store, clock, files));
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
    fn of(scope: &Scope) -> Option<Self> {
        Some(Self {
            agents: scope.service()?,
            store: scope.service()?,
            clock: scope.service()?,
            files: scope.service()?,
        })
    }

    /// The names of those that are not there.
    fn missing(scope: &Scope) -> Vec<&'static str> {
        let there = [
            ("agents", scope.service::<dyn AgentFactory>().is_some()),
            ("store", scope.service::<dyn Store>().is_some()),
            ("clock", scope.service::<dyn Clock>().is_some()),
            ("fs", scope.service::<dyn Fs>().is_some()),
        ];
        there.into_iter().filter(|(_, there)| !there).map(|(name, _)| name).collect()
    }
}

/// The enabled row of a plugin that there is at most one of.
fn row_of<'r>(rows: &'r [Row], plugin: &str) -> Option<&'r Row> {
    rows.iter().find(|row| row.plugin == plugin && !row.disabled)
}

fn row_error(row: &Row, field: &str, problem: String) -> RowError {
    let Origin { layer, file, line, .. } = row.field_origin(field);
    let (row, field) = (Some(row.id.clone()), Some(format!("config.{field}")));
    RowError { layer, file, line, row, field, problem, ..RowError::default() }
}

/// Where the row that would provide the service is disabled, or which plugin would.
fn missing_service(service: &str, rows: &[Row], catalog: &Catalog) -> RowError {
    let plugins = catalog.plugins().into_iter();
    let plugins: Vec<&str> =
        plugins.filter(|plugin| plugin.provides.contains(&service)).map(|p| p.name).collect();
    let mut could = rows.iter().filter(|row| plugins.contains(&&*row.plugin));
    let Some((row, by)) = could.find_map(|row| Some((row, row.disabled_by.clone()?))) else {
        let problem = format!(
            "Reins needs service `{service}`, which no row provides; insert a row of plugin `{}`, or \
             add a bundle that has one",
            plugins.join("` or `")
        );
        return RowError { problem, ..RowError::default() };
    };
    let problem = format!("Reins needs its service `{service}`; it must not be disabled");
    let Origin { layer, file, line, .. } = by;
    let row = Some(row.id.clone());
    RowError { layer, file, line, row, problem, ..RowError::default() }
}

fn lines(errors: &[RowError]) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

/// Resolves `provider/model` and checks that a request could leave.
fn resolve_model(scope: &Scope, text: &str) -> Result<CallConfig, HostError> {
    let config = known_model(scope, text)?;
    check_model(scope, &config)?;
    Ok(config)
}

/// Resolves `provider/model`.
fn known_model(scope: &Scope, text: &str) -> Result<CallConfig, HostError> {
    let (provider, model) = split_model(scope, text)?;
    let config = CallConfig {
        provider: provider.id().to_owned(),
        model: model.to_owned(),
        ..CallConfig::default()
    };
    provider.resolve(config.clone()).map_err(HostError::Model)?;
    Ok(config)
}

fn check_model(scope: &Scope, config: &CallConfig) -> Result<(), HostError> {
    let provider = find_provider(scope, &config.provider).map_err(HostError::Model)?;
    provider.resolve(config.clone()).map_err(HostError::Model)?;
    provider.ready().map_err(HostError::Model)
}

fn advice(unreadable: usize) -> String {
    match unreadable {
        0 => "; start one without --continue".to_owned(),
        1 => "; 1 session folder cannot be read, `reins session list` names it".to_owned(),
        n => format!("; {n} session folders cannot be read, `reins session list` names them"),
    }
}

/// A session, its directory, and the call configuration of its last request.
struct Chosen {
    session: SessionOrder,
    cwd: PathBuf,
    /// The preset that the session used last.
    preset: Option<String>,
    last: Option<CallConfig>,
    /// The number of the next event of a log with a torn tail.
    next_seq: Option<u64>,
}

/// What was cut off the log when it was opened; waits for the event.
async fn recovered_at(agent: &Agent, seq: u64) -> Option<SessionRecovered> {
    let (mut events, mut status) = (agent.events(seq), agent.status());
    let event = tokio::select! {
        biased;
        event = events.next() => event?,
        // Nothing is written any more.
        _ = status.wait_for(|status| *status == Status::Dead) => return None,
    };
    match Payload::read(&event.body) {
        Ok(Payload::SessionRecovered(recovered)) => Some(recovered),
        _ => None,
    }
}

/// Provider and model id of `provider/model`.
fn split_model<'a>(
    scope: &Scope,
    text: &'a str,
) -> Result<(Arc<dyn Provider>, &'a str), HostError> {
    let Some((provider, model)) =
        text.split_once('/').filter(|(p, m)| !p.is_empty() && !m.is_empty())
    else {
        let meant = listed(scope, text);
        let hint = meant.map(|model| format!("; did you mean `{model}`?")).unwrap_or_default();
        let failure = Failure::new(
            reins_schema::FailureCode::InvalidRequest,
            format!("`{text}` is not a model; models are written provider/model{hint}"),
        );
        return Err(HostError::Model(failure));
    };
    Ok((find_provider(scope, provider).map_err(HostError::Model)?, model))
}

/// The full name of the listed model that `text` names, or nearly names.
fn listed(scope: &Scope, text: &str) -> Option<String> {
    let providers = scope.entries::<dyn Provider>();
    let models = providers.iter().flat_map(|entry| {
        let names = entry.value.models().into_iter().map(|model| model.id);
        names.map(|id| (format!("{}/{id}", entry.value.id()), id))
    });
    let models: Vec<(String, String)> = models.collect();
    let near = nearest(text.trim_matches('/'), models.iter().map(|(_, id)| id.as_str()))?;
    models.iter().find(|(_, id)| id == near).map(|(name, _)| name.clone())
}
