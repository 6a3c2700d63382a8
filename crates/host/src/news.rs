//! What is told of files that change.

use reins_kernel::{RowChange, RowError, RowWarning};

/// What became of a change of the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReloadNews {
    /// Another generation serves.
    Changed {
        /// Its number.
        generation: u64,
        /// The rows that differ; empty when only rows differ that wait.
        changes: Vec<RowChange>,
        /// All changes that wait until the process starts again.
        waiting: Vec<RowWarning>,
        /// What has no effect and was probably meant to, and why no new session could be made with
        /// the defaults, as far as it was not told before.
        warnings: Vec<RowWarning>,
        /// Presets in use are broken, as was told or is told next; their last good rows serve.
        broken: bool,
    },
    /// The rows are what they were, and this new part of the files has no effect.
    Warned(Vec<RowWarning>),
    /// The last good generation goes on, or the last good rows of a preset in use that is broken
    /// alone. Told once for the same errors, be they on other lines.
    Broken(Vec<RowError>),
    /// What was broken is again what serves.
    Mended,
}

/// Those of `now` that are not in `before`, wherever in their files they stand.
pub(crate) fn fresh(before: &[RowWarning], now: &[RowWarning]) -> Vec<RowWarning> {
    let known = |warning: &&RowWarning| before.iter().any(|old| old.0.is_same(&warning.0));
    now.iter().filter(|warning| !known(warning)).cloned().collect()
}

/// Whether both say the same in the same order, wherever in their files.
pub(crate) fn are_same(before: &[RowError], now: &[RowError]) -> bool {
    before.len() == now.len() && before.iter().zip(now).all(|(before, now)| before.is_same(now))
}
