//! Which variables children get.

use std::ffi::{OsStr, OsString};

use crate::env::Env;

/// Wherever they stand in a name, in whatever case.
const SECRET_PARTS: [&str; 9] = [
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "BEARER",
    "COOKIE",
];

/// As the last of the words between underscores.
const SECRET_ENDS: [&str; 3] = ["PWD", "PAT", "AUTH"];

pub(super) fn for_children(env: &Env, pass: &[String]) -> Vec<(OsString, OsString)> {
    let passed = |name: &OsStr| pass.iter().any(|listed| name == listed.as_str());
    let goes = |name: &OsStr, value: &OsStr| {
        let secret = is_withheld(name)
            || env.is_withheld(name)
            || (holds_password(value) && !is_proxy(name));
        passed(name) || !secret
    };
    // Git refuses to run when its counted list has a gap: all of it goes, or none.
    let git_list = env.iter().all(|(name, value)| !is_git_list(name) || goes(name, value));
    env.iter()
        .filter(|(name, value)| goes(name, value) && (git_list || !is_git_list(name)))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Without them, programs behind a proxy wait for the network in vain.
fn is_proxy(name: &OsStr) -> bool {
    name.to_string_lossy().to_ascii_lowercase().ends_with("_proxy")
}

fn is_git_list(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with("GIT_CONFIG_")
}

fn is_withheld(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    let last = name.rsplit('_').next().unwrap_or_default();
    name.starts_with("REINS_")
        || (!name.starts_with("GIT_CONFIG_KEY_")
            && SECRET_PARTS.iter().any(|part| name.contains(part)))
        // The shell's own, which is where it works.
        || (name != "PWD" && SECRET_ENDS.contains(&last))
        || name.split('_').any(|word| word == "JWT")
}

/// Whether there is an address with a password, `://user:password@`.
fn holds_password(value: &OsStr) -> bool {
    let value = value.to_string_lossy();
    value.split("://").skip(1).any(|rest| {
        let host_end = |c: char| matches!(c, '/' | '?' | '#') || c.is_whitespace();
        let authority = rest.split(host_end).next().unwrap_or_default();
        let user = authority.rsplit_once('@').map(|(user, _)| user);
        user.and_then(|user| user.split_once(':')).is_some_and(|(_, password)| !password.is_empty())
    })
}
