//! Chains: around-middleware of an event type.

use std::any::TypeId;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::tables::{Place, Slot};
use super::{Notice, Registration, Scope};
use crate::Origin;

/// An event that layers may answer, change or pass on. It is owned by whoever handles it.
pub trait Chain: Sized + Send + 'static {
    /// Its name for people, for example `pre-step`.
    const NAME: &'static str;
    /// What running the chain yields.
    type Out: Send + 'static;
}

/// The rest of a chain. Running it consumes it, so a layer runs the rest at most once; a layer
/// that drops it short-circuits.
pub struct Next<C: Chain> {
    layers: Arc<[LayerFn<C>]>,
    /// Somebody wants to know of each layer that runs.
    watched: Option<Arc<Watched>>,
    at: usize,
    end: EndFn<C>,
}

struct Watched {
    scope: Scope,
    layers: Vec<LayerInfo>,
}

type LayerFn<C> = Arc<dyn Fn(C, Next<C>) -> Outcome<C> + Send + Sync>;
type EndFn<C> = Box<dyn FnOnce(C) -> Outcome<C> + Send>;
type Outcome<C> = BoxFuture<'static, <C as Chain>::Out>;

impl<C: Chain> Next<C> {
    /// Runs the remaining layers and the end.
    pub fn run(mut self, event: C) -> BoxFuture<'static, C::Out> {
        match self.layers.get(self.at).cloned() {
            Some(layer) => {
                if let Some(watched) = &self.watched
                    && let Some(info) = watched.layers.get(self.at)
                {
                    watched.scope.notify(&LayerRan { chain: C::NAME, layer: info.clone() });
                }
                self.at += 1;
                layer(event, self)
            }
            None => (self.end)(event),
        }
    }
}

/// One layer of a chain, in the order in which they run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerInfo {
    /// The row that put it there.
    pub origin: Origin,
    /// The explicit order; smaller is further out.
    pub order: i32,
    /// Name of the scope that holds it.
    pub scope: Arc<str>,
}

/// A layer of a chain begins to run. Raised only while somebody observes it, in the scope from
/// which the chain runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerRan {
    /// The chain's name.
    pub chain: &'static str,
    /// The layer.
    pub layer: LayerInfo,
}

impl Notice for LayerRan {
    const NAME: &'static str = "layer-ran";
}

impl Scope {
    /// Wraps every run of the chain from this scope or below it. Outer scopes wrap inner ones;
    /// within a scope smaller `order` wraps larger, then row order decides.
    pub fn wrap<C: Chain>(
        &self,
        order: i32,
        layer: impl Fn(C, Next<C>) -> BoxFuture<'static, C::Out> + Send + Sync + 'static,
        origin: &Origin,
    ) -> Registration {
        let layer: LayerFn<C> = Arc::new(layer);
        self.insert_listed(Place::Layer(TypeId::of::<C>()), C::NAME, order, origin, Arc::new(layer))
    }

    /// Runs `event` through the layers visible now, then `end`. Layers that come or go later do
    /// not change this run. A panic in a layer or in `end` is a panic of the returned future,
    /// when it is polled: the chain's output is the caller's type, so the caller contains it.
    pub fn run<C: Chain>(
        &self,
        event: C,
        end: impl FnOnce(C) -> BoxFuture<'static, C::Out> + Send + 'static,
    ) -> BoxFuture<'static, C::Out> {
        let mut layers: Vec<LayerFn<C>> = Vec::new();
        let mut infos = self.is_observed::<LayerRan>().then(Vec::new);
        for scope in self.inward() {
            let slots = scope.read().layers(TypeId::of::<C>()).unwrap_or_default();
            let held = slots.iter().filter_map(|slot| slot.value.downcast_ref::<LayerFn<C>>());
            layers.extend(held.cloned());
            if let Some(infos) = &mut infos {
                infos.extend(slots.iter().map(|slot| scope.info_of(slot)));
            }
        }
        let watched = infos.map(|layers| Arc::new(Watched { scope: self.clone(), layers }));
        let next = Next { layers: layers.into(), watched, at: 0, end: Box::new(end) };
        Box::pin(async move { next.run(event).await })
    }

    /// The layers that a run from this scope would pass, outermost first.
    pub fn layers<C: Chain>(&self) -> Vec<LayerInfo> {
        let mut infos = Vec::new();
        for scope in self.inward() {
            let slots = scope.read().layers(TypeId::of::<C>()).unwrap_or_default();
            infos.extend(slots.iter().map(|slot| scope.info_of(slot)));
        }
        infos
    }

    fn info_of(&self, slot: &Slot) -> LayerInfo {
        let (origin, scope) = (slot.origin.clone(), self.inner.name.clone());
        LayerInfo { origin, order: slot.order, scope }
    }
}
