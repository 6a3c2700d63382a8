//! Making agents: a transaction that either publishes a working agent or leaves nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reins_kernel::{
    BoxFuture, Mount, MountError, Plugin, PluginDef, Registration, Scope, ServiceKey,
};
use reins_schema::{CallConfig, FORMAT, Header, SessionId};
use reins_session::{Core, Input, KnownTypes, Limits, Status};
use reins_store::{OpenSession, Store, StoreError};
use reins_world::Clock;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::approvals::Committer;
use crate::driver::{Driver, DriverLimits, Environment, TurnState, Waiting};
use crate::events::{EVENT_TYPES, EventType, SandboxMode, own_draft};
use crate::handle::{Agent, Shared};
use crate::observations::Observations;
use crate::prompt::snapshot_text;
use crate::size::MAX_PAYLOAD_BYTES;

/// What an agent is made of.
pub struct AgentOrder {
    /// The scope of the generation; the agent gets a child of it.
    pub scope: Scope,
    /// New session, or one that continues.
    pub session: SessionOrder,
    /// Its directory.
    pub cwd: PathBuf,
    /// The model; `None` = what the session used last.
    pub model: Option<CallConfig>,
    /// Limits of a turn; `None` = those of the row.
    pub max_steps: Option<u64>,
    /// In milliseconds; `None` = that of the row.
    pub max_time_ms: Option<u64>,
    /// Registers things in the agent's own scope before anything runs.
    #[expect(clippy::type_complexity, reason = "one use, and an alias would hide it")]
    pub setup: Option<Box<dyn FnOnce(&Scope) -> Result<Vec<Registration>, String> + Send>>,
}

/// Which session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionOrder {
    /// A new one.
    New,
    /// This one.
    Resume(SessionId),
}

/// Why there is no agent. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The session cannot be made or opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A service is missing.
    #[error("{0}")]
    Missing(String),
    /// The owner's own set-up refused.
    #[error("setting up the agent: {0}")]
    Setup(String),
    /// The log holds events of a plugin that is not there.
    #[error("session {session} can only be read: {reason}")]
    ReadOnly {
        /// The session.
        session: SessionId,
        /// Which event, and what would help.
        reason: String,
    },
    /// The session's first events were refused.
    #[error("starting session {session}: {reason}")]
    Start {
        /// The session.
        session: SessionId,
        /// The core's words.
        reason: String,
    },
}

/// The service that makes agents.
pub trait AgentFactory: Send + Sync {
    /// Opens the session, repairs it, starts the driver, publishes.
    ///
    /// # Errors
    /// Any of [`AgentError`]; then the session is closed again.
    fn make(&self, order: AgentOrder) -> BoxFuture<'_, Result<Agent, AgentError>>;
}

/// Settings of the row `agent-loop`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct LoopConfig {
    /// Tool bodies that run at once, at least 1.
    parallel_tools: usize,
    /// Steps of a turn; 0 = no limit.
    max_steps: u64,
    /// Tool calls of a turn; 0 = no limit.
    max_tool_calls: u64,
    /// Wall time of a turn in seconds; 0 = no limit.
    max_time_s: u64,
    /// Messages that may wait.
    inbox: usize,
    /// Milliseconds that a cancelled tool may take to end.
    cancel_grace_ms: u64,
    /// Bytes of one result that enter the context.
    max_result_bytes: usize,
    /// Bytes of one answer, as the log writes it; a longer one fails.
    max_answer_bytes: usize,
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self {
            parallel_tools: 10,
            max_steps: 0,
            max_tool_calls: 0,
            max_time_s: 0,
            inbox: 1000,
            cancel_grace_ms: 5000,
            max_result_bytes: 50_000,
            max_answer_bytes: 16 * 1024 * 1024,
        }
    }
}

/// The row `agent-loop`: the driver and the agent's own event types.
struct LoopPlugin;

/// The plugin of this crate.
pub const PLUGIN: PluginDef = PluginDef::of::<LoopPlugin>();

