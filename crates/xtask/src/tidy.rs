use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::finding::Finding;
use crate::workspace::{self, read};
use crate::{layers, leaves, leftovers, limits, reach, words};

/// What a run of tidy looked at and found.
#[derive(Debug)]
pub struct Report {
    /// Violations, sorted by path and line; empty when all is well.
    pub findings: Vec<Finding>,
    /// Number of Rust files read.
    pub files: usize,
    /// Number of crates read.
    pub crates: usize,
}

/// Why tidy could not look at the repository at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TidyError {
    /// A file or folder could not be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// `cargo` could not be started.
    #[error("`cargo metadata` did not start: {0}; is cargo in PATH?")]
    Cargo(io::Error),
    /// `cargo metadata` ended with an error.
    #[error("`cargo metadata` refused the workspace: {0}")]
    Metadata(String),
    /// `cargo metadata` printed something else than JSON.
    #[error("`cargo metadata` printed no JSON: {0}")]
    Json(serde_json::Error),
    /// A key that every version of `cargo metadata` prints is absent.
    #[error("`cargo metadata` printed no usable `{key}`")]
    MetadataKey {
        /// The absent key.
        key: &'static str,
    },
}

/// Checks the workspace that contains `folder`.
///
/// # Errors
/// When `cargo metadata` or a file cannot be read; a violated rule is a finding, not an error.
pub fn tidy(folder: &Path) -> Result<Report, TidyError> {
    let mut findings = Vec::new();
    let workspace = workspace::load(&metadata(folder)?, &mut findings)?;
    let architecture = document(&workspace.root, "ARCHITECTURE.md", &mut findings)?;
    let glossary = document(&workspace.root, "GLOSSARY.md", &mut findings)?;

    layers::check(&workspace, &architecture, &mut findings);
    limits::check(&workspace, &architecture, &mut findings);
    leaves::check(&workspace, &mut findings)?;
    leftovers::check(&workspace, &mut findings);
    reach::check(&workspace, &mut findings);
    words::check(&workspace, &glossary, &mut findings);

    findings.sort();
    findings.dedup();
    let files = workspace.crates.iter().map(|each| each.sources.len()).sum();
    Ok(Report { findings, files, crates: workspace.crates.len() })
}

fn document(
    root: &Path,
    name: &'static str,
    findings: &mut Vec<Finding>,
) -> Result<String, TidyError> {
    let path = root.join(name);
    if path.is_file() {
        return read(&path);
    }
    findings.push(Finding::new(name, 0, "document", "is missing; tidy reads its rules there"));
    Ok(String::new())
}

#[expect(clippy::disallowed_methods, reason = "a development tool that asks cargo, not a product")]
fn metadata(folder: &Path) -> Result<Value, TidyError> {
    let output = Command::new("cargo")
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(folder)
        .output()
        .map_err(TidyError::Cargo)?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(TidyError::Metadata(words));
    }
    serde_json::from_slice(&output.stdout).map_err(TidyError::Json)
}

/// The lines of the fenced block of `document` whose info string is `name`, with their numbers.
pub(crate) fn fenced<'a>(document: &'a str, name: &str) -> Vec<(usize, &'a str)> {
    let lines = document.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines
        .skip_while(|(_, line)| line.strip_prefix("```").map(str::trim) != Some(name))
        .skip(1)
        .take_while(|(_, line)| !line.starts_with("```"))
        .filter(|(_, line)| !line.trim().is_empty())
        .collect()
}
