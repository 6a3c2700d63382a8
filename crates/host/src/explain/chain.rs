//! Chains and guards.

use std::sync::Arc;

use reins_agent::{CHAINS, ChainInfo, Guard};
use reins_kernel::{Contribution, ContributionKind, LayerInfo, Origin};

use super::Explain;

/// A chain and what is wrapped around it.
#[derive(Clone, Debug)]
pub struct ChainFacts {
    /// Its name.
    pub name: &'static str,
    /// What is known of it; `None` when a plugin from outside defines it.
    pub known: Option<&'static ChainInfo>,
    /// Its layers, outermost first.
    pub layers: Vec<LayerInfo>,
}

/// An entry that may refuse a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardFacts {
    /// Its name.
    pub name: Arc<str>,
    /// The row that put it there.
    pub origin: Origin,
    /// Name of the scope that holds it.
    pub scope: Arc<str>,
}

impl Explain {
    /// The agent's chains in the order of a turn, then those of other plugins by name, as far as
    /// somebody wraps them.
    pub fn chains(&self) -> Vec<ChainFacts> {
        let known = CHAINS.iter().map(|chain| ChainFacts {
            name: chain.name,
            known: Some(chain),
            layers: chain.layers(self.scope()),
        });
        let foreign = self.foreign_chains().into_iter().map(|name| ChainFacts {
            name,
            known: None,
            layers: self.layers_by_name(name),
        });
        known.chain(foreign).collect()
    }

    /// The chain of this name.
    pub fn chain(&self, name: &str) -> Option<ChainFacts> {
        self.chains().into_iter().find(|chain| chain.name == name)
    }

    /// The chains around a single tool call, in the order in which it meets them.
    pub fn call_chains(&self) -> Vec<ChainFacts> {
        let around_call = |chain: &ChainFacts| chain.known.is_some_and(|known| known.around_call);
        self.chains().into_iter().filter(around_call).collect()
    }

    /// The guards that every call is put to.
    pub fn guards(&self) -> Vec<GuardFacts> {
        let guards = self.scope().entries::<dyn Guard>().into_iter();
        guards
            .map(|guard| GuardFacts { name: guard.name, origin: guard.origin, scope: guard.scope })
            .collect()
    }

    fn foreign_chains(&self) -> Vec<&'static str> {
        let contents = self.contents().into_iter();
        let layers = contents.filter(|held| held.kind == ContributionKind::Layer);
        let mut names: Vec<&'static str> = layers.map(|layer| layer.of).collect();
        names.retain(|name| CHAINS.iter().all(|chain| chain.name != *name));
        names.sort_unstable();
        names.dedup();
        names
    }

    /// As [`reins_kernel::Scope::layers`], for a chain whose type is not known here.
    fn layers_by_name(&self, chain: &str) -> Vec<LayerInfo> {
        let mut layers = Vec::new();
        for scope in self.inward() {
            let is_layer =
                |held: &Contribution| held.kind == ContributionKind::Layer && held.of == chain;
            let mut own: Vec<Contribution> =
                scope.contents().into_iter().filter(is_layer).collect();
            // Stable: several layers of one row and order stay as they were registered.
            own.sort_by_key(|layer| (layer.order, layer.origin.rank));
            layers.extend(own.into_iter().map(|layer| LayerInfo {
                origin: layer.origin,
                order: layer.order,
                scope: layer.scope,
            }));
        }
        layers
    }
}
