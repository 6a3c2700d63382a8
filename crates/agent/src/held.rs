//! Which sessions a factory holds, so that whoever wants one that is being let go can wait for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reins_schema::SessionId;
use tokio::sync::watch;

/// Says that a session is wanted, until it is dropped.
pub(crate) struct Wanted(Arc<AtomicBool>);

impl Wanted {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// The same wish, to look at.
    pub(crate) fn wish(&self) -> Wish {
        Wish(Arc::clone(&self.0))
    }

    /// The session is let go.
    pub(crate) fn leave(&self) {
        self.0.store(false, Ordering::Release);
    }

    /// Somebody else says so from now on.
    pub(crate) fn hand_over(mut self) {
        self.0 = Arc::default();
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Whether a session is wanted.
#[derive(Clone)]
pub(crate) struct Wish(Arc<AtomicBool>);

impl Wish {
    pub(crate) fn holds(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Somebody else who says so.
    pub(crate) fn wanted(&self) -> Wanted {
        Wanted(Arc::clone(&self.0))
    }
}

/// The sessions of a factory, each from before it is opened until its log is closed.
#[derive(Clone, Default)]
pub(crate) struct HeldSessions(Arc<Mutex<HashMap<SessionId, Held>>>);

#[derive(Clone)]
struct Held {
    wish: Wish,
    over: watch::Receiver<()>,
}

impl HeldSessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a session; waits while it is held and not wanted any more. `None` = somebody wants it.
    pub(crate) async fn hold(&self, session: &SessionId, wish: &Wish) -> Option<Hold> {
        loop {
            match self.try_hold(session, wish) {
                Ok(hold) => return Some(hold),
                Err(held) if held.wish.holds() => return None,
                Err(held) => held.over().await,
            }
        }
    }

    /// Takes a session whose log is open here, so that whoever else holds it has closed the log or
    /// cannot open it: waits for them.
    pub(crate) async fn hold_opened(&self, session: &SessionId, wish: &Wish) -> Hold {
        loop {
            match self.try_hold(session, wish) {
                Ok(hold) => return hold,
                Err(held) => held.over().await,
            }
        }
    }

    fn try_hold(&self, session: &SessionId, wish: &Wish) -> Result<Hold, Held> {
        let mut sessions = self.lock();
        if let Some(held) = sessions.get(session) {
            return Err(held.clone());
        }
        let (over_in, over) = watch::channel(());
        sessions.insert(session.clone(), Held { wish: wish.clone(), over });
        Ok(Hold { sessions: self.clone(), session: session.clone(), _over: over_in })
    }
}

impl Held {
    async fn over(mut self) {
        // The sender is dropped and never sends.
        drop(self.over.changed().await);
    }
}

/// A session that is held until this is dropped.
pub(crate) struct Hold {
    sessions: HeldSessions,
    session: SessionId,
    /// Dropped after the session was taken out.
    _over: watch::Sender<()>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let held = self.sessions.lock().remove(&self.session);
        drop(held);
    }
}
