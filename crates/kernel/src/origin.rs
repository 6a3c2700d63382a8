//! Where a contribution comes from.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The place that put something there: a row of a layer, or running code on behalf of one.
/// Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Name of the layer, for example `base` or `your settings`.
    pub layer: Arc<str>,
    /// The layer's file, when it has one.
    pub file: Option<Arc<Path>>,
    /// One-based line in the layer's text; 0 when there is none.
    pub line: u32,
    /// Id of the row.
    pub row: Arc<str>,
    /// Place of the row in the composition. Ties in a chain's `order` are resolved by it.
    pub rank: u32,
}

impl Origin {
    /// An origin for contributions made by running code that no row configured. It ranks after
    /// every row.
    pub fn runtime(row: &str) -> Self {
        Self { layer: "runtime".into(), file: None, line: 0, row: row.into(), rank: u32::MAX }
    }

    /// `file:line`, or the layer's name in place of the file.
    pub fn place(&self) -> String {
        place(&self.layer, self.file.as_deref(), self.line)
    }

    /// Layer and place: `bundle base:12`, `your settings, /h/settings.toml:3`, and `patch p.toml:1`
    /// of a layer that is called by its file.
    pub fn layer_and_place(&self) -> String {
        match &self.file {
            Some(file) if self.layer.ends_with(&*file.to_string_lossy()) => {
                place(&self.layer, None, self.line)
            }
            Some(_) => format!("{}, {}", self.layer, self.place()),
            None => self.place(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row `{}` ({})", self.row, self.place())
    }
}

pub(crate) fn place(layer: &str, file: Option<&Path>, line: u32) -> String {
    let name = file.map_or_else(|| layer.to_owned(), |file| file.display().to_string());
    if line == 0 { name } else { format!("{name}:{line}") }
}
