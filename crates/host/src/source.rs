//! Where the texts of layers come from.

use reins_kernel::{Layer, RowError};

/// The layers of a process. A front end implements it over its files and arguments.
pub trait LayerSource: Send + Sync {
    /// The layers as they are now, in the order in which they apply.
    ///
    /// # Errors
    /// Files that cannot be read, each named.
    fn layers(&self) -> Result<Vec<Layer>, Vec<RowError>>;

    /// The layer of an agent preset as it is now.
    ///
    /// # Errors
    /// There is none of this name, naming the nearest, or its file cannot be read.
    fn preset(&self, name: &str) -> Result<Layer, Vec<RowError>>;

    /// The names of all agent presets, sorted.
    fn presets(&self) -> Vec<String>;

    /// The present state of the files behind the layers. Quick: it is asked before every turn.
    fn stamp(&self) -> Stamp;

    /// The present state of the file of a preset. Quick.
    fn preset_stamp(&self, name: &str) -> Stamp;
}

/// The state of some files, without their contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Of each file what changes with its content; `None` = it cannot be looked at.
    pub files: Vec<Option<[i64; 5]>>,
    /// When one of them changed last, in milliseconds since 1970.
    pub newest_ms: Option<i64>,
}
