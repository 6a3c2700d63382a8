//! What the generations of a process are made from, and reading it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reins_kernel::{
    Catalog, Composition, References, Root, RowError, RowWarning, compose, compose_nested,
};
use reins_world::Env;

use crate::source::{LayerSource, Stamps};

/// How often files are read at the start when they change while they are read.
const READS: usize = 3;
/// Two changes within this time may look the same: some file systems count in seconds. Longer than
/// a start takes, too.
pub(crate) const GRAIN: Duration = Duration::from_secs(2);

/// What the generations of a process are made from.
pub struct Blueprint {
    /// The plugins that rows may name.
    pub catalog: Catalog,
    /// The layers.
    pub source: Arc<dyn LayerSource>,
    /// The environment, for `${env:NAME}` and for plugins that need it.
    pub env: Arc<Env>,
    /// The directory that `${home}` stands for.
    pub home: PathBuf,
}

/// Everything that was read.
pub(crate) struct Read {
    pub(crate) composition: Composition,
    pub(crate) presets: BTreeMap<String, Composition>,
    /// What is wrong with the other presets.
    pub(crate) broken: BTreeMap<String, Vec<RowError>>,
}

/// What a look at the files found.
pub(crate) struct Found {
    pub(crate) stamps: Stamps,
    /// The next change could look like this one.
    pub(crate) unsure: bool,
    pub(crate) read: Result<Read, Vec<RowError>>,
}

/// What a look needs to know.
pub(crate) struct Glance {
    /// The presets in use.
    pub(crate) presets: Vec<String>,
    /// What the files were like; `None` = this says nothing.
    pub(crate) known: Option<Stamps>,
    /// How long a file must have been left alone.
    pub(crate) settle: Duration,
    pub(crate) now_ms: i64,
}

impl Blueprint {
    fn variable(&self, name: &str) -> Option<String> {
        self.env.get(name).and_then(|value| value.to_str()).map(str::to_owned)
    }

    /// The rows of all layers, without the presets.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn rows(&self) -> Result<Composition, Vec<RowError>> {
        let env = |name: &str| self.variable(name);
        let references = References { env: &env, home: &self.home };
        compose(&self.source.layers()?, &self.catalog, &references)
    }

    /// The rows of an agent preset.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn preset(&self, name: &str) -> Result<Composition, Vec<RowError>> {
        let layer = self.source.preset(name)?;
        let env = |name: &str| self.variable(name);
        let references = References { env: &env, home: &self.home };
        let composition = compose_nested(layer, &self.catalog, &references)?;
        if composition.warnings.is_empty() {
            return Ok(composition);
        }
        // Rows of the process cannot be patched from here, so a patch that meets none is wrong.
        let own = |id: &str| composition.rows.iter().any(|row| row.id == id);
        let mut errors = Vec::new();
        for RowWarning(mut error) in composition.warnings {
            if !error.row.as_deref().is_some_and(own) {
                error.problem =
                    "an agent preset cannot change rows of the profile; write `[[insert]]` with a \
                     row of the same plugin, which takes the place of the other's contributions"
                        .to_owned();
            }
            errors.push(error);
        }
        Err(errors)
    }

    /// A preset that is broken is the business of those who use it, and keeps nothing else back.
    fn read(&self, names: &[String]) -> Result<Read, Vec<RowError>> {
        let composition = self.rows();
        let (mut presets, mut broken) = (BTreeMap::new(), BTreeMap::new());
        for name in names {
            match self.preset(name) {
                Ok(preset) => drop(presets.insert(name.clone(), preset)),
                Err(errors) => drop(broken.insert(name.clone(), errors)),
            }
        }
        match composition {
            Ok(composition) => Ok(Read { composition, presets, broken }),
            Err(errors) => Err(with_presets(errors, &broken)),
        }
    }

    /// The rows of all layers between two looks at the files that show the same, as far as others
    /// leave the files alone for so long; with whether they did.
    pub(crate) fn first(&self) -> Result<(Composition, Stamps, bool), Vec<RowError>> {
        let look = || Stamps::take(&*self.source, &[]);
        let mut before = look();
        let mut left = READS;
        loop {
            let rows = self.rows();
            let after = look();
            let calm = after.is_in(&before);
            left -= 1;
            if calm || left == 0 {
                return rows.map(|rows| (rows, after, calm));
            }
            before = after;
        }
    }

    /// Looks at the files; reads them when they changed and nobody seems to be writing them. Never
    /// answers with what changed while it was read.
    pub(crate) fn look(&self, glance: &Glance) -> Option<Found> {
        let look = || Stamps::take(&*self.source, &glance.presets);
        let stamps = look();
        let same = glance.known.as_ref().is_some_and(|known| stamps.is_in(known));
        if same || stamps.is_unsettled(glance.now_ms, glance.settle) {
            return None;
        }
        let read = self.read(&glance.presets);
        // Before the file system's clock has moved on, the next change could hide behind this one.
        let unsure = stamps.is_unsettled(glance.now_ms, GRAIN);
        stamps.is_in(&look()).then_some(Found { stamps, unsure, read })
    }

    pub(crate) fn root(&self) -> Root {
        let mut root = Root::default();
        // Nothing was given before, so nothing can be in its place.
        drop(root.give::<Env>(Arc::clone(&self.env)));
        root
    }
}

/// Errors, and those of presets behind them. What is wrong with all files is told once.
pub(crate) fn with_presets(
    mut errors: Vec<RowError>,
    broken: &BTreeMap<String, Vec<RowError>>,
) -> Vec<RowError> {
    for error in broken.values().flatten() {
        if !errors.contains(error) {
            errors.push(error.clone());
        }
    }
    errors
}
