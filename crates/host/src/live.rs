//! One generation with the presets that are, or were, in use; and who keeps it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reins_agent::PresetScope;
use reins_kernel::{Catalog, Composition, Generation, Row, RowChange, RowScope, Scope};

use crate::blueprint::Read;

/// A generation with its presets.
pub(crate) struct Live {
    // First, so that they go first when this is dropped: they stand below the generation.
    presets: Mutex<BTreeMap<String, RowScope>>,
    /// The rows as they stand in the files now: what serves, be it on other lines.
    rows: Mutex<Vec<Row>>,
    pub(crate) generation: Generation,
}

impl Live {
    pub(crate) fn new(generation: Generation, presets: BTreeMap<String, RowScope>) -> Self {
        let rows = Mutex::new(generation.rows.clone());
        Self { presets: Mutex::new(presets), rows, generation }
    }

    fn presets(&self) -> MutexGuard<'_, BTreeMap<String, RowScope>> {
        self.presets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops everything, also when somebody still holds it.
    pub(crate) async fn stop(&self) {
        let presets = std::mem::take(&mut *self.presets());
        for preset in presets.values() {
            preset.stop().await;
        }
        self.generation.stop().await;
    }

    /// The rows as they stand in the files now, and those of one preset that was asked for.
    pub(crate) fn rows(&self, preset: &str) -> (Vec<Row>, Vec<Row>) {
        let own = self.presets().get(preset).map(|scope| scope.rows.clone()).unwrap_or_default();
        (self.rows.lock().unwrap_or_else(PoisonError::into_inner).clone(), own)
    }

    /// The rows of a preset that was asked for, to be mounted again.
    pub(crate) fn composition(&self, preset: &str) -> Option<Composition> {
        let rows = self.presets().get(preset)?.rows.clone();
        Some(Composition { rows, warnings: Vec::new() })
    }

    /// The scope of a preset that was asked for.
    pub(crate) fn scope(&self, preset: &str) -> Option<Scope> {
        Some(self.presets().get(preset)?.scope.clone())
    }

    /// The scope of a preset, when its rows are these.
    pub(crate) fn kept(
        &self,
        preset: &str,
        composition: &Composition,
        catalog: &Catalog,
    ) -> Option<Scope> {
        let mut presets = self.presets();
        let built = presets.get_mut(preset).filter(|one| !one.differs(composition, catalog))?;
        built.rows.clone_from(&composition.rows);
        Some(built.scope.clone())
    }

    /// Puts a preset in the place of what it was, and answers with that.
    pub(crate) fn put(&self, preset: &str, built: RowScope) -> Option<RowScope> {
        self.presets().insert(preset.to_owned(), built)
    }

    /// Whether everything that was read gives what is mounted here. Then its rows are those that
    /// errors name from now on.
    pub(crate) fn is(&self, read: &Read, catalog: &Catalog) -> bool {
        let mut presets = self.presets();
        let same = !self.generation.differs(&read.composition, catalog)
            && read.presets.iter().all(|(name, composition)| {
                presets.get(name).is_some_and(|built| !built.differs(composition, catalog))
            });
        if same {
            let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            rows.clone_from(&read.composition.rows);
            for (name, composition) in &read.presets {
                if let Some(built) = presets.get_mut(name) {
                    built.rows.clone_from(&composition.rows);
                }
            }
        }
        same
    }

    /// What differs from an earlier generation for those who use these presets.
    pub(crate) fn changes_since(
        &self,
        earlier: &Self,
        uses: impl Fn(&str) -> bool,
        catalog: &Catalog,
    ) -> Vec<RowChange> {
        let mut changes = self.generation.changes_since(&earlier.generation, catalog);
        let (before, now) = (earlier.presets(), self.presets());
        for (name, scope) in now.iter().filter(|(name, _)| uses(name)) {
            if let Some(earlier) = before.get(name) {
                changes.extend(scope.changes_since(earlier, catalog));
            }
        }
        changes
    }
}

/// How many hold each preset, in whatever generation.
#[derive(Clone, Default)]
pub(crate) struct Users(Arc<Mutex<BTreeMap<String, usize>>>);

impl Users {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    pub(crate) fn has(&self, preset: &str) -> bool {
        self.lock().contains_key(preset)
    }

    /// A preset of a generation, kept for as long as this is held.
    pub(crate) fn hold(&self, live: &Arc<Live>, preset: &str, scope: Scope) -> PresetScope {
        *self.lock().entry(preset.to_owned()).or_default() += 1;
        let (live, generation) = (Arc::clone(live), live.generation.number);
        let keeper = Keeper { live, preset: preset.to_owned(), users: self.clone() };
        PresetScope { preset: preset.into(), generation, scope, keeper: Arc::new(keeper) }
    }
}

/// Keeps a generation, and with it the file of a preset under watch.
pub(crate) struct Keeper {
    pub(crate) live: Arc<Live>,
    preset: String,
    users: Users,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut users = self.users.lock();
        let left = users.get_mut(&self.preset).map(|users| {
            *users = users.saturating_sub(1);
            *users
        });
        if left == Some(0) {
            users.remove(&self.preset);
        }
    }
}
