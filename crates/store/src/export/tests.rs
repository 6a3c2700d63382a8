//! What an export wrote is taken over as it was, and nothing else is.

mod damaged;
mod hostile;
mod round;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_schema::{Draft, Event, FORMAT, Header, ParentPosition, Position, SessionId};
use serde_json::value::to_raw_value;
use sha2::{Digest, Sha256};

use super::{Limits, export, hex, import};
use crate::medium::{Medium, NewSession};
use crate::reading::{Source, read_header};
use crate::sqlite::SqliteMedium;
use crate::{ExportOrder, Exported, ImportOrder, Imported, Progress, StoreError};

const LIMITS: Limits = Limits { bytes: 1 << 30, blob: 1 << 20, segment: 4096 };

fn id(text: &str) -> SessionId {
    SessionId::new(text)
}

fn nowhere() -> Arc<dyn Medium> {
    Arc::new(SqliteMedium::in_memory().unwrap())
}

fn silent() -> Progress {
    Arc::new(|_, _| {})
}

fn header(name: &str, parent: Option<(&str, u64)>, origin: Option<&str>) -> Header {
    let parent = parent.map(|(session, seq)| ParentPosition {
        session: id(session),
        at: Position { seq, sum: 7 },
        segments: Vec::new(),
    });
    Header {
        format: FORMAT,
        id: id(name),
        created_at: 1_700_000_000_000,
        cwd: "/somewhere".into(),
        parent,
        origin: origin.map(str::to_owned),
        delegation_depth: 0,
        agent_preset: None,
    }
}

fn line(seq: u64) -> Vec<u8> {
    let text = format!("event {seq}, caf\u{e9} \u{4e2d}\u{6587} \u{1f980}");
    let body = Draft {
        kind: "test/note".to_owned(),
        v: Some(1),
        data: to_raw_value(&serde_json::json!({ "text": text })).unwrap(),
        surface: None,
        sources: Vec::new(),
        ignorable: true,
    };
    Event { seq, time: 1_700_000_000_000, body }.encode().unwrap().0
}

fn lines(numbers: impl IntoIterator<Item = u64>) -> Vec<u8> {
    numbers.into_iter().flat_map(line).collect()
}

/// A session with one segment for each of these.
fn create(medium: &dyn Medium, header: &Header, segments: &[Vec<u8>]) {
    let text = serde_json::to_vec(header).unwrap();
    let (last, sealed) = segments.split_last().unwrap();
    let sealed = sealed.iter().map(|it| -> Box<dyn Read + '_> { Box::new(it.as_slice()) });
    let sealed = (0..).zip(sealed);
    let new = NewSession {
        id: &header.id,
        header: &text,
        inherit: None,
        sealed: sealed.collect(),
        lines: last,
        snapshot: None,
    };
    drop(medium.create(new).unwrap());
}

fn put_blob(medium: &dyn Medium, session: &str, bytes: &[u8]) -> String {
    let name = hex(&Sha256::digest(bytes));
    medium.put_blob(&id(session), &name, bytes).unwrap();
    name
}

fn export_to(
    medium: &Arc<dyn Medium>,
    order: &ExportOrder,
    progress: &Progress,
) -> Result<Exported, StoreError> {
    let header = |id: &SessionId| read_header(&source(medium, id), || None);
    export(medium, order, &header, progress)
}

fn import_from(
    medium: &Arc<dyn Medium>,
    file: &Path,
    as_new: bool,
    limits: &Limits,
) -> Result<Imported, StoreError> {
    let header = |id: &SessionId| read_header(&source(medium, id), || None);
    let order = ImportOrder { file: file.to_path_buf(), as_new };
    import(medium, &order, limits, &header, &silent())
}

fn source(medium: &Arc<dyn Medium>, id: &SessionId) -> Source {
    Source { medium: Arc::clone(medium), id: id.clone(), bounds: Vec::new() }
}

fn order(session: &str, to: PathBuf) -> ExportOrder {
    ExportOrder { id: id(session), to, replace: false, forks: false, pages: Vec::new() }
}

/// All lines of a session, whatever its segments are.
fn content(medium: &dyn Medium, session: &SessionId) -> Vec<u8> {
    let mut content = Vec::new();
    for info in medium.segments(session).unwrap() {
        let mut segment = medium.segment(session, info.number).unwrap();
        let mut bytes = vec![0; usize::try_from(segment.length()).unwrap()];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += segment.read_at(filled as u64, &mut bytes[filled..]).unwrap();
        }
        content.extend(bytes);
    }
    content
}

fn stored_header(medium: &dyn Medium, session: &SessionId) -> Header {
    serde_json::from_slice(&medium.header(session).unwrap().unwrap()).unwrap()
}

/// The content of a zip file by names.
fn unpacked(file: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut archive = zip::ZipArchive::new(File::open(file).unwrap()).unwrap();
    let mut entries = BTreeMap::new();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        entries.insert(entry.name().unwrap().into_owned(), bytes);
    }
    entries
}

fn packed(entries: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        zip.start_file(name.as_str(), zip::write::SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn put(path: &Path, bytes: &[u8]) {
    File::create(path).unwrap().write_all(bytes).unwrap();
}
