//! Rows.

use std::sync::Arc;

use reins_kernel::{Contribution, ContributionKind, Origin, PluginSummary, Reload, Row, Scope};

use super::Explain;

/// A row and what became of it.
#[derive(Clone, Debug)]
pub struct RowFacts {
    /// It.
    pub row: Row,
    /// Its plugin.
    pub plugin: PluginSummary,
    /// Name of the scope in which it is mounted, when it is on.
    pub scope: Arc<str>,
    /// The preset whose row it is; `None` for a row of the process.
    pub preset: Option<String>,
    /// What it has put into that scope.
    pub contributed: Vec<Contribution>,
}

impl RowFacts {
    /// Whether the next generation takes a change; rows of a preset are mounted anew in each.
    pub fn is_live(&self) -> bool {
        self.preset.is_some() || self.plugin.reload == Reload::Live
    }
}

impl Explain {
    /// All rows of the process, then those of the preset; the disabled ones, too.
    pub fn rows(&self) -> Vec<RowFacts> {
        let contents = self.contents();
        let plugins = self.catalog.plugins();
        let facts = |row: &Row, preset: Option<&str>| {
            let plugin = plugins.iter().find(|plugin| plugin.name == row.plugin)?.clone();
            let scope = match (preset, plugin.reload) {
                (Some(_), _) => self.scope().name(),
                (None, Reload::Live) => "global",
                (None, Reload::Restart) => "process",
            };
            let own = contents.iter().filter(|held| held.origin == row.origin);
            Some(RowFacts {
                row: row.clone(),
                plugin,
                scope: scope.into(),
                preset: preset.map(str::to_owned),
                contributed: own.cloned().collect(),
            })
        };
        let process = self.rows.iter().filter_map(|row| facts(row, None));
        let preset = self.preset_rows.iter().filter_map(|row| facts(row, Some(self.preset())));
        process.chain(preset).collect()
    }

    /// The rows with this id: one of the process, one of the preset, or both.
    pub fn rows_named(&self, id: &str) -> Vec<RowFacts> {
        self.rows().into_iter().filter(|facts| facts.row.id == id).collect()
    }

    /// What rows around the preset put there that its agents have from its own rows instead: what
    /// is there, and what takes its place.
    pub fn shadowed_by_preset(&self) -> Vec<(Contribution, Contribution)> {
        let own = self.scope().contents();
        let around = self.scope().outward().skip(1).flat_map(Scope::contents);
        let replaced = around.filter_map(|held| {
            let unique = [ContributionKind::Service, ContributionKind::Entry].contains(&held.kind);
            let same = |own: &&Contribution| {
                (own.kind, own.of, &own.name) == (held.kind, held.of, &held.name)
            };
            let by = own.iter().find(same).filter(|_| unique)?.clone();
            Some((held, by))
        });
        replaced.collect()
    }

    /// The row from which another one has a service that it needs or wants, called as it calls it;
    /// `None` when it is not there, or given by the process itself.
    pub fn provider(&self, of: &RowFacts, service: &str) -> Option<RowFacts> {
        let plugins = self.catalog.providers(&of.row.plugin, service);
        // Those of the preset are nearer and come last; rows of the process do not see them.
        let mut rows = self.rows().into_iter().rev();
        rows.find(|facts| {
            let seen = facts.preset.is_none() || of.preset.is_some();
            seen && !facts.row.disabled && plugins.contains(&facts.plugin.name)
        })
    }

    /// The row that a contribution came from; `None` when running code made it.
    pub fn row_of(&self, origin: &Origin) -> Option<RowFacts> {
        self.rows().into_iter().find(|facts| facts.row.origin == *origin)
    }
}
