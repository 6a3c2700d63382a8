//! Agent presets: rows for some agents only.

use std::path::{Path, PathBuf};

use reins_kernel::{HeadValue, Layer, RowError};

use super::file::{
    Names, ReadFile, error, is_plain_name, names_in, read_of_home, unknown, unreadable,
};

/// Presets that are part of the binary. A file of the same name in the home takes the place of one.
const PRESETS: [(&str, &str); 2] = [
    ("minimal", include_str!("../../presets/minimal.toml")),
    ("standard", include_str!("../../presets/standard.toml")),
];

/// Keys of a preset's file besides rows.
const HEAD: &[&str] = &["description"];

/// Where a preset of the user is.
pub(super) fn file(home: &Path, name: &str) -> PathBuf {
    home.join("presets").join(format!("{name}.toml"))
}

/// All presets.
pub(super) fn names(home: &Path) -> Result<Names, Vec<RowError>> {
    names_in(home, &home.join("presets"), PRESETS.iter().map(|(name, _)| *name))
}

/// The layers of the shipped presets.
pub(super) fn shipped() -> impl Iterator<Item = Layer> {
    PRESETS.iter().map(|(name, text)| Layer {
        name: format!("preset {name}"),
        file: None,
        text: (*text).to_owned(),
        head: HEAD,
    })
}

/// The layer of a preset.
pub(super) fn layer(home: &Path, name: &str) -> Result<Layer, Vec<RowError>> {
    let layer = format!("preset {name}");
    let shipped = shipped().find(|shipped| shipped.name == layer);
    let path = file(home, name);
    let read = is_plain_name(name).then(|| read_of_home(home, &path));
    match (read, shipped) {
        (Some(ReadFile::Text { text, .. }), _) => {
            let layer = Layer { name: layer, file: Some(path), text, head: HEAD };
            check_description(&layer)?;
            Ok(layer)
        }
        (Some(ReadFile::Unusable(flaw)), _) => Err(vec![unreadable(&layer, &path, flaw)]),
        (_, Some(shipped)) => Ok(shipped),
        (_, None) => Err(vec![unknown("agent preset", name, &names(home)?, &path)]),
    }
}

fn check_description(layer: &Layer) -> Result<(), Vec<RowError>> {
    match layer.head_value("description") {
        Some(HeadValue { value, line, .. }) if !value.is_str() => {
            let problem = "must be a string: one sentence for people".to_owned();
            let mut error = error(&layer.name, layer.file.as_deref(), line, problem);
            error.field = Some("description".to_owned());
            Err(vec![error])
        }
        _ => Ok(()),
    }
}
