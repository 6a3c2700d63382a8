//! What is wrong with settings that are not written yet.

use std::path::PathBuf;
use std::sync::Arc;

use reins_host::{Blueprint, Explain, Host, HostError, LayerSource, RowFacts, Stamp};
use reins_kernel::{Contribution, ContributionKind, Layer, RowError, RowErrorKind};

use crate::args::ComposeArgs;
use crate::exit::CliError;
use crate::layers::{Files, SETTINGS};
use crate::start::Start;

/// Checks texts as if they were `<home>/settings.toml`.
pub(super) struct Judge<'a> {
    pub(super) start: &'a Start,
    pub(super) args: &'a ComposeArgs,
}

/// The name of the layer that masks rows. Nobody hears of it.
const MASK: &str = "check";

/// Everything that was found wrong.
#[derive(Default)]
pub(super) struct Found {
    pub(super) errors: Vec<RowError>,
    /// Of presets that new sessions do not have by themselves.
    presets: Vec<RowError>,
    /// Whether the rows were well enough to be mounted, so that this was tried.
    mounted: bool,
    /// What new sessions have, when that is well.
    default_preset: Option<DefaultRows>,
    reloads: bool,
}

/// The rows in force with the default preset.
pub(super) struct DefaultRows {
    preset: String,
    rows: Vec<RowFacts>,
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
        layers.push(layer(MASK, None, self.masked.iter().map(mask).collect()));
        Ok(layers)
    }

    fn preset(&self, name: &str) -> Result<Layer, Vec<RowError>> {
        self.files.preset(name)
    }

    fn presets(&self) -> Result<Vec<String>, Vec<RowError>> {
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
            return Ok(Found { errors, ..Found::default() });
        }
        let mut judged = Found { mounted: true, ..Found::default() };
        let mut masked: Vec<String> = Vec::new();
        loop {
            let found = match Host::start(self.blueprint(text, &masked)?).await {
                Ok((host, _)) => {
                    if masked.is_empty() {
                        judged.hear(&host).await;
                    }
                    host.stop().await;
                    break;
                }
                Err(HostError::Rows(found)) => found,
                // What is missing may be a row that was left out.
                Err(other) if masked.is_empty() => of_host(other),
                Err(_) => break,
            };
            let rows: Vec<String> = found.iter().filter_map(|error| error.row.clone()).collect();
            // Rows that need what was left out are no errors of their own. Which of the others
            // need something was told before anything was mounted.
            let is_own = |error: &RowError| {
                let is_consequence = error.kind == RowErrorKind::NeedsService;
                masked.is_empty() || !(is_consequence || &*error.layer == MASK)
            };
            judged.errors.extend(found.into_iter().filter(is_own));
            let before = masked.len();
            masked.extend(rows);
            masked.sort();
            masked.dedup();
            if masked.len() == before {
                break;
            }
        }
        Ok(judged)
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

    /// Whether the change of one row makes nothing worse. A preset that is not the default may get
    /// worse: a tool that it names may be switched off.
    ///
    /// # Errors
    /// The inner one: what the change would make wrong.
    pub(super) async fn compare(
        &self,
        change: &Change<'_>,
    ) -> Result<Result<Left, Vec<RowError>>, CliError> {
        let after = self.judge(change.after).await?;
        let Found { default_preset, reloads, .. } = after;
        if after.errors.is_empty() && after.presets.is_empty() {
            return Ok(Ok(Left { default_preset, reloads, ..Left::default() }));
        }
        let before = self.judge(change.before).await?;
        let mended = !before.mounted && after.mounted;
        // What could not be seen before is only to blame on this change when it is about its row.
        let is_new = |error: &RowError| !mended || error.row.as_deref() == Some(change.row);
        let mut new = except(&after.errors, &before.errors);
        new.retain(is_new);
        // Rows that are left out because of others are not judged above.
        if !after.errors.is_empty() && new.is_empty() {
            let known = self.judge_alone(&change.alone_before, change.row).await?;
            let found = self.judge_alone(&change.alone_after, change.row).await?;
            new = except(&found, &known);
        }
        if !new.is_empty() {
            return Ok(Err(new));
        }
        let presets = except(&after.presets, &before.presets);
        Ok(Ok(Left { errors: after.errors, presets, default_preset, reloads }))
    }
}

impl Found {
    /// What presets say, and what new sessions have.
    async fn hear(&mut self, host: &Host) {
        self.errors.extend(host.check_defaults().await.err().map(of_host).into_iter().flatten());
        self.presets.extend(of_presets(host).await);
        if let Ok(explain) = host.explain(None).await {
            self.reloads = explain.reloads();
            self.default_preset = Some(DefaultRows::of(&explain));
        }
    }
}

impl DefaultRows {
    fn of(explain: &Explain) -> Self {
        Self { preset: explain.preset().to_owned(), rows: explain.rows() }
    }

    /// The preset and its row that takes the place of what this row of the settings brings, or
    /// would bring if it were on.
    pub(super) fn hides(&self, row: &str) -> Option<(&str, &str)> {
        let hidden =
            self.rows.iter().find(|facts| facts.preset.is_none() && facts.row.id == row)?;
        let takes_place = |own: &&RowFacts| {
            let same = |one: &Contribution| own.contributed.iter().any(|other| is_of(one, other));
            own.preset.is_some()
                && !own.row.disabled
                && match hidden.row.disabled {
                    true => own.plugin.name == hidden.plugin.name,
                    false => hidden.contributed.iter().any(same),
                }
        };
        let own = self.rows.iter().find(takes_place)?;
        Some((&self.preset, &own.row.id))
    }
}

/// Whether of two contributions only the nearer one is seen.
fn is_of(one: &Contribution, other: &Contribution) -> bool {
    let is_unique = matches!(one.kind, ContributionKind::Service | ContributionKind::Entry);
    is_unique && (one.kind, one.of, &one.name) == (other.kind, other.of, &other.name)
}

/// What is wrong though a change is made.
#[derive(Default)]
pub(super) struct Left {
    /// What was wrong before.
    pub(super) errors: Vec<RowError>,
    /// Presets that cannot be used any more.
    pub(super) presets: Vec<RowError>,
    /// What new sessions have, when that is well.
    pub(super) default_preset: Option<DefaultRows>,
    /// Whether a running Reins looks at the files.
    pub(super) reloads: bool,
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

async fn of_presets(host: &Host) -> Vec<RowError> {
    let names = match host.blueprint().source.presets() {
        Ok(names) => names,
        Err(errors) => return errors,
    };
    let mut errors = Vec::new();
    for name in names {
        errors.extend(host.preset(&name).await.err().map(of_host).into_iter().flatten());
    }
    errors
}

fn of_host(error: HostError) -> Vec<RowError> {
    if let HostError::Rows(errors) = error {
        return errors;
    }
    vec![RowError::new(error.to_string())]
}

/// Those of the errors that are not among the known ones, be these on another line.
fn except(errors: &[RowError], known: &[RowError]) -> Vec<RowError> {
    // What is said of a service names lines, which may be others now.
    let needs = |error: &RowError| error.kind == RowErrorKind::NeedsService;
    let is_same = |one: &RowError, other: &RowError| {
        one.is_same(other) || needs(one) && needs(other) && one.row == other.row
    };
    let is_new = |error: &&RowError| !known.iter().any(|known| is_same(known, error));
    errors.iter().filter(is_new).cloned().collect()
}
