//! From a composition to live agents.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::DefaultModel;
use reins_agent::{
    Agent, AgentError, AgentFactory, AgentOrder, Provider, SessionOrder, find_provider,
};
use reins_kernel::{Generation, Row, Scope, nearest};
use reins_schema::{CallConfig, Failure, Payload, SessionId, SessionRecovered};
use reins_store::{Listing, Store, StoreError};
use reins_world::{Clock, FileKind, Fs};

/// The agents and sessions of one process.
pub struct Host {
    generation: Generation,
    agents: Arc<dyn AgentFactory>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    files: Arc<dyn Fs>,
}

/// Why the host cannot do something.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// A service that the host needs is in no enabled row.
    #[error("no enabled row provides {0}; see `reins config dump`")]
    Missing(String),
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
    /// Steps of a turn.
    pub max_steps: Option<u64>,
    /// Wall time of a turn in milliseconds.
    pub max_time_ms: Option<u64>,
}

/// A live agent.
pub struct Opened {
    /// It.
    pub agent: Agent,
    /// The log had a torn tail, which was cut off and kept.
    pub recovered: Option<SessionRecovered>,
}

impl Host {
    /// Takes over a built generation.
    ///
    /// # Errors
    /// A row that the host needs is not enabled.
    pub fn new(generation: Generation) -> Result<Self, HostError> {
        fn need<S: ?Sized + Send + Sync + 'static>(scope: &Scope) -> Result<Arc<S>, HostError> {
            scope.need::<S>().map_err(|missing| HostError::Missing(missing.to_string()))
        }
        let agents = need::<dyn AgentFactory>(&generation.scope)?;
        let store = need::<dyn Store>(&generation.scope)?;
        let clock = need::<dyn Clock>(&generation.scope)?;
        let files = need::<dyn Fs>(&generation.scope)?;
        Ok(Self { generation, agents, store, clock, files })
    }

    /// The root scope, for explaining.
    pub fn scope(&self) -> &Scope {
        &self.generation.scope
    }

    /// All rows, the disabled ones too, for explaining.
    pub fn rows(&self) -> &[Row] {
        &self.generation.rows
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
        let Chosen { session, cwd, last, next_seq } = self.choose(&order).await?;
        if cwd.to_str().is_none() {
            return Err(HostError::NotUtf8(cwd));
        }
        let model = match (&order.model, last) {
            (Some(model), _) => Some(self.model(model)?),
            // What the session used last goes on, with the provider's own defaults resolved anew.
            (None, Some(last)) => {
                self.check(&last)?;
                None
            }
            (None, None) => Some(self.model(&self.default_model()?)?),
        };
        let order = AgentOrder {
            scope: self.generation.scope.clone(),
            session,
            cwd,
            model,
            max_steps: order.max_steps,
            max_time_ms: order.max_time_ms,
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

    /// Resolves `provider/model` and checks that a request could leave.
    fn model(&self, text: &str) -> Result<CallConfig, HostError> {
        let (provider, model) = split_model(self.scope(), text)?;
        let config = CallConfig {
            provider: provider.id().to_owned(),
            model: model.to_owned(),
            ..CallConfig::default()
        };
        self.check(&config)?;
        Ok(config)
    }

    fn check(&self, config: &CallConfig) -> Result<(), HostError> {
        let provider = find_provider(self.scope(), &config.provider).map_err(HostError::Model)?;
        provider.resolve(config.clone()).map_err(HostError::Model)?;
        provider.ready().map_err(HostError::Model)
    }

    fn default_model(&self) -> Result<String, HostError> {
        let row = self.scope().need::<DefaultModel>();
        row.map(|row| row.0.clone()).map_err(|e| HostError::Missing(e.to_string()))
    }

    async fn choose(&self, order: &OpenOrder) -> Result<Chosen, HostError> {
        let id = match &order.session {
            SessionChoice::New => {
                let cwd = order.cwd.clone();
                return Ok(Chosen { session: SessionOrder::New, cwd, last: None, next_seq: None });
            }
            SessionChoice::Id(id) => id.clone(),
            SessionChoice::Newest => self.newest(&order.cwd).await?,
        };
        let mut unseen = |_: &reins_schema::Event| {};
        let known = reins_agent::known_types(self.scope());
        let inspected = self.store.inspect(&id, known, &mut unseen).await?;
        let last = inspected.fold.request_header().map(|header| header.config.clone());
        let is_torn = inspected.damage.as_ref().is_some_and(|damage| damage.is_tail);
        let next_seq = is_torn.then(|| inspected.fold.next_seq());
        let header = inspected.header;
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
        Ok(Chosen { session: SessionOrder::Resume(id), cwd, last, next_seq })
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

    /// Stops all rows in reverse order and awaits their work.
    pub async fn stop(self) {
        self.generation.stop().await;
    }
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
    last: Option<CallConfig>,
    /// The number of the next event of a log with a torn tail.
    next_seq: Option<u64>,
}

/// What was cut off the log when it was opened; waits for the event.
async fn recovered_at(agent: &Agent, seq: u64) -> Option<SessionRecovered> {
    let event = agent.events(seq).next().await?;
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
