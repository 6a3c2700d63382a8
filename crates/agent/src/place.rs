//! Where an agent stands among the generations, and how it moves on.

use std::any::Any;
use std::sync::{Arc, PoisonError, RwLock};

use reins_kernel::{BoxFuture, Registration, RowChange, Scope};
use reins_schema::SessionId;
use reins_session::TurnLimits;

use crate::barriers::{self, Barriers};
use crate::contain::contain_now;
use crate::limits::turn_limits;

/// The scope of an agent preset in one generation. Holding it keeps the generation from being
/// stopped. Cheap to clone.
#[derive(Clone)]
pub struct PresetScope {
    /// The preset's name.
    pub preset: Arc<str>,
    /// Number of the generation.
    pub generation: u64,
    /// The scope, below which the agent gets its own.
    pub scope: Scope,
    /// What keeps the generation, for its owner to recognise.
    pub keeper: Arc<dyn Any + Send + Sync>,
}

/// A newer generation.
pub struct Newer {
    /// The same preset in it.
    pub preset: PresetScope,
    /// Rows that are not what they were.
    pub changes: Vec<RowChange>,
}

/// Who knows the newest generation. An agent asks before the first step of each turn.
pub trait Generations: Send + Sync {
    /// The newest generation in which everything is well, with this preset in it; `None` while that
    /// is the one that `of` belongs to.
    fn newer(&self, of: &PresetScope) -> BoxFuture<'static, Option<Newer>>;
}

/// Registers an owner's own contributions in an agent's scope; called again for each scope that the
/// agent moves to. When it refuses one, the agent stays where it is and asks again at its next
/// turn.
pub type Setup = Arc<dyn Fn(&Scope) -> Result<Vec<Registration>, String> + Send + Sync>;

/// Where an agent stands.
pub(crate) struct Place {
    pub(crate) preset: PresetScope,
    pub(crate) scope: Scope,
    pub(crate) barriers: Barriers,
    /// The owner's contributions; undone when the agent moves or ends.
    _registrations: Vec<Registration>,
    /// The last generation that the owner's set-up refused, which is told once.
    pub(crate) refused: Option<u64>,
}

impl Place {
    /// A scope for the agent below this preset.
    pub(crate) fn take(
        preset: PresetScope,
        session: &SessionId,
        setup: Option<&Setup>,
    ) -> Result<Self, String> {
        let scope = preset.scope.child(session.as_str());
        let registrations = match setup {
            None => Vec::new(),
            Some(setup) => contain_now(|| setup(&scope))
                .unwrap_or_else(|words| Err(format!("it panicked: {words}")))?,
        };
        let barriers = barriers::of(&scope);
        Ok(Self { preset, scope, barriers, _registrations: registrations, refused: None })
    }

    /// What `wish` leaves open is as the rows say.
    pub(crate) fn limits(&self, wish: TurnLimits) -> TurnLimits {
        wish.or(turn_limits(&self.scope))
    }
}

/// A new place, and what is new there.
pub(crate) struct Move {
    /// `Err` when the owner's own set-up refuses it there: the agent stays where it is.
    pub(crate) place: Result<Place, String>,
    pub(crate) generation: u64,
    pub(crate) changes: Vec<RowChange>,
}

/// What an agent needs to move.
#[derive(Clone)]
pub(crate) struct Mover {
    pub(crate) generations: Option<Arc<dyn Generations>>,
    pub(crate) setup: Option<Setup>,
}

impl Mover {
    /// The next place, when there is a newer generation.
    pub(crate) async fn next(&self, from: &PresetScope, session: &SessionId) -> Option<Move> {
        let Newer { preset, changes } = self.generations.as_ref()?.newer(from).await?;
        let generation = preset.generation;
        let place = Place::take(preset, session, self.setup.as_ref());
        Some(Move { place, generation, changes })
    }
}

/// The scope of an agent, for those who hold its handle while it moves.
#[derive(Clone)]
pub(crate) struct CurrentScope(Arc<RwLock<Scope>>);

impl CurrentScope {
    pub(crate) fn new(scope: Scope) -> Self {
        Self(Arc::new(RwLock::new(scope)))
    }

    pub(crate) fn get(&self) -> Scope {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set(&self, scope: Scope) {
        let old = {
            let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *held, scope)
        };
        // Dropped outside the lock.
        drop(old);
    }
}
