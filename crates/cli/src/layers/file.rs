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
    let mut bytes = Vec::new();
    // One byte more, so that the kernel can tell that it is too long.
    file.take(MAX_LAYER_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_LAYER_BYTES {
        // The cut may go through a character.
        return Ok((String::from_utf8_lossy(&bytes).into_owned(), lasting));
    }
    let not_utf8 = |_| std::io::Error::other("stream did not contain valid UTF-8");
    Ok((String::from_utf8(bytes).map_err(not_utf8)?, lasting))
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

/// What files look like from outside: of a link both the link and what it leads to.
pub(super) fn stamp<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Stamp {
    let mut stamp = Stamp::default();
    let note = |found: &Metadata, stamp: &mut Stamp| {
        stamp.newest_ms = stamp.newest_ms.max(Some(changed_ms(found)));
        stamp.files.push(Some(identity(found)));
    };
    for path in paths {
        match path.symlink_metadata() {
            Ok(link) if link.is_symlink() => {
                note(&link, &mut stamp);
                match path.metadata() {
                    Ok(found) => note(&found, &mut stamp),
                    Err(_) => stamp.files.push(None),
                }
            }
            Ok(found) => note(&found, &mut stamp),
            Err(_) => {
                stamp.files.push(None);
                // When something goes away, the folder that held it is what changes.
                let folder = path.ancestors().skip(1).find_map(|folder| {
                    let here = folder.as_os_str().is_empty();
                    if here { Path::new(".") } else { folder }.metadata().ok()
                });
                stamp.newest_ms = stamp.newest_ms.max(folder.as_ref().map(changed_ms));
            }
        }
    }
    stamp
}

fn identity(of: &Metadata) -> [i64; 5] {
    let nanos = |s: i64, ns: i64| s.wrapping_mul(1_000_000_000).wrapping_add(ns);
    [
        of.dev().cast_signed(),
        of.ino().cast_signed(),
        of.size().cast_signed(),
        nanos(of.mtime(), of.mtime_nsec()),
        nanos(of.ctime(), of.ctime_nsec()),
    ]
}

/// When anything about it changed last, in milliseconds since 1970. The time of a file's content
/// can be set to anything; this one cannot.
fn changed_ms(of: &Metadata) -> i64 {
    of.ctime().saturating_mul(1000).saturating_add(of.ctime_nsec() / 1_000_000)
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
