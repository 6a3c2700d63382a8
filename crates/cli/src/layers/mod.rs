//! The layers of a process: a profile's bundles and rows, the user's files, and presets.

mod ephemeral;
mod file;
mod preset;
mod profile;

use std::path::PathBuf;
use std::sync::OnceLock;

use reins_host::{LayerSource, Stamp};
use reins_kernel::{Layer, RowError};

pub(crate) use file::{Names, PLAIN_NAMES};
use file::{ReadFile, of_option, read, read_of_home, read_or_drain, stamp};
pub(crate) use file::{STDIN, from_stdin};
pub(crate) use profile::{DEFAULT as DEFAULT_PROFILE, description as profile_description};

/// Name of the layer of `<home>/settings.toml`.
pub(crate) const SETTINGS: &str = "your settings";

/// The shipped layers and the user's files: what every command of Reins runs with.
pub struct Files {
    home: PathBuf,
    /// Once it could be looked into.
    home_seen: OnceLock<()>,
    profile: String,
    patches: Vec<Patch>,
    /// What this binary adds, see [`Additions`](crate::Additions).
    added: Option<&'static str>,
    /// On top of all others; only this process has it.
    extra: Option<Layer>,
    /// Nothing of a session is kept.
    ephemeral: bool,
}

/// The layers of a shipped profile, whatever files there are.
pub(crate) fn shipped(profile: &str, added: Option<&str>) -> Vec<Layer> {
    profile::shipped_layers(profile, added)
}

/// The layers of the shipped agent presets.
pub(crate) fn shipped_presets() -> Vec<Layer> {
    preset::shipped().collect()
}

/// A `--patch FILE`.
struct Patch {
    path: PathBuf,
    /// What it was when it was read first.
    first: OnceLock<First>,
}

/// What a patch is for the rest of the process.
enum First {
    /// It can be read again and is watched.
    File,
    /// A pipe, which can be read once only.
    Pipe(String),
}

impl Files {
    /// The layers of `profile`, in this order: its bundles, `added` (what the binary brings along,
    /// see [`Additions`](crate::Additions)), its own rows, the settings of the home, the patches,
    /// `extra`. A patch `-` is standard input. Nothing is read yet.
    pub fn new(
        home: PathBuf,
        profile: String,
        patches: &[PathBuf],
        added: Option<&'static str>,
        extra: Option<Layer>,
    ) -> Self {
        let patch = |path: &PathBuf| Patch { path: of_option(path), first: OnceLock::new() };
        let patches = patches.iter().map(patch).collect();
        let home_seen = OnceLock::new();
        Self { home, home_seen, profile, patches, added, extra, ephemeral: false }
    }

    /// As they are, but sessions are kept in memory only.
    pub(crate) fn ephemeral(self, ephemeral: bool) -> Self {
        Self { ephemeral, ..self }
    }

    pub(crate) fn settings(&self) -> PathBuf {
        self.home.join("settings.toml")
    }

    /// The layers below the settings of the home.
    pub(crate) fn below_settings(&self) -> Result<Vec<Layer>, Vec<RowError>> {
        profile::layers(&self.home, &self.profile, self.added)
    }

    /// All profiles, those of the home and those that are shipped.
    ///
    /// # Errors
    /// The folder of profiles cannot be listed.
    pub(crate) fn profiles(&self) -> Result<Names, Vec<RowError>> {
        profile::names(&self.home)
    }

    /// All agent presets, those of the home and those that are shipped.
    ///
    /// # Errors
    /// The folder of presets cannot be listed.
    pub(crate) fn preset_names(&self) -> Result<Names, Vec<RowError>> {
        preset::names(&self.home)
    }

    /// A home that nobody can look into counts as one without files at the start only, when the
    /// store says what is wrong with it: what is in force would else become the defaults.
    fn check_home(&self) -> Result<(), Vec<RowError>> {
        match self.home.read_dir() {
            Ok(_) => {
                self.home_seen.get_or_init(|| ());
                Ok(())
            }
            Err(_) if self.home_seen.get().is_none() => Ok(()),
            Err(e) => Err(vec![file::lost_home(&self.home, &e)]),
        }
    }

    fn settings_layer(&self) -> Result<Option<Layer>, Vec<RowError>> {
        let path = self.settings();
        match read_of_home(&self.home, &path) {
            ReadFile::Text { text, .. } => {
                let name = SETTINGS.to_owned();
                Ok(Some(Layer { name, file: Some(path), text, head: &[] }))
            }
            ReadFile::Absent(_) => Ok(None),
            ReadFile::Unusable(flaw) => Err(vec![file::unreadable(SETTINGS, &path, flaw)]),
        }
    }

    fn patch(&self, patch: &Patch) -> Result<Layer, Vec<RowError>> {
        let name = format!("patch {}", patch.path.display());
        let layer = |text: &str| Layer {
            name: name.clone(),
            file: Some(patch.path.clone()),
            text: text.to_owned(),
            head: &[],
        };
        if let Some(First::Pipe(text)) = patch.first.get() {
            return Ok(layer(text));
        }
        // A pipe that takes the place of a file later may never be written to.
        let is_first = patch.first.get().is_none();
        match if is_first { read_or_drain(&patch.path) } else { read(&patch.path) } {
            ReadFile::Text { text, lasting } => {
                let layer = layer(&text);
                patch.first.get_or_init(|| if lasting { First::File } else { First::Pipe(text) });
                Ok(layer)
            }
            ReadFile::Absent(flaw) => Err(vec![file::absent_patch(&name, &patch.path, flaw)]),
            ReadFile::Unusable(flaw) => Err(vec![file::unreadable_patch(&name, &patch.path, flaw)]),
        }
    }
}

impl LayerSource for Files {
    fn layers(&self) -> Result<Vec<Layer>, Vec<RowError>> {
        self.check_home()?;
        let mut read: Vec<Result<Layer, Vec<RowError>>> = match self.below_settings() {
            Ok(layers) => layers.into_iter().map(Ok).collect(),
            Err(errors) => vec![Err(errors)],
        };
        read.extend(self.settings_layer().transpose());
        read.extend(self.patches.iter().map(|patch| self.patch(patch)));
        read.extend(self.extra.clone().map(Ok));
        if read.iter().all(Result::is_ok) {
            let mut layers: Vec<Layer> = read.into_iter().flatten().collect();
            let last = self.ephemeral.then(|| ephemeral::layer(&layers));
            layers.extend(last);
            return Ok(layers);
        }
        // What the others show by themselves is told along, so that nobody has to try again for it.
        let told = read.into_iter().map(|layer| layer.map_or_else(|e| e, |layer| layer.errors()));
        Err(told.flatten().collect())
    }

    fn preset(&self, name: &str) -> Result<Layer, Vec<RowError>> {
        self.check_home()?;
        preset::layer(&self.home, name)
    }

    fn presets(&self) -> Result<Vec<String>, Vec<RowError>> {
        Ok(self.preset_names()?.names)
    }

    fn stamp(&self) -> Stamp {
        let own = [profile::file(&self.home, &self.profile), self.settings()];
        let is_pipe = |patch: &&Patch| matches!(patch.first.get(), Some(First::Pipe(_)));
        let patches = self.patches.iter().filter(|patch| !is_pipe(patch));
        stamp(own.iter().chain(patches.map(|patch| &patch.path)))
    }

    fn preset_stamp(&self, name: &str) -> Stamp {
        stamp([preset::file(&self.home, name)].iter())
    }
}
