//! Where things come from, as data: rows, tools, chains, fields and the prompt, as an agent of one
//! preset has them. What is said about it is for the front end.

mod chain;
mod field;
mod prompt;
mod row;
mod tool;

use std::sync::Arc;

use reins_agent::PresetScope;
use reins_kernel::{Catalog, Contribution, Entry, Origin, Row, Scope};

use crate::open::HostError;
use crate::{Host, ReloadPolicy};

pub use chain::{ChainFacts, GuardFacts};
pub use field::FieldFacts;
pub use prompt::PromptFacts;
pub use row::RowFacts;
pub use tool::{ToolFacts, ToolPlace};

/// Everything as an agent of one preset has it in one generation. Holding it keeps the generation.
pub struct Explain {
    catalog: Catalog,
    preset: PresetScope,
    rows: Vec<Row>,
    preset_rows: Vec<Row>,
}

/// An entry that a nearer one of the same name takes the place of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadowed {
    /// The row that put it there.
    pub origin: Origin,
    /// Name of the scope that holds it.
    pub scope: Arc<str>,
}

impl Host {
    /// Explains what agents of a preset have; `None` = the preset of new sessions.
    ///
    /// # Errors
    /// There is no such preset, or its rows cannot be mounted.
    pub async fn explain(&self, preset: Option<&str>) -> Result<Explain, HostError> {
        let scope = match preset {
            Some(preset) => self.preset(preset).await?,
            None => self.default_preset().await?,
        };
        let (rows, preset_rows) = self.rows(&scope.preset).await;
        let catalog = self.blueprint().catalog.clone();
        Ok(Explain { catalog, preset: scope, rows, preset_rows })
    }
}

impl Explain {
    /// The preset's name.
    pub fn preset(&self) -> &str {
        &self.preset.preset
    }

    /// The scope in which an agent of the preset would get its own.
    pub fn scope(&self) -> &Scope {
        &self.preset.scope
    }

    /// Whether changed files are taken while the process runs.
    pub fn reloads(&self) -> bool {
        self.scope().service::<ReloadPolicy>().is_some()
    }

    /// The scopes that an agent sees, the outermost first.
    fn inward(&self) -> Vec<&Scope> {
        let mut scopes: Vec<&Scope> = self.scope().outward().collect();
        scopes.reverse();
        scopes
    }

    /// Everything that some scope holds, the outermost first.
    fn contents(&self) -> Vec<Contribution> {
        self.inward().into_iter().flat_map(|scope| scope.contents()).collect()
    }

    /// Every entry of the type and name that some scope holds, the nearest first, also what is
    /// hidden.
    fn held<E: ?Sized + Send + Sync + 'static>(&self, name: &str) -> Vec<Entry<E>> {
        let mut held: Vec<Entry<E>> = Vec::new();
        for scope in self.scope().outward() {
            // A scope always sees what it holds itself; else this is the one of a scope around it.
            let Some(entry) = scope.entry::<E>(name) else { continue };
            if held.last().is_none_or(|last| !Arc::ptr_eq(&last.value, &entry.value)) {
                held.push(entry);
            }
        }
        held
    }

    /// The names of all entries of the type that some scope holds, sorted, also of what is hidden.
    fn names<E: ?Sized + Send + Sync + 'static>(&self) -> Vec<Arc<str>> {
        let entries = self.scope().outward().flat_map(|scope| scope.entries::<E>());
        let mut names: Vec<Arc<str>> = entries.map(|entry| entry.name).collect();
        names.sort();
        names.dedup();
        names
    }

    /// What a visible entry of this type and name takes the place of, the nearest first.
    fn shadowed<E: ?Sized + Send + Sync + 'static>(&self, name: &str) -> Vec<Shadowed> {
        let behind = self.held::<E>(name).into_iter().skip(1);
        behind.map(|entry| Shadowed { origin: entry.origin, scope: entry.scope }).collect()
    }
}
