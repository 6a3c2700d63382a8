//! Reading the files of layers.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_host::Stamp;
use reins_kernel::{MAX_LAYER_BYTES, RowError};

/// What came of reading a file.
pub(super) enum ReadFile {
    Text {
        text: String,
        /// It can be read again.
        lasting: bool,
    },
    /// Nothing is there; the system's words.
    Absent(String),
    Unusable(String),
}

/// Reads a file; a pipe only if `pipes` are wanted, since nobody may ever write to it.
pub(super) fn read(path: &Path, pipes: bool) -> ReadFile {
    let flags = if pipes { 0 } else { rustix::fs::OFlags::NONBLOCK.bits().cast_signed() };
    let opened = File::options().read(true).custom_flags(flags).open(path);
    match opened.and_then(|file| read_opened(file, pipes)) {
        Ok((text, lasting)) => ReadFile::Text { text, lasting },
        Err(e) if is_absent(&e) => match path.read_link() {
            Ok(target) => {
                let target = target.display();
                ReadFile::Unusable(format!("a link to `{target}`, which does not exist"))
            }
            Err(_) => ReadFile::Absent(e.to_string()),
        },
        // The folder itself cannot be used; the store says so in its own words.
        Err(e)
            if e.kind() == ErrorKind::PermissionDenied
                && path.parent().is_some_and(|folder| folder.read_dir().is_err()) =>
        {
            ReadFile::Absent(e.to_string())
        }
        Err(e) => ReadFile::Unusable(e.to_string()),
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    use ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

fn read_opened(file: File, pipes: bool) -> std::io::Result<(String, bool)> {
    let kind = file.metadata()?.file_type();
    // Reading a directory gives the system's own words.
    let lasting = kind.is_file() || kind.is_dir();
    if !lasting && !pipes {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    // One byte more, so that the kernel can tell that it is too long.
    file.take(MAX_LAYER_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok((text, lasting))
}

/// The error of a layer that cannot be read.
pub(super) fn unreadable(layer: &str, path: &Path, problem: &str) -> RowError {
    let problem = format!("{problem}; correct or remove the file, or leave the option out");
    error(layer, Some(path), 0, problem)
}

/// An error of a layer's file at a line; 0 = the whole.
pub(super) fn error(layer: &str, path: Option<&Path>, line: u32, problem: String) -> RowError {
    RowError {
        layer: layer.into(),
        file: path.map(Arc::from),
        line,
        row: None,
        field: None,
        problem,
        suggestion: None,
    }
}

/// What files look like from outside; links are followed.
pub(super) fn stamp<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Stamp {
    let mut newest_ms = None;
    let mut look = |path: &PathBuf| {
        let found = std::fs::metadata(path).ok()?;
        newest_ms = newest_ms.max(Some(changed_ms(&found)));
        let nanos = |s: i64, ns: i64| s.wrapping_mul(1_000_000_000).wrapping_add(ns);
        Some([
            found.dev().cast_signed(),
            found.ino().cast_signed(),
            found.size().cast_signed(),
            nanos(found.mtime(), found.mtime_nsec()),
            nanos(found.ctime(), found.ctime_nsec()),
        ])
    };
    let files = paths.map(&mut look).collect();
    Stamp { files, newest_ms }
}

/// When content or state of a file changed last, in milliseconds since 1970.
fn changed_ms(of: &Metadata) -> i64 {
    let ms = |s: i64, ns: i64| s.saturating_mul(1000).saturating_add(ns / 1_000_000);
    ms(of.mtime(), of.mtime_nsec()).max(ms(of.ctime(), of.ctime_nsec()))
}

/// Whether a name can be that of a file here: one plain part of a path.
pub(super) fn is_plain_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.len() <= 100 && name.chars().all(plain)
}

/// The names of the `.toml` files in a folder, sorted; an absent folder has none.
pub(super) fn names_in(folder: &Path) -> Vec<String> {
    let entries = folder.read_dir().into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".toml").filter(|name| is_plain_name(name)).map(str::to_owned)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
