//! Where the texts of layers come from.

use std::collections::BTreeMap;
use std::time::Duration;

use reins_kernel::{Layer, RowError};

/// The layers of a process. A front end implements it over its files and arguments. It is asked on
/// threads that may wait for a file system.
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
    ///
    /// # Errors
    /// The folder of presets cannot be listed.
    fn presets(&self) -> Result<Vec<String>, Vec<RowError>>;

    /// The present state of the files behind the layers. Quick: it is asked before every turn.
    fn stamp(&self) -> Stamp;

    /// The present state of the file of a preset. Quick.
    fn preset_stamp(&self, name: &str) -> Stamp;
}

/// The state of some files, without their contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Of each name that was looked at what changes with what is there; `None` = nothing is there.
    pub files: Vec<Option<[i64; 5]>>,
    /// When one of them changed or went away last, in milliseconds since 1970, as the file system
    /// says and nobody can set it.
    pub newest_ms: Option<i64>,
}

impl Stamp {
    /// Whether somebody may be writing one of the files at this moment.
    pub(crate) fn is_unsettled(&self, now_ms: i64, settle: Duration) -> bool {
        let settle_ms = i64::try_from(settle.as_millis()).unwrap_or(i64::MAX);
        // A time in the future says nothing about this moment.
        self.newest_ms.is_some_and(|ms| ms <= now_ms && now_ms - ms < settle_ms)
    }
}

/// What the files of the layers and of some presets were like.
#[derive(Clone, Default)]
pub(crate) struct Stamps {
    pub(crate) layers: Stamp,
    pub(crate) presets: BTreeMap<String, Stamp>,
}

impl Stamps {
    pub(crate) fn take(source: &dyn LayerSource, presets: &[String]) -> Self {
        let presets = presets.iter().map(|name| (name.clone(), source.preset_stamp(name)));
        Self { layers: source.stamp(), presets: presets.collect() }
    }

    /// Whether nothing of this is different in `other`, which may hold more presets.
    pub(crate) fn is_in(&self, other: &Self) -> bool {
        let same = |(name, stamp): (&String, &Stamp)| {
            other.presets.get(name).is_some_and(|known| known.files == stamp.files)
        };
        self.layers.files == other.layers.files && self.presets.iter().all(same)
    }

    pub(crate) fn is_unsettled(&self, now_ms: i64, settle: Duration) -> bool {
        let mut all = std::iter::once(&self.layers).chain(self.presets.values());
        all.any(|stamp| stamp.is_unsettled(now_ms, settle))
    }
}
