//! The contributions of one scope, erased by type.

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::Origin;

/// Holds an `Arc<S>`, `Arc<E>`, observer, layer or filter of the type that keys it.
pub(super) type Erased = Arc<dyn Any + Send + Sync>;

/// Shared lists: a dispatch takes the pointer and walks it without the lock.
pub(super) type List = Arc<Vec<Slot>>;

#[derive(Clone)]
pub(super) struct Slot {
    pub(super) id: u64,
    /// Name of the type of service, entry, notice or chain, for people.
    pub(super) label: &'static str,
    pub(super) order: i32,
    pub(super) origin: Origin,
    pub(super) value: Erased,
}

/// Where in the tables a contribution stands.
#[derive(Clone)]
pub(super) enum Place {
    Service(TypeId),
    Entry(TypeId, Arc<str>),
    Observer(TypeId),
    Layer(TypeId),
    Restriction(TypeId),
}

#[derive(Default)]
pub(super) struct Tables {
    services: HashMap<TypeId, Slot>,
    entries: HashMap<TypeId, BTreeMap<Arc<str>, Slot>>,
    observers: HashMap<TypeId, List>,
    layers: HashMap<TypeId, List>,
    restrictions: HashMap<TypeId, List>,
}

impl Tables {
    pub(super) fn service(&self, key: TypeId) -> Option<&Slot> {
        self.services.get(&key)
    }

    pub(super) fn entries(&self, key: TypeId) -> Option<&BTreeMap<Arc<str>, Slot>> {
        self.entries.get(&key)
    }

    pub(super) fn observers(&self, key: TypeId) -> Option<List> {
        self.observers.get(&key).cloned()
    }

    pub(super) fn layers(&self, key: TypeId) -> Option<List> {
        self.layers.get(&key).cloned()
    }

    pub(super) fn restrictions(&self, key: TypeId) -> Option<List> {
        self.restrictions.get(&key).cloned()
    }

    pub(super) fn services(&self) -> impl Iterator<Item = &Slot> {
        self.services.values()
    }

    /// Every entry with its name.
    pub(super) fn all_entries(&self) -> impl Iterator<Item = (&Arc<str>, &Slot)> {
        self.entries.values().flatten()
    }

    /// Every entry with its type and name.
    pub(super) fn keyed_entries(&self) -> impl Iterator<Item = (TypeId, &Arc<str>, &Slot)> {
        let of_types = self.entries.iter();
        of_types.flat_map(|(key, named)| named.iter().map(|(name, slot)| (*key, name, slot)))
    }

    pub(super) fn all_observers(&self) -> impl Iterator<Item = &Slot> {
        self.observers.values().flat_map(|list| list.iter())
    }

    pub(super) fn all_layers(&self) -> impl Iterator<Item = &Slot> {
        self.layers.values().flat_map(|list| list.iter())
    }

    pub(super) fn all_restrictions(&self) -> impl Iterator<Item = &Slot> {
        self.restrictions.values().flat_map(|list| list.iter())
    }

    pub(super) fn len(&self) -> usize {
        let lists = [&self.observers, &self.layers, &self.restrictions];
        self.services.len()
            + self.entries.values().map(BTreeMap::len).sum::<usize>()
            + lists.iter().flat_map(|lists| lists.values()).map(|list| list.len()).sum::<usize>()
    }

    /// Puts `slot` in its place. Answers the list it replaced, to be dropped outside the lock;
    /// `Err` is the origin that already holds the place.
    pub(super) fn insert(&mut self, place: &Place, slot: Slot) -> Result<Option<List>, Origin> {
        match place {
            Place::Service(key) => {
                if let Some(held) = self.services.get(key) {
                    return Err(held.origin.clone());
                }
                self.services.insert(*key, slot);
                Ok(None)
            }
            Place::Entry(key, name) => {
                let named = self.entries.entry(*key).or_default();
                if let Some(held) = named.get(name) {
                    return Err(held.origin.clone());
                }
                named.insert(name.clone(), slot);
                Ok(None)
            }
            Place::Observer(key) => Ok(insert_sorted(&mut self.observers, *key, slot)),
            Place::Layer(key) => Ok(insert_sorted(&mut self.layers, *key, slot)),
            Place::Restriction(key) => Ok(insert_sorted(&mut self.restrictions, *key, slot)),
        }
    }

    /// Takes a contribution out. What is answered must be dropped outside the lock.
    pub(super) fn remove(&mut self, place: &Place, id: u64) -> (Option<Slot>, Option<List>) {
        match place {
            Place::Service(key) => (self.services.remove(key), None),
            Place::Entry(key, name) => {
                let Some(named) = self.entries.get_mut(key) else { return (None, None) };
                let removed = named.remove(name);
                if named.is_empty() {
                    self.entries.remove(key);
                }
                (removed, None)
            }
            Place::Observer(key) => (None, remove_from(&mut self.observers, *key, id)),
            Place::Layer(key) => (None, remove_from(&mut self.layers, *key, id)),
            Place::Restriction(key) => (None, remove_from(&mut self.restrictions, *key, id)),
        }
    }
}

/// Lists are sorted by (order, row order, registration), so mount order has no meaning.
fn insert_sorted(lists: &mut HashMap<TypeId, List>, key: TypeId, slot: Slot) -> Option<List> {
    let old = lists.get(&key).cloned();
    let mut slots = old.as_ref().map_or_else(Vec::new, |list| list.to_vec());
    let rank = |slot: &Slot| (slot.order, slot.origin.rank, slot.id);
    let at = slots.partition_point(|held| rank(held) < rank(&slot));
    slots.insert(at, slot);
    lists.insert(key, Arc::new(slots));
    old
}

fn remove_from(lists: &mut HashMap<TypeId, List>, key: TypeId, id: u64) -> Option<List> {
    let old = lists.remove(&key)?;
    let rest: Vec<Slot> = old.iter().filter(|slot| slot.id != id).cloned().collect();
    if !rest.is_empty() {
        lists.insert(key, Arc::new(rest));
    }
    Some(old)
}
