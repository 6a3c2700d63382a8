//! Reading the files of layers.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_host::Stamp;
use reins_kernel::{MAX_LAYER_BYTES, RowError, nearest};

/// What came of reading a file.
pub(super) enum ReadFile {
    Text {
        text: String,
        /// It can be read again.
        lasting: bool,
    },
    /// Nothing is there; the system's words.
    Absent(Flaw),
    Unusable(Flaw),
}

/// Why a file is of no use.
pub(super) struct Flaw {
    /// One-based; 0 = the whole.
    line: u32,
    problem: String,
    /// What to do is said already.
    advised: bool,
}

impl Flaw {
    fn of_file(problem: impl Into<String>) -> Self {
        Self { line: 0, problem: problem.into(), advised: false }
    }
}

/// Reads a file; a pipe only if `pipes` are wanted, since nobody may ever write to it.
pub(super) fn read(path: &Path, pipes: bool) -> ReadFile {
    let flags = if pipes { 0 } else { rustix::fs::OFlags::NONBLOCK.bits().cast_signed() };
    let opened = File::options().read(true).custom_flags(flags).open(path);
    match opened.and_then(|file| read_opened(file, pipes)) {
        Ok((bytes, lasting)) => match as_text(bytes) {
            Ok(text) => ReadFile::Text { text, lasting },
            Err(flaw) => ReadFile::Unusable(flaw),
        },
        Err(e) if is_absent(&e) => match path.read_link() {
            Ok(target) => {
                let target = target.display();
                let problem = format!("a link to `{target}`, which does not exist");
                ReadFile::Unusable(Flaw::of_file(problem))
            }
            Err(_) => ReadFile::Absent(Flaw::of_file(in_words(&e))),
        },
        // The folder itself cannot be used; the store says so in its own words.
        Err(e)
            if e.kind() == ErrorKind::PermissionDenied
                && path.parent().is_some_and(|folder| here(folder).read_dir().is_err()) =>
        {
            ReadFile::Absent(Flaw::of_file(in_words(&e)))
        }
        Err(e) => ReadFile::Unusable(Flaw::of_file(in_words(&e))),
    }
}

/// The folder of a relative name has none.
fn here(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new(".") } else { folder }
}

fn in_words(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file".to_owned(),
        ErrorKind::IsADirectory => "a folder, not a file".to_owned(),
        ErrorKind::PermissionDenied => "you may not read it".to_owned(),
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            "a link that leads back to itself".to_owned()
        }
        _ => error.to_string(),
    }
}

fn is_absent(error: &std::io::Error) -> bool {
    use ErrorKind::{InvalidFilename, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename)
}

fn read_opened(file: File, pipes: bool) -> std::io::Result<(Vec<u8>, bool)> {
    let kind = file.metadata()?.file_type();
    // Reading a directory gives the system's own error.
    let lasting = kind.is_file() || kind.is_dir();
    if !lasting && !pipes {
        return Err(std::io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    // One byte more, so that the kernel can tell that it is too long.
    file.take(MAX_LAYER_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes, lasting))
}

fn as_text(bytes: Vec<u8>) -> Result<String, Flaw> {
    if bytes.len() > MAX_LAYER_BYTES {
        // The cut may go through a character.
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        let problem = "saved as UTF-16; save it as UTF-8".to_owned();
        return Err(Flaw { line: 0, problem, advised: true });
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let breaks = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count();
        let line = u32::try_from(breaks + 1).unwrap_or(u32::MAX);
        Flaw { line, problem: "not UTF-8; save the file as UTF-8".to_owned(), advised: true }
    })
}

/// The error of a file of the home that cannot be read.
pub(super) fn unreadable(layer: &str, path: &Path, flaw: Flaw) -> RowError {
    advise(layer, path, flaw, "correct or remove it")
}

/// The error of a file that an option names and that cannot be read.
pub(super) fn unreadable_patch(layer: &str, path: &Path, flaw: Flaw) -> RowError {
    advise(layer, path, flaw, "correct it, or leave out --patch")
}

/// The error of a file that an option names and that is not there.
pub(super) fn absent_patch(layer: &str, path: &Path, flaw: Flaw) -> RowError {
    advise(layer, path, flaw, "correct the path, or leave out --patch")
}

fn advise(layer: &str, path: &Path, flaw: Flaw, advice: &str) -> RowError {
    let Flaw { line, mut problem, advised } = flaw;
    if !advised {
        problem.push_str(&format!("; {advice}"));
    }
    error(layer, Some(path), line, problem)
}

/// What is said of a profile or preset that does not exist, with what there is instead. `path` is
/// where its file would be.
pub(super) fn unknown(what: &str, name: &str, known: &[String], path: &Path) -> RowError {
    // People also give the name of the file.
    let meant = name.strip_suffix(".toml").unwrap_or(name);
    let near = nearest(meant, known.iter().map(String::as_str)).map(str::to_owned);
    let mut problem =
        format!("there is no {what} `{}`; known are: {}", shown(name), known.join(", "));
    if near.is_none() && is_plain_name(name) {
        let folder = path.parent().unwrap_or(path);
        problem.push_str(&match folder.metadata() {
            Ok(found) if !found.is_dir() => format!("; {} is not a folder", folder.display()),
            _ => format!("; a new one is a file {}", path.display()),
        });
    }
    let mut error = error("", None, 0, problem);
    error.suggestion = near;
    error
}

/// A name as one short line.
fn shown(name: &str) -> String {
    const MOST: usize = 100;
    let mut shown: String = name.chars().take(MOST).collect();
    if shown.len() < name.len() {
        shown.push('…');
    }
    shown.escape_debug().to_string()
}

/// An error of a layer's file at a line; 0 = the whole.
pub(super) fn error(layer: &str, path: Option<&Path>, line: u32, problem: String) -> RowError {
    RowError {
        layer: layer.into(),
        file: path.map(Arc::from),
        line,
        problem,
        ..RowError::default()
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
