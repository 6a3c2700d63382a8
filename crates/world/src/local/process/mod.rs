//! Local processes over the sandbox host. One host runs all commands; it starts with the first.
//!
//! Two kinds of tasks, both ended and awaited by `shut_down`: the owner of the host, and one per
//! command, which reads its output until nobody holds the pipes any more.

mod capture;
mod command;
mod environment;
mod owner;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use reins_kernel::BoxFuture;
use reins_sandbox::HostClient;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use self::command::Running;
use self::owner::{Ask, Owner};
use crate::env::Env;
use crate::process::{CancelToken, CommandEnd, CommandSpec, Process, ProcessError};

/// Requests to the host that wait while its socket is full.
const WAITING_ASKS: usize = 64;

/// Processes of this machine.
pub struct LocalProcess {
    shared: Arc<Shared>,
    env: Env,
    pass: Vec<String>,
    /// Without a `shut_down` the host and all it runs end with this value.
    _stop_on_drop: DropGuard,
}

struct Shared {
    /// Another program than this one for the host.
    host_program: Option<PathBuf>,
    host: Mutex<Option<mpsc::Sender<Ask>>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl LocalProcess {
    /// `pass` names variables that children get though they look like secrets. The host
    /// is this executable: its `main` must begin with `reins_sandbox::run_if_host_role`.
    pub fn new(env: &Env, pass: &[String]) -> Self {
        Self::build(env, pass, None)
    }

    /// With another executable as the host.
    pub fn with_host_program(env: &Env, pass: &[String], program: PathBuf) -> Self {
        Self::build(env, pass, Some(program))
    }

    fn build(env: &Env, pass: &[String], host_program: Option<PathBuf>) -> Self {
        let stop = CancellationToken::new();
        let shared = Shared {
            host_program,
            host: Mutex::new(None),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        };
        Self {
            shared: Arc::new(shared),
            // Looked at for each child: which variables are secrets becomes known row by row.
            env: env.clone(),
            pass: pass.to_vec(),
            _stop_on_drop: stop.drop_guard(),
        }
    }
}

impl Process for LocalProcess {
    fn run(
        &self,
        command: CommandSpec,
        cancel: CancelToken,
    ) -> BoxFuture<'static, Result<CommandEnd, ProcessError>> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.run(command, cancel).await })
    }

    fn child_env(&self) -> Vec<(OsString, OsString)> {
        environment::for_children(&self.env, &self.pass)
    }

    fn shut_down(&self) -> BoxFuture<'static, ()> {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            shared.stop.cancel();
            // A start under way ends before this lock is free, and no further one begins.
            *shared.host.lock().await = None;
            shared.tasks.close();
            shared.tasks.wait().await;
        })
    }
}

impl Shared {
    async fn run(
        &self,
        command: CommandSpec,
        cancel: CancelToken,
    ) -> Result<CommandEnd, ProcessError> {
        let host = self.host().await?;
        let (reply, result) = oneshot::channel();
        // A task of its own also starts the command, so that a caller who goes away at that
        // moment is noticed.
        self.tasks.spawn(Running::run(host, command, cancel, reply));
        result.await.unwrap_or_else(|_| Err(owner::gone()))
    }

    async fn host(&self) -> Result<mpsc::Sender<Ask>, ProcessError> {
        let mut host = self.host.lock().await;
        if self.stop.is_cancelled() {
            return Err(ProcessError::Supervisor("the harness is stopping".to_owned()));
        }
        if let Some(asks) = host.as_ref().filter(|asks| !asks.is_closed()) {
            return Ok(asks.clone());
        }
        let program = self.host_program.clone();
        let started = self.tasks.spawn_blocking(move || match program {
            Some(program) => HostClient::start_program(&program),
            None => HostClient::start(),
        });
        let refused = |problem: String| ProcessError::Supervisor(problem);
        let client = started.await.map_err(|error| refused(error.to_string()))?;
        let client = client.map_err(|error| refused(error.to_string()))?;
        let (asks, waiting) = mpsc::channel(WAITING_ASKS);
        let owner = Owner::new(client, waiting, self.stop.clone());
        self.tasks.spawn(owner.map_err(|error| refused(error.to_string()))?.serve());
        *host = Some(asks.clone());
        Ok(asks)
    }
}
