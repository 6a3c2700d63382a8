//! Event types of other owners.

use std::collections::BTreeMap;

/// What is registered about one event type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventType {
    /// The payload version that is written, and the highest one that is read.
    pub version: u32,
    /// A reader that does not know the type may skip it.
    pub ignorable: bool,
}

/// The registered event types beside the core's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownTypes(BTreeMap<String, EventType>);

impl KnownTypes {
    /// Registers a type; the last registration of a name counts.
    pub fn insert(&mut self, name: impl Into<String>, kind: EventType) {
        self.0.insert(name.into(), kind);
    }

    /// What is registered under a name.
    pub fn get(&self, name: &str) -> Option<EventType> {
        self.0.get(name).copied()
    }
}

impl FromIterator<(String, EventType)> for KnownTypes {
    fn from_iter<I: IntoIterator<Item = (String, EventType)>>(types: I) -> Self {
        Self(types.into_iter().collect())
    }
}
