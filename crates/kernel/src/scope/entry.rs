//! Entries: many of a type, each with a name.

use std::any::TypeId;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::tables::{Place, Slot};
use super::{Conflict, Registration, Scope, short_type_name};
use crate::Origin;

/// A named contribution that is visible from where it was looked up.
#[derive(Debug)]
pub struct Entry<E: ?Sized> {
    /// Its name, unique among what is visible.
    pub name: Arc<str>,
    /// The contribution.
    pub value: Arc<E>,
    /// The row that put it there.
    pub origin: Origin,
    /// Name of the scope that holds it.
    pub scope: Arc<str>,
}

impl<E: ?Sized> Clone for Entry<E> {
    fn clone(&self) -> Self {
        Self {
            name: self.name.clone(),
            value: self.value.clone(),
            origin: self.origin.clone(),
            scope: self.scope.clone(),
        }
    }
}

type Filter = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl Scope {
    /// Adds an entry to this scope. A name of an outer scope may be taken: the nearest wins.
    ///
    /// # Errors
    /// This very scope already holds an entry of the type with this name.
    pub fn add<E: ?Sized + Send + Sync + 'static>(
        &self,
        name: &str,
        entry: Arc<E>,
        origin: &Origin,
    ) -> Result<Registration, Conflict> {
        let name: Arc<str> = name.into();
        let place = Place::Entry(TypeId::of::<E>(), name.clone());
        self.insert(place, short_type_name::<E>(), 0, origin, Arc::new(entry)).map_err(|first| {
            Conflict {
                what: short_type_name::<E>(),
                name,
                first: Box::new(first),
                second: Box::new(origin.clone()),
            }
        })
    }

    /// Every visible entry of the type, sorted by name.
    pub fn entries<E: ?Sized + Send + Sync + 'static>(&self) -> Vec<Entry<E>> {
        let mut visible: BTreeMap<Arc<str>, Entry<E>> = BTreeMap::new();
        for scope in self.inward() {
            let filters = scope.filters::<E>();
            visible.retain(|name, _| filters.iter().all(|slot| admits(slot, name)));
            visible.extend(scope.own_entries::<E>());
        }
        visible.into_values().collect()
    }

    /// The visible entry of the type with this name.
    pub fn entry<E: ?Sized + Send + Sync + 'static>(&self, name: &str) -> Option<Entry<E>> {
        for scope in self.outward() {
            let tables = scope.read();
            let own = tables.entries(TypeId::of::<E>()).and_then(|named| named.get_key_value(name));
            if let Some((name, slot)) = own {
                return scope.entry_of(name, slot);
            }
            drop(tables);
            if !scope.filters::<E>().iter().all(|slot| admits(slot, name)) {
                return None;
            }
        }
        None
    }

    /// Filters the entries of a type that this scope inherits, never its own. All restrictions
    /// on the way from an entry to the one who looks must admit its name.
    pub fn restrict<E: ?Sized + Send + Sync + 'static>(
        &self,
        admits: impl Fn(&str) -> bool + Send + Sync + 'static,
        origin: &Origin,
    ) -> Registration {
        let filter: Filter = Box::new(admits);
        let place = Place::Restriction(TypeId::of::<E>());
        self.insert_listed(place, short_type_name::<E>(), 0, origin, Arc::new(filter))
    }

    /// Who hides an entry of this type and name that some scope around holds; `None` when it is
    /// visible, or nowhere.
    pub fn hidden_by<E: ?Sized + Send + Sync + 'static>(&self, name: &str) -> Option<Origin> {
        let mut by = None;
        for scope in self.outward() {
            let tables = scope.read();
            if tables.entries(TypeId::of::<E>()).is_some_and(|named| named.contains_key(name)) {
                return by;
            }
            drop(tables);
            let filters = scope.filters::<E>();
            by = by.or_else(|| {
                filters.iter().find(|slot| !admits(slot, name)).map(|slot| slot.origin.clone())
            });
        }
        None
    }

    /// The entries of this very scope whose type and name `around` itself holds, too.
    pub(crate) fn shadows(&self, around: &Self) -> Vec<Conflict> {
        let own: Vec<(TypeId, Arc<str>, Origin)> = {
            let tables = self.read();
            let own = tables.keyed_entries();
            own.map(|(key, name, slot)| (key, name.clone(), slot.origin.clone())).collect()
        };
        let tables = around.read();
        let both = own.into_iter().filter_map(|(key, name, second)| {
            let held = tables.entries(key)?.get(&name)?;
            let (first, second) = (Box::new(held.origin.clone()), Box::new(second));
            Some(Conflict { what: held.label, name, first, second })
        });
        both.collect()
    }

    fn own_entries<E: ?Sized + Send + Sync + 'static>(&self) -> Vec<(Arc<str>, Entry<E>)> {
        let tables = self.read();
        let own = tables.entries(TypeId::of::<E>()).into_iter().flatten();
        own.filter_map(|(name, slot)| Some((name.clone(), self.entry_of(name, slot)?))).collect()
    }

    fn filters<E: ?Sized + 'static>(&self) -> Arc<Vec<Slot>> {
        self.read().restrictions(TypeId::of::<E>()).unwrap_or_default()
    }

    fn entry_of<E: ?Sized + Send + Sync + 'static>(
        &self,
        name: &Arc<str>,
        slot: &Slot,
    ) -> Option<Entry<E>> {
        let value = slot.value.downcast_ref::<Arc<E>>()?.clone();
        let (origin, scope) = (slot.origin.clone(), self.inner.name.clone());
        Some(Entry { name: name.clone(), value, origin, scope })
    }
}

fn admits(slot: &Slot, name: &str) -> bool {
    slot.value.downcast_ref::<Filter>().is_some_and(|filter| filter(name))
}
