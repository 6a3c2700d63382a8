use std::fmt;
use std::path::PathBuf;

/// One violated rule: where, which, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path below the workspace root.
    pub path: PathBuf,
    /// Line, counted from 1; 0 where the file as a whole is meant.
    pub line: usize,
    /// Short name of the rule.
    pub rule: &'static str,
    /// What was found and what to do.
    pub message: String,
}

impl Finding {
    pub(crate) fn new(
        path: impl Into<PathBuf>,
        line: usize,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), line, rule, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        let (rule, message) = (self.rule, &self.message);
        match self.line {
            0 => write!(f, "{path}: [{rule}] {message}"),
            line => write!(f, "{path}:{line}: [{rule}] {message}"),
        }
    }
}
