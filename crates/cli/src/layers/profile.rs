//! Profiles: a list of bundles, and rows of their own.

use std::path::{Path, PathBuf};

use reins_kernel::{HeadValue, Layer, RowError, nearest};

use super::file::{
    Names, ReadFile, error, is_plain_name, names_in, read_of_home, unknown, unreadable,
};

/// Bundles that are part of the binary.
const BUNDLES: [(&str, &str); 2] = [
    ("base", include_str!("../../bundles/base.toml")),
    ("sdk", include_str!("../../bundles/sdk.toml")),
];

/// A profile that is part of the binary. A file of the same name in the home takes its place.
struct Profile {
    name: &'static str,
    bundles: &'static [&'static str],
    description: &'static str,
}

const PROFILES: [Profile; 2] = [
    Profile { name: DEFAULT, bundles: &["base"], description: "For people at a terminal." },
    Profile {
        name: "sdk",
        bundles: &["base", "sdk"],
        description: "For programs: prompts are taken literally, files are read at the start only.",
    },
];

/// The profile of a run that names none.
pub(crate) const DEFAULT: &str = "default";

/// The key of a profile's file that lists its bundles.
const HEAD: &[&str] = &["bundles"];

/// Where a profile of the user is.
pub(super) fn file(home: &Path, name: &str) -> PathBuf {
    home.join("profiles").join(format!("{name}.toml"))
}

/// The layers of a profile: its bundles, what the binary adds, its own rows.
pub(super) fn layers(
    home: &Path,
    name: &str,
    added: Option<&str>,
) -> Result<Vec<Layer>, Vec<RowError>> {
    let own = own_layer(home, name)?;
    let bundles = match (&own, of_binary(name)) {
        (Some(own), _) => listed(own)?,
        (None, Some(profile)) => profile.layers(),
        (None, None) => {
            return Err(vec![unknown("profile", name, &names(home)?, &file(home, name))]);
        }
    };
    Ok(bundles.into_iter().chain(added.map(added_layer)).chain(own).collect())
}

/// The layers of a shipped profile, whatever files there are.
pub(super) fn shipped_layers(name: &str, added: Option<&str>) -> Vec<Layer> {
    let bundles = of_binary(name).map(Profile::layers).unwrap_or_default();
    bundles.into_iter().chain(added.map(added_layer)).collect()
}

/// What a shipped profile is for, in a sentence.
pub(crate) fn description(name: &str) -> Option<&'static str> {
    of_binary(name).map(|profile| profile.description)
}

fn of_binary(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

impl Profile {
    fn layers(&self) -> Vec<Layer> {
        self.bundles.iter().filter_map(|name| bundle(name)).collect()
    }
}

fn added_layer(text: &str) -> Layer {
    shipped("this binary".to_owned(), text)
}

/// All profiles.
pub(super) fn names(home: &Path) -> Result<Names, Vec<RowError>> {
    names_in(home, &home.join("profiles"), PROFILES.iter().map(|profile| profile.name))
}

/// The profile's own file, when there is one.
fn own_layer(home: &Path, name: &str) -> Result<Option<Layer>, Vec<RowError>> {
    if !is_plain_name(name) {
        return Ok(None);
    }
    let (path, layer) = (file(home, name), format!("profile {name}"));
    match read_of_home(home, &path) {
        ReadFile::Text { text, .. } => {
            Ok(Some(Layer { name: layer, file: Some(path), text, head: HEAD }))
        }
        ReadFile::Absent(_) => Ok(None),
        ReadFile::Unusable(flaw) => Err(vec![unreadable(&layer, &path, flaw)]),
    }
}

/// The bundles that a profile's file lists.
fn listed(own: &Layer) -> Result<Vec<Layer>, Vec<RowError>> {
    let names: Vec<&str> = BUNDLES.iter().map(|(name, _)| *name).collect();
    let known = names.join("`, `");
    let wrong = |line: u32, problem: String| {
        let mut error = error(&own.name, own.file.as_deref(), line, problem);
        error.field = Some("bundles".to_owned());
        error
    };
    let form = format!("write `bundles = [\"base\"]`; bundles are `{known}`");
    let Some(HeadValue { value, line, entry_lines }) = own.head_value("bundles") else {
        // What is wrong with the text, a misspelt or misplaced `bundles` too, is reported when its
        // rows are read.
        if own.errors().is_empty() {
            return Err(vec![wrong(1, format!("is required: {form}"))]);
        }
        return Ok(Vec::new());
    };
    let Some(values) = value.as_array() else {
        return Err(vec![wrong(line, format!("must be a list: {form}"))]);
    };
    let (mut layers, mut errors): (Vec<Layer>, Vec<RowError>) = Default::default();
    for (value, line) in values.iter().zip(entry_lines) {
        match value.as_str() {
            None => errors.push(wrong(line, format!("must hold names: {form}"))),
            Some(name) if layers.iter().any(|layer| layer.name == format!("bundle {name}")) => {
                let problem = format!("bundle `{name}` is listed twice; keep one");
                errors.push(wrong(line, problem));
            }
            Some(name) => match bundle(name) {
                Some(layer) => layers.push(layer),
                None => {
                    let problem = format!("there is no bundle `{name}`; bundles are `{known}`");
                    let mut error = wrong(line, problem);
                    error.suggestion = nearest(name, names.iter().copied()).map(str::to_owned);
                    errors.push(error);
                }
            },
        }
    }
    if errors.is_empty() { Ok(layers) } else { Err(errors) }
}

fn bundle(name: &str) -> Option<Layer> {
    let (_, text) = BUNDLES.iter().find(|(bundle, _)| *bundle == name)?;
    Some(shipped(format!("bundle {name}"), text))
}

fn shipped(name: String, text: &str) -> Layer {
    Layer { name, file: None, text: text.to_owned(), head: &[] }
}