impl Plugin for LoopPlugin {
    const NAME: &'static str = "agent-loop";
    const SUMMARY: &'static str = "Drives sessions: turns, steps, tools, cancellation, limits.";
    type Config = LoopConfig;

    fn needs() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Store>("store"), ServiceKey::of::<dyn Clock>("clock")]
    }

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn AgentFactory>("agents")]
    }

    fn mount(config: LoopConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        if config.parallel_tools == 0 {
            return Err(MountError::new("must be at least 1").at("parallel_tools"));
        }
        for (name, bytes) in [
            ("max_answer_bytes", config.max_answer_bytes),
            ("max_result_bytes", config.max_result_bytes),
        ] {
            if bytes > MAX_LIMIT {
                return Err(MountError::new(format!("must be at most {MAX_LIMIT}")).at(name));
            }
        }
        for (name, event_type) in EVENT_TYPES {
            mount.add::<EventType>(name, Arc::new(event_type))?;
        }
        let factory = LoopFactory { store: mount.need()?, clock: mount.need()?, config };
        mount.provide::<dyn AgentFactory>(Arc::new(factory))
    }
}

struct LoopFactory {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    config: LoopConfig,
}

/// Commands that may wait in a mailbox; senders wait beyond that.
const MAILBOX: usize = 256;
/// Answers that may wait for the driver; work waits beyond that.
const ANSWERS: usize = 256;
/// The most that may be configured for answers and results, so that they fit into records.
const MAX_LIMIT: usize = MAX_PAYLOAD_BYTES / 2;
/// Until the sandbox exists, tools reach whatever the user reaches.
const MODE: &str = "danger-full-access";

impl AgentFactory for LoopFactory {
    fn make(&self, order: AgentOrder) -> BoxFuture<'_, Result<Agent, AgentError>> {
        Box::pin(self.make_agent(order))
    }
}

impl LoopFactory {
    async fn make_agent(&self, order: AgentOrder) -> Result<Agent, AgentError> {
        let known = known_types(&order.scope);
        let mut seen = Seen::default();
        let opened = self.open(&order.session, &order.cwd, known, &mut seen).await?;
        let session = opened.header.id.clone();
        if let Some(reason) = opened.fold.read_only() {
            let reason = reason.to_owned();
            opened.log.close().await?;
            return Err(AgentError::ReadOnly { session, reason });
        }
        let scope = order.scope.child(session.as_str());
        let setup = order.setup.map_or(Ok(Vec::new()), |setup| setup(&scope));
        let registrations = match setup {
            Ok(registrations) => registrations,
            Err(problem) => {
                opened.log.close().await?;
                return Err(AgentError::Setup(problem));
            }
        };
        let limits = self.limits(order.max_steps, order.max_time_ms);
        let env = Environment {
            scope: scope.clone(),
            session: session.clone(),
            cwd: order.cwd,
            clock: self.clock.clone(),
            limits: DriverLimits {
                grace: Duration::from_millis(self.config.cancel_grace_ms),
                max_result_bytes: self.config.max_result_bytes,
                max_answer_bytes: self.config.max_answer_bytes,
            },
            dead: Arc::new(OnceLock::new()),
        };
        let turn = TurnState {
            seed: order.model.unwrap_or_default(),
            last_facts: seen.facts,
            ..TurnState::default()
        };
        let agent = start(opened, env, limits, turn, registrations);
        if seen.mode.as_deref() != Some(MODE)
            && let Err(reason) = record_mode(&agent.1).await
        {
            agent.0.close().await;
            return Err(AgentError::Start { session, reason });
        }
        Ok(agent.0)
    }

