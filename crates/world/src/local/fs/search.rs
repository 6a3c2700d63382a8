//! Searching in files.

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkFinish, SinkMatch};
use ignore::{DirEntry, WalkBuilder};
use rustix::fs::{CWD, Mode, OFlags, openat};

use super::errors::words;
use super::ignores::Ignores;
use super::pattern::{self, PathGlob};
use super::place::{self, resolve};
use super::stop::{Deadline, Stop};
use crate::fs::{FileKind, FsError, Incomplete, SearchHit, SearchHits, SearchQuery};

/// Files that are searched side by side before their hits are put in order.
const BATCH: usize = 64;
const MAX_THREADS: usize = 4;

/// A longer line is not held in memory; its file is left out.
const MAX_LINE: usize = 32 * 1024 * 1024;

const MAX_SKIPPED: usize = 20;

const REGEX_BYTES: usize = 16 * 1024 * 1024;
const REGEX_CACHE_BYTES: usize = 64 * 1024 * 1024;

pub(super) fn search(query: &SearchQuery, stop: &Stop) -> Result<SearchHits, FsError> {
    let matcher = compile(&query.pattern)?;
    let include = query.include.as_deref().map(pattern::compile).transpose()?;
    let Some(text) = query.root.to_str() else {
        let problem = "the path to search in is not UTF-8".to_owned();
        return Err(FsError::Io { path: query.root.clone(), problem });
    };
    let found = resolve(Path::new("/"), text)?;
    let search = Search {
        query,
        real: found.place.real,
        matcher,
        include,
        deadline: Deadline::new(stop, query.time_limit),
        threads: std::thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS),
    };
    match found.place.kind {
        None => Err(FsError::NotFound { path: query.root.clone() }),
        Some(FileKind::Special) => {
            let kind = found.words.to_owned();
            Err(FsError::NotRegular { path: query.root.clone(), kind })
        }
        Some(FileKind::File) => {
            let mut hits = SearchHits::default();
            search.batch(std::slice::from_ref(&search.real), &mut hits);
            Ok(hits)
        }
        Some(FileKind::Directory) => Ok(search.tree()),
    }
}

/// Not the regex library's drawing of the pattern, but the reason and where it lies.
fn compile(pattern: &str) -> Result<RegexMatcher, FsError> {
    let built = RegexMatcherBuilder::new()
        .crlf(true)
        .size_limit(REGEX_BYTES)
        .dfa_size_limit(REGEX_CACHE_BYTES)
        .build(pattern);
    built.map_err(|error| {
        let problem = match regex_syntax::Parser::new().parse(pattern) {
            Err(regex_syntax::Error::Parse(error)) => {
                at_position(&error.kind().to_string(), error.span().start.column)
            }
            Err(regex_syntax::Error::Translate(error)) => {
                at_position(&error.kind().to_string(), error.span().start.column)
            }
            _ => error.to_string(),
        };
        FsError::Pattern { pattern: pattern.to_owned(), problem }
    })
}

fn at_position(problem: &str, column: usize) -> String {
    format!("{problem} (at character {column})")
}

struct Search<'a> {
    query: &'a SearchQuery,
    /// `query.root` resolved.
    real: PathBuf,
    matcher: RegexMatcher,
    include: Option<PathGlob>,
    deadline: Deadline<'a>,
    threads: usize,
}

#[derive(Default)]
struct Outcome {
    hits: Vec<(u64, String)>,
    skipped: Option<String>,
    stopped: bool,
}

