//! The list of sessions, from headers and the first bytes of logs.

use std::fs::{self, DirEntry};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use reins_schema::{Event, Payload, SessionId, Source};

use super::folder::Folder;
use super::{HIDDEN, files, lease, seek};
use crate::{Listing, SessionState, SessionSummary, StoreError};

/// How much of a log is searched for the first prompt.
const PREFIX_BYTES: u64 = 256 << 10;
const CHUNK_BYTES: u64 = 32 << 10;
/// How many folders of killed creates one list removes.
const SWEEP_MAX: usize = 64;

const PROMPT_BYTES: usize = 400;

/// Reads every session's folder; what is wrong with one is said beside the others. Removes what
/// killed creates left.
pub(crate) fn list(sessions: &Path) -> Result<Listing, StoreError> {
    let (mut listing, mut swept) = (Listing::default(), 0);
    let entries = match fs::read_dir(sessions) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(listing),
        Err(e) => {
            files::check_home(sessions)?;
            return Err(StoreError::io(sessions, e));
        }
    };
    for entry in entries {
        let entry = entry.map_err(|e| StoreError::io(sessions, e))?;
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            if swept < SWEEP_MAX && is_left(&entry) {
                swept += 1;
                // Listing goes on without: the next list tries again.
                drop(fs::remove_dir_all(entry.path()));
            }
            continue;
        }
        match summary(sessions, &entry) {
            Ok(summary) => listing.sessions.push(summary),
            Err(error) => listing.damaged.push((entry.path(), error.to_string())),
        }
    }
    let newest = |s: &SessionSummary| (std::cmp::Reverse(s.modified), s.header.id.clone());
    listing.sessions.sort_by_cached_key(newest);
    listing.damaged.sort();
    listing.total = listing.sessions.len();
    Ok(listing)
}

/// Whether it is the folder of a create whose process was killed.
fn is_left(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let of = name.to_str().and_then(|name| name.strip_prefix(HIDDEN)?.rsplit_once('-'));
    let Some(pid) = of.and_then(|(_, pid)| pid.parse().ok()) else { return false };
    let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
    is_folder && !lease::is_alive(pid) && lease::is_left(&entry.path().join("lease"))
}

fn summary(sessions: &Path, entry: &DirEntry) -> Result<SessionSummary, StoreError> {
    let id = SessionId::new(entry.file_name().to_string_lossy());
    let folder = Folder::existing(sessions, &id)?;
    let header = folder.header()?;
    let segments = folder.segments()?;
    let (mut bytes, mut modified) = (0, None);
    for path in &segments {
        let meta = fs::metadata(path).map_err(|e| StoreError::io(path, e))?;
        files::require_file(path, &meta)?;
        bytes += meta.len();
        modified = modified.max(Some(meta.mtime() * 1000 + meta.mtime_nsec() / 1_000_000));
    }
    let first_prompt = match segments.first() {
        Some(path) => first_prompt(path)?,
        None => None,
    };
    let modified = modified.unwrap_or(header.created_at);
    let (cwd, state) = (header.cwd.clone(), SessionState::Idle);
    Ok(SessionSummary {
        header,
        cwd,
        modified,
        bytes,
        events: 0,
        state,
        archived: false,
        first_prompt,
        problem: None,
    })
}

/// Also an error when the log does not begin with an event.
fn first_prompt(path: &Path) -> Result<Option<String>, StoreError> {
    let io = |e| StoreError::io(path, e);
    let mut file = files::open_to_read(path)?.take(PREFIX_BYTES);
    let mut text = Vec::new();
    let (mut done, mut lines) = (0, 0_u64);
    loop {
        let read = file.by_ref().take(CHUNK_BYTES).read_to_end(&mut text).map_err(io)?;
        while let Some(length) = text[done..].iter().position(|byte| *byte == b'\n') {
            let line = &text[done..done + length];
            if lines == 0 {
                Event::decode(line).map_err(|e| no_log(path, &e.to_string()))?;
            }
            if let Some(prompt) = prompt(line) {
                return Ok(Some(prompt));
            }
            done += length + 1;
            lines += 1;
        }
        if read == 0 {
            break;
        }
    }
    // A first record that is torn, or longer than the prefix, still begins like one.
    let begins = text.len() < 32 || seek::line_seq(&text) == Some(0);
    if lines == 0 && !begins {
        return Err(no_log(path, "no event at the start"));
    }
    Ok(None)
}

fn no_log(path: &Path, problem: &str) -> StoreError {
    let problem = format!("not a session's log ({problem})");
    StoreError::unreadable(path, problem, super::super::error::MOVE_AWAY)
}

/// A person's words in a line, whether they wait in the inbox or have entered a step.
fn prompt(line: &[u8]) -> Option<String> {
    let head = &line[..line.len().min(120)];
    let has = |kind: &[u8]| head.windows(kind.len()).any(|window| window == kind);
    if !has(b"\"type\":\"user/message\"") && !has(b"\"type\":\"agent/inbox/spliced\"") {
        return None;
    }
    let (event, _) = Event::decode(line).ok()?;
    let messages = match Payload::read(&event.body).ok()? {
        Payload::UserMessage(payload) => vec![payload.message],
        Payload::InboxSpliced(payload) => payload.inserted,
        _ => return None,
    };
    let message = messages.into_iter().find(|m| matches!(m.source, Source::User))?;
    let mut text = message.text();
    if text.trim().is_empty() {
        return None;
    }
    let end = (0..=PROMPT_BYTES.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    text.truncate(end.unwrap_or(0));
    Some(text)
}