    async fn open(
        &self,
        session: &SessionOrder,
        cwd: &Path,
        known: KnownTypes,
        seen: &mut Seen,
    ) -> Result<OpenSession, AgentError> {
        match session {
            SessionOrder::New => {
                let header = Header {
                    format: FORMAT,
                    id: SessionId::new(Uuid::now_v7().to_string()),
                    created_at: self.clock.now_ms(),
                    cwd: cwd.to_owned(),
                    parent: None,
                    origin: None,
                    delegation_depth: 0,
                    agent_preset: None,
                };
                Ok(self.store.create(header, known).await?)
            }
            SessionOrder::Resume(id) => {
                let mut look = |event: &reins_schema::Event| seen.look(event);
                Ok(self.store.open(id, known, &mut look).await?)
            }
        }
    }

    fn limits(&self, max_steps: Option<u64>, max_time_ms: Option<u64>) -> Limits {
        let some = |value: u64| (value > 0).then_some(value);
        Limits {
            steps: max_steps.or(some(self.config.max_steps)),
            tool_calls: some(self.config.max_tool_calls),
            time_ms: max_time_ms.or(some(self.config.max_time_s.saturating_mul(1000))),
            parallel_tools: self.config.parallel_tools,
            inbox: self.config.inbox,
        }
    }
}

/// The event types that are registered in a scope.
pub fn known_types(scope: &Scope) -> KnownTypes {
    let entries = scope.entries::<EventType>().into_iter();
    entries.map(|entry| (entry.name.to_string(), *entry.value)).collect()
}

/// What the driver needs of the past besides the fold.
#[derive(Default)]
struct Seen {
    facts: Option<String>,
    mode: Option<String>,
}

impl Seen {
    fn look(&mut self, event: &reins_schema::Event) {
        match event.body.kind.as_str() {
            "user/message" => {
                if let Ok(reins_schema::Payload::UserMessage(entered)) =
                    reins_schema::Payload::read(&event.body)
                    && let Some(text) = snapshot_text(&entered.message)
                {
                    self.facts = Some(text);
                }
            }
            SandboxMode::TYPE => {
                let data = event.body.data.get();
                self.mode = serde_json::from_str::<SandboxMode>(data).ok().map(|mode| mode.mode);
            }
            _ => {}
        }
    }
}

async fn record_mode(committer: &Committer) -> Result<(), String> {
    let mode = SandboxMode { mode: MODE.to_owned() };
    let draft = own_draft(SandboxMode::TYPE, &mode).map_err(|e| e.to_string())?;
    committer.commit(draft, None).await.map(|_| ()).map_err(|e| e.0)
}

fn start(
    opened: OpenSession,
    env: Environment,
    limits: Limits,
    turn: TurnState,
    registrations: Vec<Registration>,
) -> (Agent, Committer) {
    let (mailbox_in, mailbox) = mpsc::channel(MAILBOX);
    let (done_in, done) = mpsc::channel(ANSWERS);
    let (inputs_in, inputs) = mpsc::channel(ANSWERS);
    let (status_in, status) = watch::channel(Status::Idle);
    let dead = Arc::clone(&env.dead);
    let (scope, session) = (env.scope.clone(), env.session.clone());
    let driver = Driver {
        env,
        core: Core::new(opened.fold, limits),
        log: opened.log.clone(),
        mailbox,
        mailbox_in: mailbox_in.downgrade(),
        done,
        done_in,
        inputs,
        inputs_in,
        status: status_in,
        work: JoinSet::new(),
        running: Default::default(),
        bodies: Default::default(),
        ready: Default::default(),
        now: Default::default(),
        waiting: Waiting::default(),
        turn,
        observations: Observations::default(),
        next_ticket: 0,
        closing: false,
    };
    let opened_input = Input::Opened { recovered: opened.recovered };
    #[expect(clippy::disallowed_methods, reason = "the handle owns the task and `close` awaits it")]
    let task = tokio::spawn(driver.run(opened_input));
    let committer = Committer { mailbox: mailbox_in.downgrade() };
    let agent = Agent::new(Shared {
        session,
        scope,
        mailbox: mailbox_in,
        status,
        dead,
        log: opened.log,
        task: Mutex::new(Some(task)),
        registrations,
    });
    (agent, committer)
}
