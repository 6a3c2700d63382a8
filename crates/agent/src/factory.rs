//! Making agents: a transaction that either publishes a working agent or leaves nothing.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use reins_kernel::{BoxFuture, Mount, MountError, Plugin, PluginDef, Scope, ServiceKey};
use reins_schema::{CallConfig, FORMAT, Header, SessionId};
use reins_session::{Core, Input, KnownTypes, Limits, Status, TurnLimits};
use reins_store::{OpenSession, Store, StoreError};
use reins_world::Clock;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::barriers;
use crate::driver::{Driver, DriverLimits, Environment, TurnState, Waiting, Ways};
use crate::events::{EVENT_TYPES, EventType, PresetSelected, SandboxMode, own_draft};
use crate::handle::{Agent, Shared, WeakAgent};
use crate::held::{HeldSessions, Hold, Wanted, Wish};
use crate::limits;
use crate::observations::Observations;
use crate::place::{CurrentScope, Generations, Mover, Place, PresetScope, Setup};
use crate::prompt::last_facts;
use crate::size::MAX_PAYLOAD_BYTES;

/// What an agent is made of.
pub struct AgentOrder {
    /// The scope of its agent preset; the agent gets a child of it.
    pub preset: PresetScope,
    /// Who knows newer generations; `None` = it stays in this one.
    pub generations: Option<Arc<dyn Generations>>,
    /// New session, or one that continues.
    pub session: SessionOrder,
    /// Its directory.
    pub cwd: PathBuf,
    /// The model; `None` = what the session used last.
    pub model: Option<CallConfig>,
    /// Limits of a turn, where they differ from those of the rows.
    pub limits: TurnLimits,
    /// Registers things in the agent's own scope before anything runs.
    pub setup: Option<Setup>,
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
    /// The process is about to end.
    #[error("no agent can be started any more: Reins is ending")]
    Ending,
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

/// The service that makes agents and owns them until their end.
pub trait AgentFactory: Send + Sync {
    /// Sets up the scope, opens the session, repairs it, starts the driver, publishes. When the
    /// future is dropped, what was begun is undone behind it, and whoever wants the same session
    /// waits for that.
    ///
    /// # Errors
    /// Any of [`AgentError`]; then a session that was there is closed again, and a new one is
    /// removed.
    fn make(&self, order: AgentOrder) -> BoxFuture<'static, Result<Agent, AgentError>>;

    /// Closes every agent and waits until nothing of them is left. No agent is made from then on.
    fn close_all(&self) -> BoxFuture<'static, ()>;
}

/// Settings of the row `agent-loop`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct LoopConfig {
    /// Tool bodies that run at once.
    #[schemars(range(min = 1))]
    parallel_tools: usize,
    /// Messages that may wait in a session's inbox.
    inbox: usize,
    /// Milliseconds that a cancelled tool may take to end.
    cancel_grace_ms: u64,
    /// Bytes of one result that enter the context at most.
    #[schemars(range(max = MAX_LIMIT))]
    max_result_bytes: usize,
    /// Bytes of one answer at most, as the log writes it (a control character takes six). A longer
    /// answer fails with `MALFORMED_RESPONSE`.
    #[schemars(range(max = MAX_LIMIT))]
    max_answer_bytes: usize,
}

impl Default for LoopConfig {
    fn default() -> Self {
        Self {
            parallel_tools: 10,
            inbox: 1000,
            cancel_grace_ms: 5000,
            max_result_bytes: 50_000,
            max_answer_bytes: 16 * 1024 * 1024,
        }
    }
}

/// The row `agent-loop`: the driver and the agent's own event types.
struct LoopPlugin;

/// The plugins of this crate.
pub const PLUGINS: &[PluginDef] =
    &[PluginDef::of::<LoopPlugin>(), barriers::PLUGIN, limits::PLUGIN];

impl Plugin for LoopPlugin {
    const NAME: &'static str = "agent-loop";
    const SUMMARY: &'static str = "Drives sessions: turns, steps, tools, cancellation.";
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
        let maker = Maker {
            store: mount.need()?,
            clock: mount.need()?,
            config,
            agents: Mutex::default(),
            sessions: HeldSessions::default(),
            tasks: TaskTracker::new(),
        };
        let factory = LoopFactory { maker: Arc::new(maker) };
        let closing = factory.close_all();
        mount.on_stop(move || closing);
        mount.provide::<dyn AgentFactory>(Arc::new(factory))
    }
}

