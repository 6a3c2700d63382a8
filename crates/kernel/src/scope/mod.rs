//! Scopes: where contributions live, who sees them, how long they stay.

mod chain;
mod contents;
mod entry;
mod notice;
mod registration;
mod service;
mod tables;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

pub use chain::{Chain, LayerInfo, LayerRan, Next};
pub use contents::{Contribution, ContributionKind};
pub use entry::Entry;
pub use notice::{Contained, ContainedWhere, Notice, panic_text};
pub use registration::Registration;
pub use service::MissingService;

use crate::Origin;
use tables::{Erased, Place, Slot, Tables};

/// A place for contributions. Lookup walks up to the root and the nearest wins. Cheap to clone;
/// clones are the same scope. A scope lives as long as a clone or a child of it.
#[derive(Clone)]
pub struct Scope {
    inner: Arc<Inner>,
}

struct Inner {
    name: Arc<str>,
    parent: Option<Scope>,
    tables: RwLock<Tables>,
    /// Numbers registrations; unique within the scope.
    next_id: AtomicU64,
    contained: AtomicU64,
}

/// Two contributions of one kind and name in one scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} `{name}` is already there from {first}; {second} cannot add it again")]
pub struct Conflict {
    /// `service` or the short type name of the entry.
    pub what: &'static str,
    /// The name in dispute.
    pub name: Arc<str>,
    /// Who holds it.
    pub first: Box<Origin>,
    /// Who came later and was refused.
    pub second: Box<Origin>,
}

impl Conflict {
    /// What the owner of the later row is told, and what to do.
    pub(crate) fn of_rows(&self) -> String {
        let Self { name, first, .. } = self;
        format!("`{name}` is already there from {first}; disable one of the two rows")
    }
}

impl Scope {
    /// A new scope without a parent, called `process`.
    pub fn root() -> Self {
        Self::new("process", None)
    }

    /// A scope below this one. It sees everything of this one; this one sees nothing of it.
    pub fn child(&self, name: &str) -> Self {
        Self::new(name, Some(self.clone()))
    }

    fn new(name: &str, parent: Option<Self>) -> Self {
        Self {
            inner: Arc::new(Inner {
                name: name.into(),
                parent,
                tables: RwLock::default(),
                next_id: AtomicU64::new(0),
                contained: AtomicU64::new(0),
            }),
        }
    }

    /// The scope's name, for people.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The scope this one inherits from.
    pub fn parent(&self) -> Option<&Self> {
        self.inner.parent.as_ref()
    }

    /// How many contributions and restrictions this scope itself holds now.
    pub fn contributions(&self) -> usize {
        self.read().len()
    }

    /// This scope, its parent, and so on to the root.
    pub fn outward(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |scope| scope.inner.parent.as_ref())
    }

    /// The root first, this scope last.
    fn inward(&self) -> Vec<&Self> {
        let mut scopes: Vec<&Self> = self.outward().collect();
        scopes.reverse();
        scopes
    }

    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.inner.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(
        &self,
        place: Place,
        label: &'static str,
        order: i32,
        origin: &Origin,
        value: Erased,
    ) -> Result<Registration, Origin> {
        let id = self.inner.next_id.fetch_add(1, Ordering::Relaxed);
        // Declared before the guard: a refused value, too, is dropped outside the lock.
        let held = value.clone();
        let slot = Slot { id, label, order, origin: origin.clone(), value };
        let mut tables = self.inner.tables.write().unwrap_or_else(PoisonError::into_inner);
        let outdated = tables.insert(&place, slot)?;
        drop(tables);
        // Values are dropped outside the lock: their destructors may use the scope.
        drop((outdated, held));
        Ok(Registration::new(Arc::downgrade(&self.inner), place, id))
    }
}

impl Inner {
    fn remove(&self, place: &Place, id: u64) {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        let removed = tables.remove(place, id);
        drop(tables);
        drop(removed);
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Vec<&str> = self.inward().iter().map(|scope| scope.name()).collect();
        write!(f, "Scope({})", path.join("/"))
    }
}

/// The last segments of a type's name: `dyn reins_world::Fs` becomes `Fs`.
fn short_type_name<T: ?Sized>() -> &'static str {
    let full = std::any::type_name::<T>();
    let plain = full.strip_prefix("dyn ").unwrap_or(full);
    let head = plain.find(['<', ' ']).unwrap_or(plain.len());
    plain[..head].rfind("::").map_or(plain, |at| &plain[at + 2..])
}
