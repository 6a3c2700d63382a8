//! What a scope holds, for people.

use std::sync::Arc;

use super::Scope;
use super::tables::Slot;
use crate::Origin;

/// One contribution, without its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contribution {
    /// What it is.
    pub kind: ContributionKind,
    /// Name of the service's or entry's type, or of the notice or chain.
    pub of: &'static str,
    /// The entry's name.
    pub name: Option<Arc<str>>,
    /// Who put it there.
    pub origin: Origin,
    /// The layer's order.
    pub order: i32,
    /// Name of the scope that holds it.
    pub scope: Arc<str>,
}

/// The kinds of contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ContributionKind {
    /// One per type.
    Service,
    /// Many by name.
    Entry,
    /// An observer of a notice.
    Observer,
    /// A layer of a chain.
    Layer,
    /// A filter of inherited entries.
    Restriction,
}

impl Scope {
    /// What this very scope holds now, by row order, then kind, type and name.
    pub fn contents(&self) -> Vec<Contribution> {
        let tables = self.read();
        let mut contents: Vec<Contribution> = Vec::with_capacity(tables.len());
        let mut push = |kind, name: Option<&Arc<str>>, slot: &Slot| {
            contents.push(Contribution {
                kind,
                of: slot.label,
                name: name.cloned(),
                origin: slot.origin.clone(),
                order: slot.order,
                scope: self.inner.name.clone(),
            });
        };
        tables.services().for_each(|slot| push(ContributionKind::Service, None, slot));
        for (name, slot) in tables.all_entries() {
            push(ContributionKind::Entry, Some(name), slot);
        }
        tables.all_observers().for_each(|slot| push(ContributionKind::Observer, None, slot));
        tables.all_layers().for_each(|slot| push(ContributionKind::Layer, None, slot));
        tables.all_restrictions().for_each(|slot| push(ContributionKind::Restriction, None, slot));
        drop(tables);
        contents.sort_by(|a, b| {
            let key = |c: &Contribution| (c.origin.rank, c.kind, c.of, c.name.clone());
            key(a).cmp(&key(b))
        });
        contents
    }
}
