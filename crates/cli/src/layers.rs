//! The layers of a profile: bundles in the binary, then the user's files.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use reins_kernel::{Layer, MAX_LAYER_BYTES};

use crate::exit::CliError;

/// Bundles that are part of the binary.
const BUNDLES: [(&str, &str); 1] = [("base", include_str!("../bundles/base.toml"))];

/// Profiles that are part of the binary: name and bundles.
const PROFILES: [(&str, &[&str]); 1] = [("default", &["base"])];

/// All layers in the order in which they apply.
pub(crate) fn layers(
    profile: &str,
    home: &Path,
    patches: &[PathBuf],
    added: Option<&str>,
) -> Result<Vec<Layer>, CliError> {
    let mut layers = below_settings(profile, added)?;
    let settings = settings_file(home);
    match open_settings(&settings).and_then(read_layer) {
        Ok(text) => layers.push(settings_layer(settings, text)),
        // The home itself may be missing or unusable; the store says so in its own words.
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::InvalidFilename
            ) =>
        {
            if let Ok(target) = settings.read_link() {
                let link = format!("a link to `{}`, which does not exist", target.display());
                return Err(unreadable(&settings, &link));
            }
        }
        Err(e) if e.kind() == ErrorKind::PermissionDenied && home.read_dir().is_err() => {}
        Err(e) => return Err(unreadable(&settings, &e)),
    }
    for patch in patches {
        let text = File::open(patch).and_then(read_layer).map_err(|e| unreadable(patch, &e))?;
        let name = format!("patch {}", patch.display());
        layers.push(Layer { name, file: Some(patch.clone()), head: &[], text });
    }
    Ok(layers)
}

/// The layers that the user's settings change.
pub(crate) fn below_settings(profile: &str, added: Option<&str>) -> Result<Vec<Layer>, CliError> {
    let mut layers = bundles(profile)?;
    layers.extend(added.map(|text| Layer {
        name: "added by this binary".to_owned(),
        file: None,
        head: &[],
        text: text.to_owned(),
    }));
    Ok(layers)
}

/// Where the user's settings are, or would be.
pub(crate) fn settings_file(home: &Path) -> PathBuf {
    home.join("settings.toml")
}

/// The user's settings as a layer.
pub(crate) fn settings_layer(file: PathBuf, text: String) -> Layer {
    Layer { name: "home settings".to_owned(), file: Some(file), head: &[], text }
}

fn bundles(profile: &str) -> Result<Vec<Layer>, CliError> {
    let (_, names) = PROFILES.iter().find(|(name, _)| *name == profile).ok_or_else(|| {
        let known: Vec<&str> = PROFILES.iter().map(|(name, _)| *name).collect();
        CliError::config(format!(
            "there is no profile `{profile}`; known are: {}",
            known.join(", ")
        ))
    })?;
    let chosen = BUNDLES.iter().filter(|(name, _)| names.contains(name));
    let layers = chosen.map(|(name, text)| Layer {
        name: format!("bundle {name}"),
        file: None,
        head: &[],
        text: (*text).to_owned(),
    });
    Ok(layers.collect())
}

/// Not what may never end, and without waiting for somebody who writes.
fn open_settings(path: &Path) -> std::io::Result<File> {
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(nonblocking).open(path)?;
    let kind = file.metadata()?.file_type();
    // Reading a directory gives the system's own words.
    if kind.is_file() || kind.is_dir() {
        Ok(file)
    } else {
        Err(std::io::Error::other("not a regular file"))
    }
}

fn read_layer(file: File) -> std::io::Result<String> {
    let limit = MAX_LAYER_BYTES as u64 + 1;
    let mut text = String::new();
    file.take(limit).read_to_string(&mut text)?;
    Ok(text)
}

fn unreadable(path: &Path, error: &dyn std::fmt::Display) -> CliError {
    CliError::config(format!("{}: {error}", path.display()))
        .with_hint("correct or remove the file, or leave the option out")
}
