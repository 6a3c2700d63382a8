//! Checks everything in a zip file before anything of it is believed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use reins_schema::{Event, FORMAT, Header, MAX_LINE_BYTES, OLDEST_FORMAT, SessionId};
use sha2::{Digest, Sha256};
use zip::ZipArchive;
use zip::read::ZipFile;

use super::import::Limits;
use super::{ABOUT, About, BLOBS, CHILDREN, HEADER, LAYOUT, LOG, PAGE, Told, hex, is_blob};
use crate::{Progress, StoreError, check_id};

/// Bytes of a header, and of `about.json`.
const HEADER_BYTES_MAX: u64 = 1 << 20;
const ABOUT_BYTES_MAX: u64 = 64 << 20;
/// Entries of a file: a session with more blobs than that was not written by a person's work.
const ENTRIES_MAX: usize = 1 << 20;
const READ_BYTES: usize = 128 << 10;

/// A zip file whose content was checked.
pub(super) struct Checked {
    pub(super) zip: Zip,
    /// Parents before their children.
    pub(super) sessions: Vec<Session>,
}

/// A session in it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) header: Header,
    /// Entry of the log.
    pub(super) log: usize,
    /// Hash of the log.
    pub(super) sha256: String,
    /// Lengths of the segments that it is to be kept in.
    pub(super) cuts: Vec<u64>,
    /// Names and entries of the blobs.
    pub(super) blobs: Vec<(String, usize)>,
}

/// The file, and what its entries are.
pub(super) struct Zip {
    pub(super) path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
}

/// What an entry is, by its name.
enum Entry {
    About,
    /// Of a session: the one at the top, or a child.
    Of(Option<SessionId>, Part),
    /// A folder that such entries are in.
    Folder,
}

enum Part {
    Header,
    Log,
    Page,
    Blob(String),
}

/// The entries of a session.
#[derive(Default)]
struct Parts {
    header: Option<usize>,
    log: Option<usize>,
    blobs: Vec<(String, usize)>,
}

impl Zip {
    fn open(path: &Path, limits: &Limits) -> Result<Self, StoreError> {
        let meta = std::fs::metadata(path).map_err(|e| StoreError::io(path, e))?;
        if !meta.is_file() {
            return Err(not_imported(path, "it is not a file"));
        }
        if meta.len() > limits.bytes {
            return Err(too_large(path, meta.len().into(), limits));
        }
        let file = File::open(path).map_err(|e| StoreError::io(path, e))?;
        let archive = ZipArchive::new(BufReader::with_capacity(READ_BYTES, file)).map_err(|e| {
            not_imported(path, format!("it is no zip file, or a damaged one ({e})"))
        })?;
        Ok(Self { path: path.to_path_buf(), archive })
    }

    /// Opens the content of an entry.
    pub(super) fn entry(
        &mut self,
        index: usize,
    ) -> Result<ZipFile<'_, BufReader<File>>, StoreError> {
        let path = &self.path;
        self.archive.by_index(index).map_err(|e| not_imported(path, e.to_string()))
    }

    /// The whole content of an entry.
    pub(super) fn bytes(&mut self, index: usize, limit: u64) -> Result<Vec<u8>, StoreError> {
        let path = self.path.clone();
        let entry = self.entry(index)?;
        let name = String::from_utf8_lossy(entry.name_raw()).into_owned();
        let mut bytes = Vec::new();
        let read = entry.take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|e| not_imported(&path, format!("`{name}` is damaged ({e})")))?;
        if bytes.len() as u64 > limit {
            let problem = format!("`{name}` has more than {limit} bytes");
            return Err(not_imported(&path, problem));
        }
        Ok(bytes)
    }

    /// Sizes that an entry says it has: packed and unpacked.
    pub(super) fn sizes(&self, index: usize) -> Result<(u64, u64), StoreError> {
        let entry = self.archive.by_index_data(index);
        let entry = entry.map_err(|e| not_imported(&self.path, e.to_string()))?;
        Ok((entry.compressed_size(), entry.size()))
    }
}

