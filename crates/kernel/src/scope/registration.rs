//! The handle of a contribution.

use std::fmt;
use std::sync::Weak;

use super::Inner;
use super::tables::Place;

/// Holds a contribution in its scope; dropping it takes the contribution out.
#[must_use = "the contribution is withdrawn when its registration is dropped"]
pub struct Registration {
    // Weak: a registration may be held by a value that lives in the very scope.
    scope: Weak<Inner>,
    place: Place,
    id: u64,
}

impl Registration {
    pub(super) fn new(scope: Weak<Inner>, place: Place, id: u64) -> Self {
        Self { scope, place, id }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(scope) = self.scope.upgrade() {
            scope.remove(&self.place, self.id);
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registration({})", self.id)
    }
}
