//! Services: one per type and scope.

use std::any::TypeId;
use std::sync::Arc;

use super::tables::Place;
use super::{Conflict, Registration, Scope, short_type_name};
use crate::Origin;

/// A service that no scope on the way to the root holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("service `{service}` is not there in scope `{scope}`; enable a row that provides it")]
pub struct MissingService {
    /// Short type name of the service.
    pub service: &'static str,
    /// The scope that was asked.
    pub scope: Arc<str>,
}

impl Scope {
    /// Puts a service into this scope.
    ///
    /// # Errors
    /// This very scope already holds one of the type.
    pub fn provide<S: ?Sized + Send + Sync + 'static>(
        &self,
        service: Arc<S>,
        origin: &Origin,
    ) -> Result<Registration, Conflict> {
        let place = Place::Service(TypeId::of::<S>());
        self.insert(place, short_type_name::<S>(), 0, origin, Arc::new(service)).map_err(|first| {
            Conflict {
                what: "service",
                name: short_type_name::<S>().into(),
                first: Box::new(first),
                second: Box::new(origin.clone()),
            }
        })
    }

    /// The nearest service of the type.
    pub fn service<S: ?Sized + Send + Sync + 'static>(&self) -> Option<Arc<S>> {
        self.outward().find_map(|scope| {
            let tables = scope.read();
            let slot = tables.service(TypeId::of::<S>())?;
            slot.value.downcast_ref::<Arc<S>>().cloned()
        })
    }

    /// Whether this scope or one around it holds a service of the type.
    pub(crate) fn sees(&self, service: TypeId) -> bool {
        self.outward().any(|scope| scope.holds(service))
    }

    /// Whether this very scope holds a service of the type.
    pub(crate) fn holds(&self, service: TypeId) -> bool {
        self.read().service(service).is_some()
    }

    /// Who provided the nearest service of the type.
    pub fn service_origin<S: ?Sized + Send + Sync + 'static>(&self) -> Option<Origin> {
        self.outward().find_map(|scope| {
            scope.read().service(TypeId::of::<S>()).map(|slot| slot.origin.clone())
        })
    }

    /// The nearest service of the type.
    ///
    /// # Errors
    /// None is there.
    pub fn need<S: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<S>, MissingService> {
        self.service::<S>().ok_or_else(|| MissingService {
            service: short_type_name::<S>(),
            scope: self.inner.name.clone(),
        })
    }
}