/// Reads the whole file.
pub(super) fn check(
    path: &Path,
    limits: &Limits,
    progress: &Progress,
) -> Result<Checked, StoreError> {
    let mut zip = Zip::open(path, limits)?;
    let (about, mut parts) = entries(&mut zip, limits)?;
    let about: About = {
        let bytes = zip.bytes(about, ABOUT_BYTES_MAX)?;
        let value: serde_json::Value = serde_json::from_slice(&bytes)
            .map_err(|e| not_imported(path, format!("`{ABOUT}` is not JSON ({e})")))?;
        match value.get("export").and_then(serde_json::Value::as_u64) {
            Some(found) if found > u64::from(LAYOUT) => {
                let problem = format!("a newer version of Reins wrote it (layout {found})");
                return Err(not_imported(path, problem));
            }
            Some(_) => serde_json::from_value(value)
                .map_err(|e| not_imported(path, format!("`{ABOUT}` has another shape ({e})")))?,
            None => return Err(not_imported(path, format!("`{ABOUT}` is not that of an export"))),
        }
    };
    let mut total = 0_u64;
    for index in 0..zip.archive.len() {
        total = total.saturating_add(zip.sizes(index)?.1);
    }
    let mut told = Told::new(progress, total);
    let mut sessions = Vec::with_capacity(about.sessions.len());
    for named in &about.sessions {
        let owner = (named.id != about.session).then(|| named.id.clone());
        let Some(parts) = parts.remove(&owner) else {
            return Err(not_imported(path, format!("session `{}` is not in it", named.id)));
        };
        let session = session(&mut zip, &named.id, parts, limits, &mut told)?;
        if session.sha256 != named.sha256 || session.blobs.len() as u64 != named.blobs {
            let problem = format!("session `{}` is not what `{ABOUT}` says", named.id);
            return Err(not_imported(path, problem));
        }
        sessions.push(session);
    }
    if let Some(owner) = parts.into_keys().next() {
        let whose = owner.map_or_else(|| "the top".to_owned(), |id| format!("`{id}`"));
        return Err(not_imported(path, format!("`{ABOUT}` does not name the session at {whose}")));
    }
    told.end();
    Ok(Checked { zip, sessions: parents_first(sessions) })
}

/// Finds out what each entry is. Names, kinds and sizes have to be right before anything is read.
fn entries(
    zip: &mut Zip,
    limits: &Limits,
) -> Result<(usize, BTreeMap<Option<SessionId>, Parts>), StoreError> {
    let path = zip.path.clone();
    let refuse = |problem: String| Err(not_imported(&path, problem));
    if zip.archive.len() > ENTRIES_MAX {
        return refuse(format!("it has more than {ENTRIES_MAX} entries"));
    }
    if zip.archive.has_duplicate_names() {
        return refuse("two of its entries have the same name".to_owned());
    }
    let overlap = zip.archive.has_overlapping_files();
    if overlap.map_err(|e| not_imported(&path, e.to_string()))? {
        return refuse("its entries share the same bytes".to_owned());
    }
    let (mut about, mut parts) = (None, BTreeMap::<Option<SessionId>, Parts>::new());
    let mut sum = 0_u128;
    for index in 0..zip.archive.len() {
        let entry = zip.archive.by_index_data(index);
        let entry = entry.map_err(|e| not_imported(&path, e.to_string()))?;
        let shown = String::from_utf8_lossy(entry.name_raw()).into_owned();
        if entry.is_symlink() || entry.encrypted() {
            return refuse(format!("its entry `{shown}` is a link, or encrypted"));
        }
        sum += u128::from(entry.size());
        if sum > u128::from(limits.bytes) {
            return Err(too_large(&path, sum, limits));
        }
        match std::str::from_utf8(entry.name_raw()).ok().and_then(Entry::named) {
            None => return refuse(format!("its entry `{shown}` is not that of an export")),
            Some(Entry::Folder | Entry::Of(_, Part::Page)) => {}
            Some(Entry::About) => about = Some(index),
            Some(Entry::Of(owner, part)) => {
                let parts = parts.entry(owner).or_default();
                match part {
                    Part::Header => parts.header = Some(index),
                    Part::Log => parts.log = Some(index),
                    Part::Blob(name) => parts.blobs.push((name, index)),
                    Part::Page => {}
                }
            }
        }
    }
    match about {
        Some(about) => Ok((about, parts)),
        None => refuse(format!("it has no `{ABOUT}`, so it is not an export of Reins")),
    }
}

impl Entry {
    fn named(name: &str) -> Option<Self> {
        if name == ABOUT {
            return Some(Self::About);
        }
        let (owner, rest) = match name.strip_prefix(CHILDREN) {
            None => (None, name),
            Some("") => return Some(Self::Folder),
            Some(child) => {
                let (id, rest) = child.split_once('/')?;
                let id = SessionId::new(id);
                check_id(&id).ok()?;
                (Some(id), rest)
            }
        };
        let part = match rest {
            HEADER => Part::Header,
            LOG => Part::Log,
            PAGE => Part::Page,
            "" | BLOBS => return name.ends_with('/').then_some(Self::Folder),
            blob => {
                let name = blob.strip_prefix(BLOBS).filter(|name| is_blob(name))?;
                Part::Blob(name.to_owned())
            }
        };
        Some(Self::Of(owner, part))
    }
}

