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

/// Standard input as a file.
pub(crate) const STDIN: &str = "/dev/stdin";

/// The file that an option names.
pub(super) fn of_option(path: &Path) -> PathBuf {
    if path == Path::new("-") { PathBuf::from(STDIN) } else { path.to_owned() }
}

/// How many of these patches are standard input, by whatever name.
pub(crate) fn from_stdin(patches: &[PathBuf]) -> usize {
    let of = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let Some(input) = of(Path::new(STDIN)) else { return 0 };
    patches.iter().filter(|patch| of(&of_option(patch)) == Some(input)).count()
}

/// Why a file is of no use.
pub(super) struct Flaw {
    /// One-based; 0 = the whole.
    line: u32,
    problem: String,
    /// What to do is said already.
    advised: bool,
    /// The closed folder that hides it.
    folder: Option<PathBuf>,
}

const CLOSED: &str = "you may not look into this folder; open it";

impl Flaw {
    fn of_file(problem: impl Into<String>) -> Self {
        Self { line: 0, problem: problem.into(), advised: false, folder: None }
    }
}

/// Reads a file of the home. In a home that nobody may look into nothing is there: the store says
/// so in its own words.
pub(super) fn read_of_home(home: &Path, path: &Path) -> ReadFile {
    match read(path) {
        ReadFile::Unusable(flaw) if is_hidden(path) && is_closed(home) => ReadFile::Absent(flaw),
        found => found,
    }
}

/// Reads a file and waits for nobody: a pipe is none.
pub(super) fn read(path: &Path) -> ReadFile {
    let file = open(path, rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    let regular = |file: File| match is_lasting(&file)? {
        true => all_of(file),
        false => Err(std::io::Error::other("not a regular file")),
    };
    as_read(path, file.and_then(regular))
}

/// Reads a file, or a pipe until its writers have closed it.
pub(super) fn read_or_drain(path: &Path) -> ReadFile {
    as_read(path, open(path, 0).and_then(all_of))
}

fn open(path: &Path, flags: i32) -> std::io::Result<File> {
    File::options().read(true).custom_flags(flags).open(path)
}

/// Reading a folder gives the system's own error.
fn is_lasting(file: &File) -> std::io::Result<bool> {
    let kind = file.metadata()?.file_type();
    Ok(kind.is_file() || kind.is_dir())
}

/// Its bytes, and whether it can be read again.
fn all_of(file: File) -> std::io::Result<(Vec<u8>, bool)> {
    let (mut bytes, lasting) = (Vec::new(), is_lasting(&file)?);
    // One byte more, so that the kernel can tell that it is too long.
    file.take(MAX_LAYER_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes, lasting))
}

fn as_read(path: &Path, read: std::io::Result<(Vec<u8>, bool)>) -> ReadFile {
    match read {
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
        Err(e) => {
            let folder = path.parent().map(here).filter(|_| is_hidden(path)).map(Path::to_owned);
            ReadFile::Unusable(Flaw { folder, ..Flaw::of_file(in_words(&e)) })
        }
    }
}

/// Whether a folder on the way to it is closed.
fn is_hidden(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|e| e.kind() == ErrorKind::PermissionDenied)
}

