//! What is wrong with settings that are not written yet.

use std::path::PathBuf;
use std::sync::Arc;

use reins_host::{Blueprint, Host, HostError, LayerSource, Stamp};
use reins_kernel::{Layer, RowError};

use crate::args::ComposeArgs;
use crate::exit::CliError;
use crate::layers::{Files, SETTINGS};
use crate::start::Start;

/// Checks texts as if they were `<home>/settings.toml`.
pub(super) struct Judge<'a> {
    pub(super) start: &'a Start,
    pub(super) args: &'a ComposeArgs,
}

/// Everything that was found wrong.
pub(super) struct Found {
    pub(super) errors: Vec<RowError>,
    /// Whether the rows were well enough to be mounted, so that this was tried.
    mounted: bool,
}

/// The layers with another text of the settings.
struct Proposed {
    files: Files,
    text: String,
    /// Rows that are not mounted.
    masked: Vec<String>,
}

impl LayerSource for Proposed {
    fn layers(&self) -> Result<Vec<Layer>, Vec<RowError>> {
        let mut layers = self.files.below_settings()?;
        layers.push(layer(SETTINGS, Some(self.files.settings()), self.text.clone()));
        let mask = |id: &String| format!("[[row]]\nid = {}\ndisabled = true\n", quoted(id));
        layers.push(layer("check", None, self.masked.iter().map(mask).collect()));
        Ok(layers)
    }

    fn preset(&self, name: &str) -> Result<Layer, Vec<RowError>> {
        self.files.preset(name)
    }

    fn presets(&self) -> Vec<String> {
        self.files.presets()
    }

    // The files are read once, so nobody asks whether they changed.
    fn stamp(&self) -> Stamp {
        Stamp::default()
    }

    fn preset_stamp(&self, _: &str) -> Stamp {
        Stamp::default()
    }
}

fn layer(name: &str, file: Option<PathBuf>, text: String) -> Layer {
    Layer { name: name.to_owned(), file, text, head: &[] }
}

/// As a string of TOML.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

impl Judge<'_> {
    fn blueprint(&self, text: &str, masked: &[String]) -> Result<Blueprint, CliError> {
        let files = self.start.files(self.args, None);
        let source = Proposed { files, text: text.to_owned(), masked: masked.to_vec() };
        Ok(Blueprint { source: Arc::new(source), ..self.start.blueprint(self.args, None)? })
    }

    /// Everything that is wrong with this text: what rows and presets say when they are mounted,
    /// too. A row that cannot be mounted hides others, so it is left out and the rest is tried
    /// again.
    pub(super) async fn judge(&self, text: &str) -> Result<Found, CliError> {
        if let Err(errors) = self.blueprint(text, &[])?.rows() {
            return Ok(Found { errors, mounted: false });
        }
        let mut errors = Vec::new();
        let mut masked: Vec<String> = Vec::new();
        loop {
            let found = match Host::start(self.blueprint(text, &masked)?).await {
                Ok((host, _)) => {
                    if masked.is_empty() {
                        errors.extend(of_defaults(&host).await);
                    }
                    host.stop().await;
                    break;
                }
                Err(HostError::Rows(found)) => found,
                // What is missing may be a row that was left out.
                Err(other) if masked.is_empty() => vec![plain(&other)],
                Err(_) => break,
            };
            let rows: Vec<String> = found.iter().filter_map(|error| error.row.clone()).collect();
            // Rows that need what was left out are no errors of their own.
            let is_own =
                |error: &RowError| masked.is_empty() || !error.problem.starts_with("needs service");
            errors.extend(found.into_iter().filter(is_own));
            let before = masked.len();
            masked.extend(rows);
            masked.sort();
            masked.dedup();
            if masked.len() == before {
                break;
            }
        }
        Ok(Found { errors, mounted: true })
    }

    /// What is wrong with one row, whose settings this text holds and nothing else. Whether other
    /// rows are there that it needs is not looked at.
    async fn judge_alone(&self, text: &str, row: &str) -> Result<Vec<RowError>, CliError> {
        let blueprint = self.blueprint(text, &[])?;
        let mut errors = match blueprint.rows() {
            Err(errors) => errors,
            Ok(_) => match Host::start(blueprint).await {
                Ok((host, _)) => {
                    host.stop().await;
                    Vec::new()
                }
                Err(HostError::Rows(errors)) => errors,
                Err(_) => Vec::new(),
            },
        };
        errors.retain(|error| error.row.as_deref() == Some(row) && error.field.is_some());
        Ok(errors)
    }

    /// Whether the change of one row makes nothing worse.
    ///
    /// # Errors
    /// The inner one: what the change would make wrong. The inner answer is what was wrong before
    /// and still is.
    pub(super) async fn compare(
        &self,
        change: &Change<'_>,
    ) -> Result<Result<Vec<RowError>, Vec<RowError>>, CliError> {
        let after = self.judge(change.after).await?;
        if after.errors.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let before = self.judge(change.before).await?;
        let mended = !before.mounted && after.mounted;
        let mut new: Vec<RowError> = Vec::new();
        for error in &after.errors {
            // What could not be seen before is only to blame on this change when it is about the
            // changed row.
            let is_known = before.errors.iter().any(|known| is_same(known, error))
                || (mended && error.row.as_deref() != Some(change.row));
            if !is_known {
                new.push(error.clone());
            }
        }
        if !after.mounted && new.is_empty() {
            let known = self.judge_alone(&change.alone_before, change.row).await?;
            let found = self.judge_alone(&change.alone_after, change.row).await?;
            new.extend(found.into_iter().filter(|e| !known.iter().any(|k| is_same(k, e))));
        }
        Ok(if new.is_empty() { Ok(after.errors) } else { Err(new) })
    }
}

/// A change of one row.
pub(super) struct Change<'a> {
    pub(super) row: &'a str,
    pub(super) before: &'a str,
    pub(super) after: &'a str,
    /// Settings that hold nothing but the row, as it was and as it will be.
    pub(super) alone_before: String,
    pub(super) alone_after: String,
}

/// What new sessions would meet.
async fn of_defaults(host: &Host) -> Vec<RowError> {
    let mut errors = Vec::new();
    for name in host.blueprint().source.presets() {
        match host.preset(&name).await {
            Ok(_) => {}
            Err(HostError::Rows(found)) => errors.extend(found),
            Err(other) => errors.push(plain(&other)),
        }
    }
    if errors.is_empty()
        && let Err(error) = host.check_defaults().await
    {
        errors.push(plain(&error));
    }
    errors
}

fn plain(error: &HostError) -> RowError {
    RowError {
        layer: "".into(),
        file: None,
        line: 0,
        row: None,
        field: None,
        problem: error.to_string(),
        suggestion: None,
    }
}

/// The same thing, be it on another line now.
fn is_same(one: &RowError, other: &RowError) -> bool {
    let parts = |error: &RowError| RowError { line: 0, ..error.clone() };
    parts(one) == parts(other)
}