struct LoopFactory {
    maker: Arc<Maker>,
}

struct Maker {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    config: LoopConfig,
    /// Agents that were made; those that are gone are forgotten when the next one is made.
    agents: Mutex<Vec<WeakAgent>>,
    sessions: HeldSessions,
    /// Drivers, and agents in the making.
    tasks: TaskTracker,
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
    fn make(&self, order: AgentOrder) -> BoxFuture<'static, Result<Agent, AgentError>> {
        let maker = Arc::clone(&self.maker);
        Box::pin(async move {
            // Counted before the look, so that who closes the tracker after it waits for this.
            let counted = maker.tasks.token();
            if maker.tasks.is_closed() {
                return Err(AgentError::Ending);
            }
            let (answer, made) = oneshot::channel();
            let tasks = maker.tasks.clone();
            let wanted = Wanted::new();
            let wish = wanted.wish();
            // A task of its own, so that it runs to its end or back when the caller goes away.
            let task = tasks.spawn(async move {
                let made = maker.make(order, &wish).await;
                if let Err(Ok(unwanted)) = answer.send(made) {
                    unwanted.close().await;
                }
            });
            drop(counted);
            if let Ok(made) = made.await {
                if let Ok(agent) = &made {
                    agent.publish();
                    wanted.hand_over();
                }
                return made;
            }
            // The spine must not fail silently: pass our own bug on to the caller.
            match task.await.map_err(tokio::task::JoinError::try_into_panic) {
                Err(Ok(panic)) => std::panic::resume_unwind(panic),
                _ => Err(AgentError::Ending),
            }
        })
    }

    fn close_all(&self) -> BoxFuture<'static, ()> {
        let maker = Arc::clone(&self.maker);
        Box::pin(async move {
            maker.tasks.close();
            // They stay in the list: when this future is dropped, another one closes them.
            let agents: Vec<Agent> = maker.agents().iter().filter_map(WeakAgent::upgrade).collect();
            join_all(agents.iter().map(Agent::close)).await;
            drop(agents);
            maker.tasks.wait().await;
        })
    }
}

