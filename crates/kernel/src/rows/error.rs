//! What is wrong with a configuration, and where.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::Origin;
use crate::origin::place;

/// One thing that is wrong. Its text is
/// ``<file>:<line>: row `<id>`, field `<path>`: <problem>; did you mean `<x>`?``, with the
/// layer's name in place of a file that is not there, and without what is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowError {
    /// Name of the layer; empty when no layer is to blame.
    pub layer: Arc<str>,
    /// The layer's file, when it has one.
    pub file: Option<Arc<Path>>,
    /// One-based line; 0 when not known.
    pub line: u32,
    /// Id of the row.
    pub row: Option<String>,
    /// Path of the field, for example `config.retry.codes[2]`.
    pub field: Option<String>,
    /// What is wrong, and where it helps what to do.
    pub problem: String,
    /// The nearest known name.
    pub suggestion: Option<String>,
    /// What sort of thing is wrong.
    pub kind: RowErrorKind,
}

/// The sorts of [`RowError`] that are handled differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowErrorKind {
    /// A service that a row needs is not there.
    NeedsService,
    /// A field is left out that the table around it needs.
    Missing,
    /// A field of the `config` holds a value of another type than it takes.
    WrongType,
    /// Anything else.
    #[default]
    Other,
}

/// One thing that has no effect, and was probably meant to. Same text as [`RowError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowWarning(pub RowError);

/// Errors that are told at once; nobody reads more.
const MAX_LINES: usize = 100;

impl RowError {
    /// One that blames no place.
    pub fn new(problem: String) -> Self {
        Self { problem, ..Self::default() }
    }

    /// One of the row of an origin, where that was written.
    pub fn at(origin: &Origin, problem: String) -> Self {
        Self {
            layer: origin.layer.clone(),
            file: origin.file.clone(),
            line: origin.line,
            row: Some((*origin.row).to_owned()),
            ..Self::new(problem)
        }
    }

    /// Errors for people, one a line; of very many the first hundred.
    pub fn lines(errors: &[Self]) -> String {
        let mut lines: Vec<String> =
            errors.iter().take(MAX_LINES).map(ToString::to_string).collect();
        if errors.len() > MAX_LINES {
            lines.push(format!("and {} more", errors.len() - MAX_LINES));
        }
        lines.join("\n")
    }

    /// Whether the other says the same, be it on another line.
    pub fn is_same(&self, other: &Self) -> bool {
        let line = other.line;
        Self { line, ..self.clone() } == *other
    }
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = place(&self.layer, self.file.as_deref(), self.line);
        if !place.is_empty() {
            write!(f, "{place}: ")?;
        }
        match (&self.row, &self.field) {
            (Some(row), Some(field)) => write!(f, "row `{row}`, field `{field}`: ")?,
            (Some(row), None) => write!(f, "row `{row}`: ")?,
            (None, Some(field)) => write!(f, "field `{field}`: ")?,
            (None, None) => {}
        }
        f.write_str(&self.problem)?;
        match &self.suggestion {
            Some(name) => write!(f, "; did you mean `{name}`?"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for RowError {}

impl fmt::Display for RowWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
