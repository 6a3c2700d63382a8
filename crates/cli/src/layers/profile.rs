//! Profiles: a list of bundles, and rows of their own.

use std::path::{Path, PathBuf};

use reins_kernel::{Layer, RowError, nearest};

use super::file::{
    Names, ReadFile, error, is_plain_name, names_in, read_of_home, unknown, unreadable,
};

/// Bundles that are part of the binary.
const BUNDLES: [(&str, &str); 2] = [
    ("base", include_str!("../../bundles/base.toml")),
    ("sdk", include_str!("../../bundles/sdk.toml")),
];

/// Profiles that are part of the binary: name and bundles. A file of the same name in the home
/// takes the place of one.
const PROFILES: [(&str, &[&str]); 2] = [("default", &["base"]), ("sdk", &["base", "sdk"])];

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
    let bundles = match (&own, PROFILES.iter().find(|(shipped, _)| *shipped == name)) {
        (Some(own), _) => listed(own)?,
        (None, Some((_, names))) => names.iter().filter_map(|name| bundle(name)).collect(),
        (None, None) => {
            return Err(vec![unknown("profile", name, &names(home)?, &file(home, name))]);
        }
    };
    Ok(bundles.into_iter().chain(added.map(added_layer)).chain(own).collect())
}

/// The layers of a shipped profile, whatever files there are.
pub(super) fn shipped_layers(name: &str, added: Option<&str>) -> Vec<Layer> {
    let names = PROFILES.iter().filter(|(shipped, _)| *shipped == name);
    let bundles = names.flat_map(|(_, names)| names.iter().filter_map(|name| bundle(name)));
    bundles.chain(added.map(added_layer)).collect()
}

fn added_layer(text: &str) -> Layer {
    shipped("this binary".to_owned(), text)
}

/// All profiles.
pub(super) fn names(home: &Path) -> Result<Names, Vec<RowError>> {
    names_in(home, &home.join("profiles"), PROFILES.iter().map(|(name, _)| *name))
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
    let Some((value, line)) = own.head_value("bundles") else {
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
    for (value, line) in values.iter().zip(own.head_lines("bundles")) {
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
