//! Which variables children get.

use std::ffi::{OsStr, OsString};

use crate::env::Env;

/// Wherever they stand in a name, in whatever case.
const SECRET_WORDS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"];

pub(super) fn for_children(env: &Env, pass: &[String]) -> Vec<(OsString, OsString)> {
    let passed = |name: &OsStr| pass.iter().any(|listed| name == listed.as_str());
    env.iter()
        .filter(|(name, _)| passed(name) || !(is_withheld(name) || env.is_withheld(name)))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn is_withheld(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    name.starts_with("REINS_") || SECRET_WORDS.iter().any(|word| name.contains(word))
}
