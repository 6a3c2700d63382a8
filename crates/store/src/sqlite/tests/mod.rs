//! The database as a medium, without the sessions above it.

mod damage;
mod files;

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use reins_schema::SessionId;

use super::SqliteMedium;
use crate::StoreError;
use crate::medium::{Held, Inherit, Medium, NewSession, Segment};

fn id(name: &str) -> SessionId {
    SessionId::new(name)
}

fn in_file(home: &Path) -> SqliteMedium {
    SqliteMedium::in_file(home, "sessions.sqlite", Duration::from_secs(10))
}

fn new<'a>(id: &'a SessionId, lines: &'a [u8]) -> NewSession<'a> {
    let (inherit, sealed, snapshot) = (None, Vec::new(), None);
    NewSession { id, header: b"{\"a\":1}\n", inherit, sealed, lines, snapshot }
}

fn fork<'a>(id: &'a SessionId, parent: &'a SessionId, segments: &[u32]) -> NewSession<'a> {
    let inherit = Inherit { parent, segments: segments.to_vec(), blobs: vec!["blob".to_owned()] };
    NewSession { inherit: Some(inherit), ..new(id, b"fork\n") }
}

/// A session with these lines in its first segment.
fn filled(medium: &SqliteMedium, name: &str, lines: &[u8]) -> Box<dyn Held> {
    let mut held = medium.create(new(&id(name), b"")).unwrap();
    held.active(0, 0).unwrap().append(lines).unwrap();
    held
}

/// All of a segment, read in odd pieces.
fn all(segment: &mut dyn Segment) -> Vec<u8> {
    let mut content = Vec::new();
    let mut buffer = vec![0; 70_001];
    loop {
        match segment.read_at(content.len() as u64, &mut buffer).unwrap() {
            0 => return content,
            read => content.extend(&buffer[..read]),
        }
    }
}

fn content(medium: &SqliteMedium, name: &str, number: u32) -> Vec<u8> {
    all(&mut *medium.segment(&id(name), number).unwrap())
}

/// Lines of every length.
fn lines(count: u32) -> Vec<u8> {
    let line = |n: u32| format!("{{\"n\":{n},\"x\":\"{}\"}}\n", "ab".repeat(n as usize * 7 % 900));
    (0..count).flat_map(|n| line(n).into_bytes()).collect()
}

/// Both places of sessions.
fn with_each(test: impl Fn(&SqliteMedium)) {
    let home = tempfile::tempdir().unwrap();
    test(&in_file(home.path()));
    test(&SqliteMedium::in_memory().unwrap());
}

#[test]
fn what_is_appended_is_read_by_everybody() {
    let home = tempfile::tempdir().unwrap();
    let medium = in_file(home.path());
    let mut held = medium.create(new(&id("a"), b"first\n")).unwrap();
    let mut active = held.active(0, 6).unwrap();
    let mut before = medium.segment(&id("a"), 0).unwrap();
    active.append(b"second\nthird\n").unwrap();
    active.sync().unwrap();
    assert_eq!(active.length(), 19);
    assert_eq!(all(&mut *before), b"first\n", "a reader sees what was there when it began");
    let other = in_file(home.path());
    assert_eq!(content(&other, "a", 0), b"first\nsecond\nthird\n");
    assert_eq!(other.header(&id("a")).unwrap().unwrap(), b"{\"a\":1}\n");
    assert_eq!(other.segments(&id("a")).unwrap().len(), 1);
    assert!(matches!(held.active(0, 6), Err(StoreError::Lost { .. })));
    drop((medium, held, active));
    assert_eq!(content(&in_file(home.path()), "a", 0), b"first\nsecond\nthird\n");
}

#[test]
fn one_holder_at_a_time() {
    with_each(|medium| {
        let held = medium.create(new(&id("a"), b"")).unwrap();
        assert_eq!(medium.holder(&id("a")).unwrap().pid, std::process::id());
        assert!(matches!(medium.take(&id("a")), Err(StoreError::Busy { .. })));
        let again = medium.create(new(&id("a"), b""));
        assert!(matches!(again, Err(StoreError::AlreadyExists { .. })));
        drop(held);
        assert!(medium.holder(&id("a")).is_none());
        let again = medium.create(new(&id("a"), b""));
        assert!(matches!(again, Err(StoreError::AlreadyExists { .. })));
        let held = medium.take(&id("a")).unwrap();
        held.remove().unwrap();
        assert!(matches!(medium.take(&id("a")), Err(StoreError::NotFound { .. })));
        assert!(medium.ids().unwrap().sessions.is_empty());
        medium.create(new(&id("a"), b"")).unwrap();
        let error = medium.take(&id("ab")).unwrap_err();
        assert!(error.to_string().contains("did you mean `a`?"), "{error}");
    });
}