impl Maker {
    fn agents(&self) -> MutexGuard<'_, Vec<WeakAgent>> {
        self.agents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, agent: &Agent) {
        let mut agents = self.agents();
        agents.retain(WeakAgent::is_alive);
        agents.push(agent.downgrade());
    }

    async fn make(&self, order: AgentOrder, wish: &Wish) -> Result<Agent, AgentError> {
        let session = match &order.session {
            SessionOrder::New => SessionId::new(Uuid::now_v7().to_string()),
            SessionOrder::Resume(id) => id.clone(),
        };
        let hold = self.sessions.hold(&session, wish).await;
        if !wish.holds() || self.tasks.is_closed() {
            return Err(AgentError::Ending);
        }
        let preset = order.preset.preset.clone();
        // Before the disk is touched, so that what is refused leaves nothing there.
        let place =
            Place::take(order.preset, &session, order.setup.as_ref()).map_err(AgentError::Setup)?;
        let known = known_types(&place.scope);
        let opened = match order.session {
            SessionOrder::New => {
                let header = self.header(session.clone(), order.cwd.clone(), &preset);
                self.store.create(header, known).await?
            }
            SessionOrder::Resume(id) => self.store.open(&id, known).await?,
        };
        let hold = match hold {
            Some(hold) => hold,
            // Whoever wanted it has let go meanwhile.
            None => self.sessions.hold_opened(&session, wish).await,
        };
        if let Some(reason) = opened.fold.read_only() {
            let reason = reason.to_owned();
            opened.log.close().await?;
            return Err(AgentError::ReadOnly { session, reason });
        }
        let env = Environment {
            session: session.clone(),
            cwd: order.cwd,
            clock: self.clock.clone(),
            limits: DriverLimits {
                grace: Duration::from_millis(self.config.cancel_grace_ms),
                max_result_bytes: self.config.max_result_bytes,
                max_answer_bytes: self.config.max_answer_bytes,
            },
            mover: Mover { generations: order.generations, setup: order.setup },
            wish: order.limits,
            current_scope: CurrentScope::new(place.scope.clone()),
            dead: Arc::default(),
            published: Arc::default(),
        };
        let turn = TurnState {
            seed: order.model.unwrap_or_default(),
            last_facts: last_facts(&opened.fold),
            ..TurnState::default()
        };
        let before = Before::of(&opened);
        let agent = self.start(opened, env, place, turn, (hold, wish.wanted()));
        if let Err(reason) = record(&agent, &before, &preset).await {
            agent.close().await;
            return Err(AgentError::Start { session, reason });
        }
        self.remember(&agent);
        // `close_all` closes the tracker and then the agents in the list. When it did the first
        // before this agent came into the list, it may have missed it.
        if self.tasks.is_closed() {
            agent.close().await;
            return Err(AgentError::Ending);
        }
        Ok(agent)
    }

    fn header(&self, id: SessionId, cwd: PathBuf, preset: &str) -> Header {
        Header {
            format: FORMAT,
            id,
            created_at: self.clock.now_ms(),
            cwd,
            parent: None,
            origin: None,
            delegation_depth: 0,
            agent_preset: Some(preset.to_owned()),
        }
    }

    fn start(
        &self,
        opened: OpenSession,
        env: Environment,
        place: Place,
        turn: TurnState,
        (hold, wanted): (Hold, Wanted),
    ) -> Agent {
        let (mailbox_in, mailbox) = mpsc::channel(MAILBOX);
        let weak = mailbox_in.downgrade();
        let (done_in, done) = mpsc::channel(ANSWERS);
        let (inputs_in, inputs) = mpsc::channel(ANSWERS);
        let (status_in, status) = watch::channel(Status::Idle);
        let (dead, published) = (Arc::clone(&env.dead), Arc::clone(&env.published));
        let (scope, session) = (env.current_scope.clone(), env.session.clone());
        let limits = Limits {
            turn: place.limits(env.wish),
            parallel_tools: self.config.parallel_tools,
            inbox: self.config.inbox,
        };
        let driver = Driver {
            env,
            place,
            core: Core::new(opened.fold, limits),
            log: opened.log.clone(),
            ways: Ways { mailbox, mailbox_in: weak, done, done_in, inputs, inputs_in },
            status: status_in,
            work: JoinSet::new(),
            running: Default::default(),
            bodies: Default::default(),
            ready: Default::default(),
            now: Default::default(),
            waiting: Waiting::default(),
            turn,
            turn_end: None,
            announced: None,
            observations: Observations::default(),
            next_ticket: 0,
            closing: false,
        };
        let opened_input = Input::Opened { recovered: opened.recovered };
        let task = self.tasks.spawn(async move {
            driver.run(opened_input).await;
            drop(hold);
        });
        Agent::new(Shared {
            session,
            scope,
            mailbox: mailbox_in,
            status,
            dead,
            log: opened.log,
            task: tokio::sync::Mutex::new(Some(task)),
            wanted,
            published,
        })
    }
}

/// The event types that are registered in a scope.
pub fn known_types(scope: &Scope) -> KnownTypes {
    let entries = scope.entries::<EventType>().into_iter();
    entries.map(|entry| (entry.name.to_string(), *entry.value)).collect()
}

/// What the log says last about things that this process decides.
struct Before {
    mode: Option<String>,
    preset: Option<String>,
}

impl Before {
    fn of(opened: &OpenSession) -> Self {
        let mode = opened.fold.last_of(SandboxMode::TYPE).and_then(|event| {
            serde_json::from_str::<SandboxMode>(event.body.data.get()).ok().map(|mode| mode.mode)
        });
        let preset = opened.fold.last_of(PresetSelected::TYPE).and_then(PresetSelected::of);
        Self { mode, preset: preset.or_else(|| opened.header.agent_preset.clone()) }
    }
}

/// Writes down what differs from what the log says: the mode, and another preset.
async fn record(agent: &Agent, before: &Before, preset: &str) -> Result<(), String> {
    if before.mode.as_deref() != Some(MODE) {
        let mode = SandboxMode { mode: MODE.to_owned() };
        let draft = own_draft(SandboxMode::TYPE, &mode).map_err(|e| e.to_string())?;
        agent.commit(draft).await.map_err(|e| e.0)?;
    }
    if before.preset.as_deref() != Some(preset) {
        let selected = PresetSelected { agent_preset: preset.to_owned() };
        let draft = own_draft(PresetSelected::TYPE, &selected).map_err(|e| e.to_string())?;
        agent.commit(draft).await.map_err(|e| e.0)?;
    }
    Ok(())
}
