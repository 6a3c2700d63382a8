//! The environment as a value.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Values below this many bytes are too common to tell a secret by.
const SHORTEST_SECRET: usize = 8;

/// The variables of the process, read once by whoever has them and handed down as a service.
/// Clones share which of them are withheld from children.
#[derive(Clone, Default)]
pub struct Env {
    variables: BTreeMap<OsString, OsString>,
    withheld: Arc<Mutex<BTreeSet<OsString>>>,
}

impl Env {
    /// The value of a variable.
    pub fn get(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.variables.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// All variables, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// Marks a variable as a secret, whatever its name.
    pub fn withhold(&self, name: impl Into<OsString>) {
        self.withheld.lock().unwrap_or_else(PoisonError::into_inner).insert(name.into());
    }

    /// Marks every variable that holds this value as a secret. A value of less than 8 bytes marks
    /// none.
    pub fn withhold_value(&self, value: &str) {
        if value.len() < SHORTEST_SECRET {
            return;
        }
        for (name, _) in self.iter().filter(|(_, held)| *held == value) {
            self.withhold(name);
        }
    }

    /// Whether a variable was marked.
    pub fn is_withheld(&self, name: &OsStr) -> bool {
        self.withheld.lock().unwrap_or_else(PoisonError::into_inner).contains(name)
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Env {
    /// Of two values for a name the last one counts.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(variables: I) -> Self {
        let variables =
            variables.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { variables, withheld: Arc::default() }
    }
}

impl fmt::Debug for Env {
    /// Names only: values may be keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}