#[test]
fn a_sealed_segment_has_the_same_content_at_every_offset() {
    with_each(|medium| {
        let lines = lines(3_000);
        let mut held = medium.create(new(&id("a"), b"")).unwrap();
        let mut active = held.active(0, 0).unwrap();
        let mut rest = &lines[..];
        while !rest.is_empty() {
            let end = rest.iter().take(3_000).rposition(|b| *b == b'\n').unwrap() + 1;
            active.append(&rest[..end]).unwrap();
            rest = &rest[end..];
        }
        let plain = medium.segments(&id("a")).unwrap()[0];
        assert_eq!((plain.is_sealed, plain.stored), (false, lines.len() as u64));
        let mut early = medium.segment(&id("a"), 0).unwrap();
        let mut start = [0; 10];
        early.read_at(0, &mut start).unwrap();
        held.begin_segment(1).unwrap();
        held.sealer().seal(0).unwrap();
        held.sealer().seal(0).unwrap();
        let sealed = medium.segments(&id("a")).unwrap();
        assert!(sealed[0].is_sealed && !sealed[1].is_sealed);
        assert!(sealed[0].stored < plain.stored / 4, "{sealed:?}");
        assert!(all(&mut *early) == lines);
        assert!(content(medium, "a", 0) == lines);
        let mut segment = medium.segment(&id("a"), 0).unwrap();
        for offset in (0..lines.len()).step_by(997) {
            let mut buffer = [0; 50];
            let read = segment.read_at(offset as u64, &mut buffer).unwrap();
            assert!(read > 0 && lines[offset..].starts_with(&buffer[..read]));
            let landing = segment.landing(offset as u64);
            assert!(landing <= offset as u64 && (offset as u64) < landing + (600 << 10));
            assert!(landing == 0 || lines[usize::try_from(landing).unwrap() - 1] == b'\n');
        }
        assert!(matches!(active.append(b"late\n"), Err(StoreError::Lost { .. })));
        assert!(held.begin_segment(1).is_err());
    });
}

#[test]
fn forks_share_and_lose_nothing_with_their_parent() {
    with_each(|medium| {
        let mut parent = filled(medium, "parent", b"one\n");
        medium.put_blob(&id("parent"), "blob", b"bytes").unwrap();
        medium.put_blob(&id("parent"), "blob", b"bytes").unwrap();
        let early = medium.create(fork(&id("early"), &id("parent"), &[0]));
        assert!(early.unwrap_err().to_string().contains("segment 0 of session `parent` is still"));
        parent.begin_segment(1).unwrap().append(b"two\n").unwrap();
        parent.sealer().seal(0).unwrap();
        medium.create(fork(&id("child"), &id("parent"), &[0])).unwrap();
        let mut child = medium.take(&id("child")).unwrap();
        child.begin_segment(2).unwrap();
        child.sealer().seal(1).unwrap();
        medium.create(fork(&id("grandchild"), &id("child"), &[0, 1])).unwrap();
        assert_eq!(count(medium, "segments"), 5, "shared ones are there once");
        // What happens to the parent is the parent's.
        parent.replace(0, &mut &b"ONE\n"[..], "original").unwrap();
        assert_eq!(content(medium, "parent", 0), b"ONE\n");
        parent.remove().unwrap();
        child.remove().unwrap();
        assert_eq!(content(medium, "grandchild", 0), b"one\n");
        assert_eq!(content(medium, "grandchild", 1), b"fork\n");
        let blob = medium.blob(&id("grandchild"), "blob", 100).unwrap();
        assert_eq!(blob.unwrap(), b"bytes");
        assert_eq!(medium.blobs(&id("grandchild")).unwrap(), [("blob".to_owned(), 5)]);
        assert!(medium.blob(&id("grandchild"), "blob", 4).is_err());
        medium.take(&id("grandchild")).unwrap().remove().unwrap();
        for table in ["sessions", "segments", "chunks", "session_segments", "blobs", "kept"] {
            assert_eq!(count(medium, table), 0, "{table}");
        }
    });
}

fn count(medium: &SqliteMedium, table: &str) -> u64 {
    let sql = format!("SELECT count(*) FROM {table}");
    let count = medium
        .database
        .read(|connection| Ok(connection.query_row(&sql, [], |row| row.get::<_, i64>(0))?));
    count.unwrap().unwrap().cast_unsigned()
}