fn session(
    zip: &mut Zip,
    id: &SessionId,
    parts: Parts,
    limits: &Limits,
    told: &mut Told<'_>,
) -> Result<Session, StoreError> {
    let path = zip.path.clone();
    let (Some(header), Some(log)) = (parts.header, parts.log) else {
        return Err(not_imported(&path, format!("session `{id}` has no `{HEADER}` or `{LOG}`")));
    };
    let header = self::header(&path, id, &zip.bytes(header, HEADER_BYTES_MAX)?)?;
    let (sha256, cuts) = self::log(zip, id, log, limits, told)?;
    for (name, index) in &parts.blobs {
        let (_, size) = zip.sizes(*index)?;
        let bytes = zip.bytes(*index, limits.blob)?;
        if bytes.len() as u64 != size || hex(&Sha256::digest(&bytes)) != *name {
            let problem = format!("blob `{name}` does not contain what its name says");
            return Err(not_imported(&path, problem));
        }
        told.at(told.done + size);
    }
    Ok(Session { header, log, sha256, cuts, blobs: parts.blobs })
}

fn header(path: &Path, id: &SessionId, bytes: &[u8]) -> Result<Header, StoreError> {
    let refuse = |problem: String| {
        Err(not_imported(path, format!("the header of session `{id}` {problem}")))
    };
    let value: serde_json::Value = match serde_json::from_slice(bytes) {
        Ok(value) => value,
        Err(error) => return refuse(format!("is not JSON ({error})")),
    };
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(found) if found > u64::from(FORMAT) => {
            return Err(StoreError::NewerFormat { found, path: path.to_path_buf() });
        }
        Some(found) if found >= u64::from(OLDEST_FORMAT) => {}
        _ => return refuse("has no format number that ever existed".to_owned()),
    }
    let header: Header = match serde_json::from_value(value) {
        Ok(header) => header,
        Err(error) => return refuse(format!("has another shape ({error})")),
    };
    if header.id != *id {
        return refuse(format!("is that of session `{}`", header.id));
    }
    check_id(&header.id)?;
    Ok(header)
}

/// Checks every line. Numbers may be missing, never stand in another order.
fn log(
    zip: &mut Zip,
    id: &SessionId,
    index: usize,
    limits: &Limits,
    told: &mut Told<'_>,
) -> Result<(String, Vec<u64>), StoreError> {
    let path = zip.path.clone();
    let (_, size) = zip.sizes(index)?;
    let mut text =
        BufReader::with_capacity(READ_BYTES, zip.entry(index)?.take(size.saturating_add(1)));
    let (mut hash, mut cuts, mut segment) = (Sha256::new(), Vec::new(), 0_u64);
    let (mut line, mut number, mut next, mut total) = (Vec::new(), 0_u64, 0, 0_u64);
    loop {
        let refuse = |problem: String| {
            let place = format!("line {} of session `{id}`", number + 1);
            Err(not_imported(&path, format!("{place}: {problem}")))
        };
        line.clear();
        match read_line(&mut text, &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => return refuse(error.to_string()),
        }
        hash.update(&line);
        let bytes = line.len() as u64;
        if line.pop() != Some(b'\n') {
            return refuse("it is too long, or has no end".to_owned());
        }
        match Event::decode(&line) {
            Ok((event, _)) if event.seq >= next => next = event.seq.saturating_add(1),
            Ok((event, _)) => {
                return refuse(format!("event {} stands after event {}", event.seq, next - 1));
            }
            Err(error) => return refuse(error.to_string()),
        }
        number += 1;
        total += bytes;
        segment += bytes;
        if segment >= limits.segment {
            cuts.push(std::mem::take(&mut segment));
        }
        told.at(told.done + bytes);
    }
    if total != size {
        let problem = format!("the log of session `{id}` has another size than it says");
        return Err(not_imported(&path, problem));
    }
    if segment > 0 {
        cuts.push(segment);
    }
    Ok((hex(&hash.finalize()), cuts))
}

fn read_line(text: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    text.take(MAX_LINE_BYTES as u64 + 1).read_until(b'\n', line)
}

/// Whoever the file names first, a parent comes before its children.
fn parents_first(mut waiting: Vec<Session>) -> Vec<Session> {
    let mut sorted: Vec<Session> = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let ids: Vec<SessionId> = waiting.iter().map(|it| it.header.id.clone()).collect();
        let waits = |it: &Session| {
            let parent = it.header.parent.as_ref().map(|parent| &parent.session);
            parent.is_some_and(|parent| *parent != it.header.id && ids.contains(parent))
        };
        let (later, now): (Vec<_>, Vec<_>) = waiting.into_iter().partition(waits);
        if now.is_empty() {
            // They name each other in a circle; any order is as good.
            sorted.extend(later);
            break;
        }
        sorted.extend(now);
        waiting = later;
    }
    sorted
}

fn too_large(path: &Path, bytes: u128, limits: &Limits) -> StoreError {
    let limit = limits.bytes;
    not_imported(path, format!("it has {bytes} bytes, more than `import_bytes_max` ({limit})"))
}

pub(super) fn not_imported(path: &Path, problem: impl Into<String>) -> StoreError {
    let published = Vec::new();
    StoreError::NotImported { path: path.to_path_buf(), problem: problem.into(), published }
}