impl Search<'_> {
    fn tree(&self) -> SearchHits {
        let mut hits = SearchHits::default();
        let ignores = Arc::new(Mutex::new(Ignores::new(&self.real)));
        let judge = Arc::clone(&ignores);
        let mut builder = WalkBuilder::new(&self.real);
        // The walker's own filters would open whatever is called an ignore file.
        builder.standard_filters(false).sort_by_file_name(Ord::cmp).filter_entry(move |entry| {
            judge.lock().unwrap_or_else(PoisonError::into_inner).admits(entry)
        });
        let mut batch = Vec::with_capacity(BATCH);
        for entry in builder.build() {
            let left_out = ignores.lock().unwrap_or_else(PoisonError::into_inner).take_left_out();
            for (path, reason) in left_out {
                self.skip(&path, reason, &mut hits);
            }
            if self.deadline.passed() {
                hits.incomplete = Some(Incomplete::TimeLimit);
            }
            if hits.incomplete.is_some() {
                break;
            }
            match entry {
                Ok(entry) => batch.extend(self.wanted(&entry, &mut hits)),
                Err(error) => {
                    let (path, reason) = unreadable(&error);
                    self.skip(&path, reason, &mut hits);
                }
            }
            if batch.len() == BATCH {
                self.batch(&batch, &mut hits);
                batch.clear();
            }
        }
        if hits.incomplete != Some(Incomplete::CountLimit) {
            self.batch(&batch, &mut hits);
        }
        hits
    }

    fn wanted(&self, entry: &DirEntry, hits: &mut SearchHits) -> Option<PathBuf> {
        let file_type = entry.file_type()?;
        if file_type.is_dir() || file_type.is_symlink() {
            return None;
        }
        let relative = entry.path().strip_prefix(&self.real).unwrap_or(entry.path());
        if self.include.as_ref().is_some_and(|include| !include.matches(relative)) {
            return None;
        }
        if !file_type.is_file() {
            self.skip(entry.path(), format!("a {}", place::words_for(file_type)), hits);
            return None;
        }
        Some(entry.path().to_path_buf())
    }

    fn skip(&self, path: &Path, reason: String, hits: &mut SearchHits) {
        hits.skipped_total += 1;
        if hits.skipped.len() < MAX_SKIPPED {
            hits.skipped.push((self.shown(path), reason));
        }
    }

    /// As the caller named the root.
    fn shown(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.real) {
            Ok(relative) if relative.as_os_str().is_empty() => self.query.root.clone(),
            Ok(relative) => self.query.root.join(relative),
            Err(_) => path.to_path_buf(),
        }
    }

    /// Searches `files` and appends what they hold in their order, so that the result does not
    /// depend on which thread was faster.
    fn batch(&self, files: &[PathBuf], hits: &mut SearchHits) {
        for (path, outcome) in files.iter().zip(self.outcomes(files)) {
            if outcome.stopped {
                hits.incomplete = Some(Incomplete::TimeLimit);
            } else {
                hits.files += u64::from(outcome.skipped.is_none());
            }
            if let Some(reason) = outcome.skipped {
                self.skip(path, reason, hits);
            }
            for (line, text) in outcome.hits {
                if hits.hits.len() == self.query.max_matches {
                    hits.incomplete = Some(Incomplete::CountLimit);
                    return;
                }
                hits.hits.push(SearchHit { path: self.shown(path), line, text });
            }
        }
    }

    fn outcomes(&self, files: &[PathBuf]) -> Vec<Outcome> {
        if self.threads == 1 || files.len() < self.threads * 2 {
            let mut searcher = searcher();
            return files.iter().map(|path| self.file(&mut searcher, path)).collect();
        }
        let slots: Vec<Mutex<Outcome>> = files.iter().map(|_| Mutex::default()).collect();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| self.work(files, &next, &slots));
            }
        });
        let unpacked = slots.into_iter().map(Mutex::into_inner);
        unpacked.map(|slot| slot.unwrap_or_else(PoisonError::into_inner)).collect()
    }

    fn work(&self, files: &[PathBuf], next: &AtomicUsize, slots: &[Mutex<Outcome>]) {
        let mut searcher = searcher();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let (Some(path), Some(slot)) = (files.get(index), slots.get(index)) else { return };
            let outcome = self.file(&mut searcher, path);
            *slot.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
        }
    }

    fn file(&self, searcher: &mut Searcher, path: &Path) -> Outcome {
        let mut outcome = Outcome::default();
        if self.deadline.passed() {
            outcome.stopped = true;
            return outcome;
        }
        let file = match open(path) {
            Ok(Some(file)) => file,
            Ok(None) => {
                outcome.skipped = Some("not a regular file".to_owned());
                return outcome;
            }
            Err(error) => {
                outcome.skipped = Some(words(&error));
                return outcome;
            }
        };
        let mut collect = Collect { search: self, outcome, binary: false };
        let reader = Watched { file, deadline: &self.deadline };
        let searched = searcher.search_reader(&self.matcher, reader, &mut collect);
        let Collect { mut outcome, binary, .. } = collect;
        match searched {
            Ok(()) if binary => {
                outcome.hits.clear();
                outcome.skipped = Some("binary".to_owned());
            }
            Ok(()) => {}
            Err(_) if self.deadline.passed() => outcome.stopped = true,
            Err(error) => {
                outcome.hits.clear();
                outcome.skipped = Some(plain(&error));
            }
        }
        outcome
    }
}

fn searcher() -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .line_terminator(grep_matcher::LineTerminator::crlf())
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_LINE))
        .build()
}

/// `None` when it is no regular file any more.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags | OFlags::NOCTTY, Mode::empty())?);
    Ok(file.metadata()?.is_file().then_some(file))
}

/// Reading that ends at the deadline also where nothing matches.
struct Watched<'a> {
    file: File,
    deadline: &'a Deadline<'a>,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.deadline.passed() {
            return Err(io::Error::other("the time limit passed"));
        }
        self.file.read(buffer)
    }
}

struct Collect<'a> {
    search: &'a Search<'a>,
    outcome: Outcome,
    binary: bool,
}

impl Sink for Collect<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        // One more than asked for shows that there are more. Reading goes on to the end of the
        // file, where a NUL byte would still make all of it binary.
        if self.outcome.hits.len() <= self.search.query.max_matches {
            let text = shorten(found.bytes(), self.search.query.max_line_bytes);
            self.outcome.hits.push((found.line_number().unwrap_or_default(), text));
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary = end.binary_byte_offset().is_some();
        Ok(())
    }
}

/// Without its line end; what is cut says so.
fn shorten(line: &[u8], limit: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= limit {
        return String::from_utf8_lossy(line).into_owned();
    }
    let mut end = limit;
    // At most three continuation bytes belong to the character that begins before the cut.
    while end > limit.saturating_sub(3) && line[end] & 0b1100_0000 == 0b1000_0000 {
        end -= 1;
    }
    format!("{} [… of {} bytes]", String::from_utf8_lossy(&line[..end]), line.len())
}

fn unreadable(error: &ignore::Error) -> (PathBuf, String) {
    match error {
        ignore::Error::WithPath { path, err } => (path.clone(), unreadable(err).1),
        ignore::Error::WithDepth { err, .. } => unreadable(err),
        ignore::Error::Io(error) => (PathBuf::new(), plain(error)),
        other => (PathBuf::new(), other.to_string()),
    }
}

/// Without the words that the libraries put around it.
fn plain(error: &io::Error) -> String {
    let text = words(error);
    if text.starts_with("configured allocation limit") {
        return format!("a line is longer than {} MiB", MAX_LINE >> 20);
    }
    let inner = text.strip_prefix("IO error for operation on ").and_then(|rest| {
        let (_path, inner) = rest.rsplit_once(": ")?;
        Some(inner.to_owned())
    });
    inner.unwrap_or(text)
}