/// The bytes that were kept under a name.
fn kept(medium: &SqliteMedium, name: &str) -> Vec<u8> {
    let sql = "SELECT id, length FROM kept JOIN segments ON id = segment WHERE name = ?1";
    let (segment, length) = medium
        .database
        .read(|connection| {
            Ok(connection.query_row(sql, [name], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?)
        })
        .unwrap()
        .unwrap();
    let database = std::sync::Arc::clone(&medium.database);
    let length = length.cast_unsigned();
    all(&mut super::SqliteSegment::new(database, segment, length, name.into()))
}

#[test]
fn what_repairs_take_away_is_kept() {
    with_each(|medium| {
        let mut held = filled(medium, "a", b"one\ntwo\nthr");
        held.cut(0, 8, "torn").unwrap();
        assert_eq!(content(medium, "a", 0), b"one\ntwo\n");
        assert_eq!(kept(medium, "torn"), b"thr");
        held.active(0, 8).unwrap().append(b"three\n").unwrap();
        held.begin_segment(1).unwrap();
        held.sealer().seal(0).unwrap();
        held.replace(0, &mut &b"one\nthree\n"[..], "original").unwrap();
        assert_eq!(content(medium, "a", 0), b"one\nthree\n");
        assert_eq!(kept(medium, "original"), b"one\ntwo\nthree\n");
        assert!(medium.segments(&id("a")).unwrap()[0].is_sealed, "a sealed one stays sealed");
        let mut keep = |bytes: &[u8]| held.keep("branch", &mut &bytes[..]).unwrap();
        assert_eq!(keep(b"branch\n"), "branch");
        assert_eq!(keep(b"branch\n"), "branch", "the same again is nothing new");
        assert_eq!(keep(b"another\n"), "branch-2");
        assert_eq!(keep(b"another\n"), "branch-2");
        assert_eq!(kept(medium, "branch"), b"branch\n");
        assert_eq!(kept(medium, "branch-2"), b"another\n");
        held.put_header(b"new", "header").unwrap();
        assert_eq!(medium.header(&id("a")).unwrap().unwrap(), b"new");
        assert_eq!(kept(medium, "header"), b"{\"a\":1}\n");
        held.replace(1, &mut &b"x\n"[..], "empty").unwrap();
        held.active(1, 2).unwrap().append(b"y\n").unwrap();
        assert_eq!(content(medium, "a", 1), b"x\ny\n");
        held.put_snapshot(b"s1").unwrap();
        held.put_snapshot(b"s2").unwrap();
        assert_eq!(medium.snapshot(&id("a")).unwrap(), b"s2");
        held.drop_snapshot().unwrap();
        assert_eq!(medium.snapshot(&id("a")), None);
    });
}

#[test]
fn every_change_shows_in_the_stamp() {
    with_each(|medium| {
        let mut held = filled(medium, "a", b"one\n");
        let mut last = medium.stamp(&id("a"), 0).unwrap();
        assert_eq!(last.bytes, 4);
        assert_eq!(medium.stamp(&id("a"), 0), Some(last));
        type Change = fn(&mut dyn Held);
        let changes: [Change; 5] = [
            |held| held.active(0, 4).unwrap().append(b"two\n").unwrap(),
            |held| held.set_archived(true).unwrap(),
            |held| drop(held.put_header(b"new", "kept").unwrap()),
            |held| drop(held.cut(0, 4, "torn").unwrap()),
            |held| drop(held.replace(0, &mut &b"ONE\n"[..], "original").unwrap()),
        ];
        for change in changes {
            change(&mut *held);
            let now = medium.stamp(&id("a"), 0).unwrap();
            assert_ne!(now, last);
            last = now;
        }
        assert!(medium.is_archived(&id("a")));
        held.begin_segment(1).unwrap();
        assert_eq!(medium.stamp(&id("a"), 0), None);
        assert_eq!(medium.stamp(&id("a"), 1).unwrap().bytes, 0);
        assert_eq!(medium.stamp(&id("b"), 0), None);
    });
}

#[test]
fn an_import_brings_its_segments() {
    with_each(|medium| {
        let (a, b) = (lines(2_000), lines(3));
        let session = id("a");
        let sealed: Vec<(u32, Box<dyn Read>)> = vec![(0, Box::new(&a[..])), (1, Box::new(&b[..]))];
        let session = NewSession { sealed, snapshot: Some(b"s"), ..new(&session, b"last\n") };
        medium.create(session).unwrap();
        assert!(content(medium, "a", 0) == a);
        assert!(content(medium, "a", 1) == b);
        assert_eq!(content(medium, "a", 2), b"last\n");
        assert_eq!(medium.snapshot(&id("a")).unwrap(), b"s");
        assert!(medium.segments(&id("a")).unwrap()[1].is_sealed);
        assert!(medium.segment(&id("a"), 3).is_err());
    });
}
