//! Notices: observers that are told, and cannot answer.

use std::any::{Any, TypeId};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::tables::Place;
use super::{Registration, Scope};
use crate::Origin;

/// Something that happened, for observers.
pub trait Notice: 'static {
    /// Its name for people, for example `turn-ended`.
    const NAME: &'static str;
}

/// A panic was kept from its caller. Observe it to write a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contained {
    /// What ran.
    pub place: ContainedWhere,
    /// The row whose code it was.
    pub origin: Origin,
    /// The panic's text.
    pub message: String,
}

/// The code in which a panic was contained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainedWhere {
    /// An observer of the notice of this name.
    Observer(&'static str),
    /// Work that was awaited while a row stopped.
    Stop,
}

impl Notice for Contained {
    const NAME: &'static str = "contained";
}

type Observer<N> = Box<dyn Fn(&N) + Send + Sync>;

impl Scope {
    /// Calls `observer` for every notice of the type that is raised in this scope or below it.
    /// It runs on the raiser's thread: keep it short, never block.
    pub fn observe<N: Notice>(
        &self,
        observer: impl Fn(&N) + Send + Sync + 'static,
        origin: &Origin,
    ) -> Registration {
        let observer: Observer<N> = Box::new(observer);
        let place = Place::Observer(TypeId::of::<N>());
        self.insert_listed(place, N::NAME, 0, origin, Arc::new(observer))
    }

    /// Whether anybody observes this notice here or around.
    pub(super) fn is_observed<N: Notice>(&self) -> bool {
        self.outward().any(|scope| scope.read().observers(TypeId::of::<N>()).is_some())
    }

    /// Tells the observers of the outermost scope first, then inwards to this one; within a
    /// scope in row order. A panic of an observer is counted and raised as [`Contained`].
    pub fn notify<N: Notice>(&self, notice: &N) {
        for scope in self.inward() {
            let observers = scope.read().observers(TypeId::of::<N>()).unwrap_or_default();
            for slot in observers.iter() {
                let Some(observer) = slot.value.downcast_ref::<Observer<N>>() else { continue };
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| observer(notice))) {
                    let place = ContainedWhere::Observer(N::NAME);
                    self.contain(place, &slot.origin, panic.as_ref());
                }
            }
        }
    }

    /// How many panics were contained on the way of notices raised in this very scope.
    pub fn contained(&self) -> u64 {
        self.inner.contained.load(Ordering::Relaxed)
    }

    pub(crate) fn contain(&self, place: ContainedWhere, origin: &Origin, panic: &(dyn Any + Send)) {
        self.inner.contained.fetch_add(1, Ordering::Relaxed);
        // The observer of containment that panics itself is only counted: no endless circle.
        if place == ContainedWhere::Observer(Contained::NAME) {
            return;
        }
        let message = panic_text(panic);
        self.notify(&Contained { place, origin: origin.clone(), message });
    }

    /// `insert` for the kinds that never conflict.
    pub(super) fn insert_listed(
        &self,
        place: Place,
        label: &'static str,
        order: i32,
        origin: &Origin,
        value: super::Erased,
    ) -> Registration {
        match self.insert(place, label, order, origin, value) {
            Ok(registration) => registration,
            Err(held) => unreachable!("lists take any number of contributions, {held}"),
        }
    }
}

/// What a panic said, for people.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&'static str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without text".to_owned())
}
