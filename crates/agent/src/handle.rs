//! A live agent as its owner sees it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use reins_kernel::Scope;
use reins_schema::{CallConfig, CancelCause, Draft, InboxTarget, Message, SessionId};
use reins_session::{QueueEdit, Refusal, Status};
use reins_store::{Log, StoreError, Subscription};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::approvals::Committer;
use crate::driver::Command;
use crate::held::Wanted;
use crate::place::CurrentScope;
use crate::size::check_message;

/// A live agent. Clones share it; whoever calls [`Agent::close`] ends it for all.
#[derive(Clone)]
pub struct Agent {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) session: SessionId,
    pub(crate) scope: CurrentScope,
    pub(crate) mailbox: mpsc::Sender<Command>,
    pub(crate) status: watch::Receiver<Status>,
    pub(crate) dead: Arc<OnceLock<String>>,
    pub(crate) log: Log,
    pub(crate) task: Mutex<Option<JoinHandle<()>>>,
    pub(crate) wanted: Wanted,
    pub(crate) published: Arc<AtomicBool>,
}

impl Agent {
    pub(crate) fn new(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// The session that it drives.
    pub fn session(&self) -> &SessionId {
        &self.shared.session
    }

    /// Its scope now: what is registered here is seen by this agent only. An agent that moves to
    /// another generation gets a new one, with what [`AgentOrder::setup`](crate::AgentOrder::setup)
    /// registers and nothing else.
    pub fn scope(&self) -> Scope {
        self.shared.scope.get()
    }

    /// Somebody gets it: from now on its session stays.
    pub(crate) fn publish(&self) {
        self.shared.published.store(true, Ordering::Release);
    }

    pub(crate) fn downgrade(&self) -> WeakAgent {
        WeakAgent(Arc::downgrade(&self.shared))
    }

    /// Puts a message into the inbox. Resolves when the insertion is on disk; from then on no
    /// crash loses it.
    ///
    /// # Errors
    /// The core's refusal (id used before, inbox full, session read-only), a message that no
    /// record of the log can hold, or a full disk.
    pub async fn send(
        &self,
        message: Message,
        target: InboxTarget,
        wake: bool,
    ) -> Result<u64, Refusal> {
        check_message(&message)?;
        let (answer, accepted) = oneshot::channel();
        self.command(Command::Send { message, target, wake, answer }).await?;
        let seq = accepted.await.map_err(|_| ended())??;
        self.shared.log.flush().await.map_err(|e| Refusal(e.to_string()))?;
        Ok(seq)
    }

    /// A new prompt: its own turn, after those that wait.
    ///
    /// # Errors
    /// As [`Agent::send`].
    pub async fn followup(&self, message: Message) -> Result<u64, Refusal> {
        self.send(message, InboxTarget::NextTurn, true).await
    }

    /// Joins the next step of the running turn, or starts one.
    ///
    /// # Errors
    /// As [`Agent::send`].
    pub async fn steer(&self, message: Message) -> Result<u64, Refusal> {
        self.send(message, InboxTarget::NextStep, true).await
    }

    /// Joins the next step whenever there is one; starts nothing.
    ///
    /// # Errors
    /// As [`Agent::send`].
    pub async fn inject(&self, message: Message) -> Result<u64, Refusal> {
        self.send(message, InboxTarget::NextStep, false).await
    }

    /// Changes waiting input.
    ///
    /// # Errors
    /// The message is not waiting, or was claimed already, or the new one is too long.
    pub async fn edit(&self, edit: QueueEdit) -> Result<(), Refusal> {
        if let QueueEdit::Replace(_, message) = &edit {
            check_message(message)?;
        }
        let (answer, edited) = oneshot::channel();
        self.command(Command::Edit { edit, answer }).await?;
        edited.await.map_err(|_| ended())?
    }

    /// Cancels what runs; returns at once. Watch [`Agent::status`] for the end.
    pub async fn cancel(&self, cause: CancelCause, keep_inbox: bool) {
        // An agent that has ended has nothing to cancel.
        drop(self.command(Command::Cancel { cause, keep_inbox }).await);
    }

    /// Appends an event of a registered type.
    ///
    /// # Errors
    /// The type is not registered, the data is too long, or the core refuses it.
    pub async fn commit(&self, draft: Draft) -> Result<u64, Refusal> {
        Committer { mailbox: self.shared.mailbox.downgrade() }.commit(draft, None).await
    }

    /// The call configuration from the next request on.
    pub async fn use_model(&self, seed: CallConfig) {
        drop(self.command(Command::Model { seed }).await);
    }

    /// Idle, running, cancelling or dead.
    pub fn status(&self) -> watch::Receiver<Status> {
        self.shared.status.clone()
    }

    /// Committed events from this number on, without gap or double.
    pub fn events(&self, from: u64) -> Subscription {
        self.shared.log.subscribe(from)
    }

    /// The number that the next event will have.
    pub fn next_seq(&self) -> u64 {
        self.shared.log.next_seq()
    }

    /// The first write error of the log, if there was one.
    pub fn store_failure(&self) -> Option<StoreError> {
        self.shared.log.failed()
    }

    /// Why nothing can be written any more, in the store's words where they are known.
    pub fn dead(&self) -> Option<String> {
        let failure = self.store_failure().map(|e| e.to_string());
        failure.or_else(|| self.shared.dead.get().cloned())
    }

    /// Cancels, waits until all its work is still and the log is on disk, and ends it. What was
    /// registered for it is withdrawn then. When the future is dropped after its command was taken,
    /// the agent ends all the same, and another call waits for that; a command is taken at once
    /// unless the mailbox is full.
    pub async fn close(&self) {
        // One that has ended, or is about to, takes no command.
        drop(self.command(Command::Close).await);
        self.shared.wanted.leave();
        // Held while waiting, so that whoever calls this, too, returns after the end only.
        let mut task = self.shared.task.lock().await;
        let Some(running) = task.as_mut() else { return };
        let ended = running.await;
        *task = None;
        if let Err(end) = ended
            && let Ok(panic) = end.try_into_panic()
        {
            // The spine must not fail silently: pass our own bug on to the owner.
            std::panic::resume_unwind(panic);
        }
    }

    async fn command(&self, command: Command) -> Result<(), Refusal> {
        self.shared.mailbox.send(command).await.map_err(|_| ended())
    }
}

/// An agent that somebody may still hold.
pub(crate) struct WeakAgent(Weak<Shared>);

impl WeakAgent {
    pub(crate) fn upgrade(&self) -> Option<Agent> {
        self.0.upgrade().map(|shared| Agent { shared })
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }
}

pub(crate) fn ended() -> Refusal {
    Refusal("the agent has ended".to_owned())
}
