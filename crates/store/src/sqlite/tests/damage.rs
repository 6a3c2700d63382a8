//! Bytes of the database that are not what SQLite wrote.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::{all, content, filled, id, in_file, lines};
use crate::medium::{Medium as _, Segment};

/// Overwrites every place where these bytes stand, and returns how many there were.
fn overwrite(path: &Path, bytes: &[u8], with: &[u8]) -> usize {
    let content = fs::read(path).unwrap();
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    let places: Vec<usize> = content
        .windows(bytes.len())
        .enumerate()
        .filter_map(|(at, window)| (window == bytes).then_some(at))
        .collect();
    for place in &places {
        file.write_all_at(with, *place as u64).unwrap();
    }
    places.len()
}

/// What can be read of a segment, in order, and how many stretches cannot.
fn readable(segment: &mut dyn Segment) -> (Vec<u8>, usize) {
    let (mut content, mut damage, mut offset) = (Vec::new(), 0, 0);
    let mut buffer = vec![0; 4096];
    loop {
        match segment.read_at(offset, &mut buffer) {
            Ok(0) => return (content, damage),
            Ok(read) => {
                content.extend(&buffer[..read]);
                offset += read as u64;
            }
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
                let after = segment.after_damage(offset);
                assert!(after > offset);
                (offset, damage) = (after, damage + 1);
            }
        }
    }
}

#[test]
fn damaged_pages_hide_only_what_is_on_them() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("sessions.sqlite");
    let medium = in_file(home.path());
    let mut held = filled(&medium, "damaged", b"");
    let mut active = held.active(0, 0).unwrap();
    for n in 0..400 {
        let line = format!("{n:04}{}\n", ["x", "MARK"][usize::from(n == 200)].repeat(90));
        active.append(line.as_bytes()).unwrap();
    }
    let lines = lines(300);
    drop((held, active, filled(&medium, "whole", &lines), medium));
    // A page with some of the rows becomes noise, as a bad disk makes it.
    let bytes = fs::read(&path).unwrap();
    let marked = bytes.windows(8).position(|window| window == b"MARKMARK").unwrap();
    let page = marked / 4096 * 4096;
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xa5; 4096], page as u64).unwrap();

    let medium = in_file(home.path());
    assert!(content(&medium, "whole", 0) == lines);
    let mut segment = medium.segment(&id("damaged"), 0).unwrap();
    let (read, damage) = readable(&mut *segment);
    let read = String::from_utf8(read).unwrap();
    assert!(damage > 0 && read.lines().count() > 300, "{damage} {}", read.lines().count());
    assert!(read.contains("0000x") && read.contains("0399x") && !read.contains("0200"));
    // Opening such a session goes on behind a copy of what can be read; all of the rest is kept.
    let mut held = medium.take(&id("damaged")).unwrap();
    held.replace(0, &mut read.as_bytes(), "original").unwrap();
    assert_eq!(content(&medium, "damaged", 0), read.as_bytes());
    let length = read.len() as u64;
    held.active(0, length).unwrap().append(b"more\n").unwrap();
}

#[test]
fn damaged_rows_are_damaged_stretches() {
    let home = tempfile::tempdir().unwrap();
    let medium = in_file(home.path());
    let mut held = filled(&medium, "a", b"");
    let mut active = held.active(0, 0).unwrap();
    for n in 0..5 {
        active.append(format!("line {n}\n").as_bytes()).unwrap();
    }
    let sql = ["DELETE FROM chunks WHERE offset = 7", "DELETE FROM chunks WHERE offset = 21"];
    for sql in sql {
        let changed = medium.database.read(|connection| Ok(connection.execute(sql, [])?));
        assert_eq!(changed.unwrap(), Some(1));
    }
    let mut segment = medium.segment(&id("a"), 0).unwrap();
    assert_eq!(readable(&mut *segment), (b"line 0\nline 2\nline 4\n".to_vec(), 2));
    // A torn tail that cannot be copied is kept with the whole segment.
    held.cut(0, 21, "torn").unwrap_err();
    held.cut(0, 7, "torn").unwrap();
    assert_eq!(content(&medium, "a", 0), b"line 0\n");
}

#[test]
fn a_damaged_frame_is_a_damaged_stretch() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("sessions.sqlite");
    let medium = in_file(home.path());
    let lines = lines(5_000);
    let mut held = filled(&medium, "a", &lines);
    held.begin_segment(1).unwrap();
    held.sealer().seal(0).unwrap();
    let sql = "SELECT bytes FROM chunks WHERE is_zst ORDER BY offset LIMIT 1 OFFSET 1";
    let frame = medium
        .database
        .read(|connection| Ok(connection.query_row(sql, [], |row| row.get::<_, Vec<u8>>(0))?));
    let frame = frame.unwrap().unwrap();
    drop((held, medium));
    let part = &frame[frame.len() / 2..][..40];
    let mut other = part.to_vec();
    other[10] ^= 1;
    assert!(overwrite(&path, part, &other) > 0);
    let medium = in_file(home.path());
    let mut segment = medium.segment(&id("a"), 0).unwrap();
    let (read, damage) = readable(&mut *segment);
    assert_eq!(damage, 1);
    assert!(read.len() > lines.len() / 2 && read.len() < lines.len());
    assert!(lines.starts_with(&read[..100_000]) && lines.ends_with(&read[read.len() - 100_000..]));
}

#[test]
fn a_lost_list_is_told() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("sessions.sqlite");
    let medium = in_file(home.path());
    drop(filled(&medium, "session-0999", b"one\n"));
    let identity = medium.database.identity().unwrap().unwrap();
    let rows = medium.database.write(identity, |transaction| {
        let sql = "INSERT INTO sessions (id, header) VALUES (?1, ?2)";
        for n in 0..999 {
            transaction.execute(sql, (format!("session-{n:04}"), b"{\"a\":1}\n"))?;
        }
        Ok(())
    });
    rows.unwrap();
    drop(medium);
    let bytes = fs::read(&path).unwrap();
    let rows = |page: &[u8]| page.windows(11).filter(|w| w == b"session-050").count();
    // The page of the table, not that of an index: it has the headers, too.
    let is_table = |page: &[u8]| page.windows(5).any(|w| w == b"{\"a\":");
    let pages = bytes.chunks(4096).enumerate().filter(|(_, page)| is_table(page));
    let (page, _) = pages.max_by_key(|(_, page)| rows(page)).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xa5; 4096], page as u64 * 4096).unwrap();
    let medium = in_file(home.path());
    let ids = medium.ids().unwrap();
    assert!((800..1000).contains(&ids.sessions.len()), "{}", ids.sessions.len());
    let (first, last) = (id("session-0000"), id("session-0999"));
    assert!(ids.sessions.contains(&first) && ids.sessions.contains(&last));
    assert_eq!(ids.strangers.len(), 1);
    assert!(ids.strangers[0].1.contains("the list of sessions is damaged"), "{ids:?}");
    assert_eq!(all(&mut *medium.segment(&last, 0).unwrap()), b"one\n");
    let error = medium.header(&id("session-0500")).unwrap_err().to_string();
    assert!(error.contains("sessions.sqlite: the database is damaged"), "{error}");
    assert!(error.contains("reins session export"), "{error}");
}
