//! Event types of other owners: which are registered, and what of their events is remembered.

use std::collections::BTreeMap;
use std::sync::Arc;

use reins_schema::Event;
use serde::{Deserialize, Serialize};

/// What is registered about one event type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventType {
    /// The payload version that is written, and the highest one that is read.
    pub version: u32,
    /// A reader that does not know the type may skip it.
    pub ignorable: bool,
    /// The fold keeps the last event of the type, for whoever goes on with the session:
    /// [`super::Fold::last_of`].
    pub keep_last: bool,
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

    /// The types whose last event is kept.
    pub(super) fn kept(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|(_, kind)| kind.keep_last).map(|(name, _)| name.as_str())
    }
}

impl FromIterator<(String, EventType)> for KnownTypes {
    fn from_iter<I: IntoIterator<Item = (String, EventType)>>(types: I) -> Self {
        Self(types.into_iter().collect())
    }
}

/// What the fold remembers of events that are not the core's.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Foreign {
    known: KnownTypes,
    kept: BTreeMap<String, Kept>,
    /// Of each type that a reader may not skip: the first event, and each that has a higher version
    /// than all before it. From that it follows which event the types of another time do not know.
    required: BTreeMap<String, Vec<Required>>,
    read_only: Option<String>,
}

/// The last event of a type.
#[derive(Clone, Debug, PartialEq)]
struct Kept {
    /// Since the first event of the log; otherwise since the type was registered.
    whole: bool,
    last: Option<Arc<Event>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Required {
    v: Option<u32>,
    seq: u64,
}

impl Required {
    fn version(self) -> u32 {
        self.v.unwrap_or(0)
    }
}

impl Foreign {
    /// Before the first event.
    pub(super) fn new(known: KnownTypes) -> Self {
        let kept = known.kept().map(|kind| (kind.to_owned(), Kept { whole: true, last: None }));
        let kept = kept.collect();
        Self { known, kept, required: BTreeMap::new(), read_only: None }
    }

    /// What was stored of another `Foreign`, under the types that are known now.
    pub(super) fn stored(
        known: KnownTypes,
        kept: BTreeMap<String, Option<Arc<Event>>>,
        required: BTreeMap<String, Vec<Required>>,
    ) -> Self {
        let kept = kept.into_iter().map(|(kind, last)| (kind, Kept { whole: true, last }));
        let mut all = Self { known, kept: kept.collect(), required, read_only: None };
        all.read_only = all.unknown();
        all
    }

    /// The types that were kept from the first event on, and their last events.
    pub(super) fn kept_from_the_first(&self) -> impl Iterator<Item = (&str, Option<&Event>)> {
        let whole = self.kept.iter().filter(|(_, kept)| kept.whole);
        whole.map(|(kind, kept)| (kind.as_str(), kept.last.as_deref()))
    }

    pub(super) fn required(&self) -> &BTreeMap<String, Vec<Required>> {
        &self.required
    }

    pub(super) fn known(&self) -> &KnownTypes {
        &self.known
    }

    pub(super) fn read_only(&self) -> Option<&str> {
        self.read_only.as_deref()
    }

    pub(super) fn last_of(&self, kind: &str) -> Option<&Event> {
        self.kept.get(kind)?.last.as_deref()
    }

    /// What was kept stays; a type that is new here is kept from now on.
    pub(super) fn use_types(&mut self, known: KnownTypes) {
        for kind in known.kept() {
            let late = Kept { whole: false, last: None };
            self.kept.entry(kind.to_owned()).or_insert(late);
        }
        self.known = known;
        self.read_only = self.unknown();
    }

    /// The store keeps the event; the core does not fold it.
    pub(super) fn take(&mut self, event: &Event) -> Result<(), String> {
        let body = &event.body;
        if body.surface.is_some() && self.known.get(&body.kind).is_some() {
            return Err("this type takes no `surface`".to_owned());
        }
        if !body.ignorable {
            self.require(event);
        }
        if let Some(kept) = self.kept.get_mut(&body.kind) {
            kept.last = Some(Arc::new(event.clone()));
        }
        Ok(())
    }

    fn require(&mut self, event: &Event) {
        let new = Required { v: event.body.v, seq: event.seq };
        match self.required.get_mut(&event.body.kind) {
            Some(steps) if steps.last().is_some_and(|old| old.version() >= new.version()) => return,
            Some(steps) => steps.push(new),
            None => drop(self.required.insert(event.body.kind.clone(), vec![new])),
        }
        if self.read_only.is_none() {
            self.read_only = self.unknown();
        }
    }

    /// The first event that may not be skipped and is not known.
    fn unknown(&self) -> Option<String> {
        let first_of = |(kind, steps): (&'_ String, &Vec<Required>)| {
            let known = self.known.get(kind).map(|of| of.version);
            let of = steps.iter().find(|step| known.is_none_or(|known| step.version() > known))?;
            Some((of.seq, of.v, kind.clone()))
        };
        let (seq, v, kind) = self.required.iter().filter_map(first_of).min()?;
        let version = v.map(|v| format!(" version {v}")).unwrap_or_default();
        Some(format!(
            "event {seq} has the type `{kind}`{version}, which this version of Reins does not \
             know; upgrade Reins, or turn on the plugin that wrote it"
        ))
    }
}