fn is_closed(folder: &Path) -> bool {
    folder.read_dir().is_err_and(|e| e.kind() == ErrorKind::PermissionDenied)
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

fn as_text(bytes: Vec<u8>) -> Result<String, Flaw> {
    if bytes.len() > MAX_LAYER_BYTES {
        // The cut may go through a character.
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        let problem = "saved as UTF-16; save it as UTF-8".to_owned();
        return Err(Flaw { advised: true, ..Flaw::of_file(problem) });
    }
    String::from_utf8(bytes).map_err(|error| {
        let good = error.utf8_error().valid_up_to();
        let breaks = error.as_bytes()[..good].iter().filter(|byte| **byte == b'\n').count();
        let line = u32::try_from(breaks + 1).unwrap_or(u32::MAX);
        let flaw = Flaw::of_file("not UTF-8; save the file as UTF-8");
        Flaw { line, advised: true, ..flaw }
    })
}

/// The error of a home that was there and is not any more, for whatever reason.
pub(super) fn lost_home(home: &Path, why: &std::io::Error) -> RowError {
    let what = match why.kind() {
        ErrorKind::NotFound => "is gone".to_owned(),
        ErrorKind::NotADirectory => "is no folder any more".to_owned(),
        ErrorKind::PermissionDenied => "is closed: you may not look into it".to_owned(),
        _ => format!("cannot be looked into: {why}"),
    };
    error("home", Some(home), 0, format!("the home {what}; put it right"))
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
    let Flaw { line, mut problem, advised, folder } = flaw;
    if let Some(folder) = folder {
        return error(layer, Some(&folder), 0, CLOSED.to_owned());
    }
    if !advised {
        problem.push_str(&format!("; {advice}"));
    }
    error(layer, Some(path), line, problem)
}

/// What is said of a profile or preset that does not exist, with what there is instead. `path` is
/// where its file would be.
pub(super) fn unknown(what: &str, name: &str, known: &Names, path: &Path) -> RowError {
    // People also give the name of the file.
    let meant = name.strip_suffix(".toml").unwrap_or(name);
    let near = nearest(meant, known.names.iter().map(String::as_str)).map(str::to_owned);
    let all = known.names.join(", ");
    let mut problem = format!("there is no {what} `{}`; known are: {all}", shown(name));
    let odd = known.odd.iter().find(|odd| odd.file_stem().is_some_and(|stem| stem == meant));
    if let Some(odd) = odd {
        problem.push_str(&format!("; rename {}: {PLAIN_NAMES}", shown(&odd.to_string_lossy())));
    } else if near.is_none() && is_plain_name(name) {
        problem.push_str(&format!("; a new one is a file {}", path.display()));
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
    let (layer, file) = (layer.into(), path.map(Arc::from));
    RowError { layer, file, line, ..RowError::new(problem) }
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

/// What [`is_plain_name`] takes, for people.
pub(crate) const PLAIN_NAMES: &str =
    "a name has at most 100 letters (a to z), digits, `-`, `_` and `.`, and no `.` first";

/// Whether a name can be that of a file here: one plain part of a path.
pub(super) fn is_plain_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.len() <= 100 && name.chars().all(plain)
}

/// The files of a folder that hold profiles or presets, and what is built in.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The names, sorted.
    pub(crate) names: Vec<String>,
    /// Files whose names cannot be those of one, sorted.
    pub(crate) odd: Vec<PathBuf>,
}

/// `shipped`, and the names of the `.toml` files in a folder of the home; an absent one has none.
/// Files that begin with a dot are those of editors.
///
/// # Errors
/// The folder cannot be listed.
pub(super) fn names_in(
    home: &Path,
    folder: &Path,
    shipped: impl Iterator<Item = &'static str>,
) -> Result<Names, Vec<RowError>> {
    let mut found = Names { names: shipped.map(str::to_owned).collect(), odd: Vec::new() };
    let wrong = |e: std::io::Error| {
        let problem = match e.kind() {
            ErrorKind::NotADirectory => "a file, not a folder; move it away".to_owned(),
            ErrorKind::PermissionDenied => CLOSED.to_owned(),
            _ => format!("this folder cannot be listed: {e}"),
        };
        vec![error("home", Some(folder), 0, problem)]
    };
    match folder.read_dir() {
        Ok(entries) => {
            for entry in entries {
                found.note(&entry.map_err(wrong)?.path());
            }
        }
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        // Then the home is what is wrong.
        Err(_) if home.read_dir().is_err() => {}
        Err(e) => return Err(wrong(e)),
    }
    found.names.sort();
    found.names.dedup();
    found.odd.sort();
    Ok(found)
}

impl Names {
    fn note(&mut self, path: &Path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_layer = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("toml"));
        match name.strip_suffix(".toml") {
            Some(name) if is_plain_name(name) => self.names.push(name.to_owned()),
            _ if is_layer && !name.starts_with('.') => self.odd.push(path.to_owned()),
            _ => {}
        }
    }
}
