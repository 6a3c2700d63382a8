//! Glob patterns over paths.

use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use crate::fs::FsError;

/// Matches paths relative to a folder. `*` and `?` do not cross `/`.
pub(super) struct PathGlob {
    glob: GlobMatcher,
    /// Matched against the last name only.
    by_name: bool,
}

impl PathGlob {
    pub(super) fn matches(&self, relative: &Path) -> bool {
        if !self.by_name {
            return self.glob.is_match(relative);
        }
        relative.file_name().is_some_and(|name| self.glob.is_match(name))
    }
}

/// A pattern split into the folder that it begins with and the rest.
pub(super) struct Split {
    /// To be joined to the root; empty, absolute or relative, perhaps with `..`.
    pub(super) base: PathBuf,
    pub(super) rest: PathGlob,
}

/// A pattern without `/` means names at any depth.
pub(super) fn compile(pattern: &str) -> Result<PathGlob, FsError> {
    let relative = without_dot(pattern);
    build(pattern, relative, !relative.contains('/'))
}

/// Like [`compile`], with the leading names that hold no wildcard taken off, so that only their
/// folder is walked and absolute patterns and `..` work. `a/` means all below `a`.
pub(super) fn split(pattern: &str) -> Result<Split, FsError> {
    let relative = without_dot(pattern);
    let all_below = relative.ends_with('/');
    let whole = if all_below { format!("{relative}**") } else { relative.to_owned() };
    let Some(plain) = literal_folder(&whole) else {
        return Ok(Split { base: PathBuf::new(), rest: compile(pattern)? });
    };
    let (base, rest) = whole.split_at(plain);
    Ok(Split { base: PathBuf::from(base), rest: build(pattern, rest, false)? })
}

fn without_dot(pattern: &str) -> &str {
    let mut rest = pattern;
    while let Some(shorter) = rest.strip_prefix("./") {
        rest = shorter;
    }
    rest
}

/// Bytes up to and with the last `/` before the first wildcard; `None` without any `/` at all.
fn literal_folder(pattern: &str) -> Option<usize> {
    pattern.find('/')?;
    let wild = pattern.find(['*', '?', '[', ']', '{', '}', '\\']).unwrap_or(pattern.len());
    Some(pattern[..wild].rfind('/').map_or(0, |slash| slash + 1))
}

fn build(given: &str, pattern: &str, by_name: bool) -> Result<PathGlob, FsError> {
    let refused = |problem: String| FsError::Pattern { pattern: given.to_owned(), problem };
    if pattern.trim().is_empty() {
        return Err(refused("it is empty".to_owned()));
    }
    let built = GlobBuilder::new(pattern).literal_separator(true).build();
    let glob = built.map_err(|error| refused(error.kind().to_string()))?.compile_matcher();
    Ok(PathGlob { glob, by_name })
}

/// The folders in which version control systems keep their own files.
pub(super) fn is_version_control(name: &std::ffi::OsStr) -> bool {
    [".git", ".hg", ".svn", ".jj", ".bzr", ".sl"].iter().any(|own| name == *own)
}

pub(super) fn in_version_control(path: &Path) -> bool {
    path.components().any(|part| match part {
        Component::Normal(name) => is_version_control(name),
        _ => false,
    })
}
