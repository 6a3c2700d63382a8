//! The database file: made, shared, refused, replaced.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::Connection;

use super::{content, filled, id, in_file, lines, new};
use crate::StoreError;
use crate::medium::Medium as _;
use crate::sqlite::SqliteMedium;

fn put(path: &Path, bytes: &[u8]) {
    use std::io::Write as _;
    fs::File::create(path).unwrap().write_all(bytes).unwrap();
}

/// Every file below a folder with its content.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
            found.insert(path, Vec::new());
        } else {
            let content = fs::read(&path).unwrap();
            found.insert(path, content);
        }
    }
    found
}

#[test]
fn nothing_is_made_by_looking() {
    let home = tempfile::tempdir().unwrap();
    let medium = in_file(&home.path().join("home"));
    assert!(medium.ids().unwrap().sessions.is_empty());
    assert!(matches!(medium.take(&id("a")), Err(StoreError::NotFound { .. })));
    assert!(matches!(medium.put_blob(&id("a"), "b", b""), Err(StoreError::NotFound { .. })));
    assert_eq!((medium.stamp(&id("a"), 0), medium.snapshot(&id("a"))), (None, None));
    assert!(tree(home.path()).is_empty());
}

#[test]
fn only_the_owner_reads_it() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("home");
    let medium = in_file(&folder);
    let held = filled(&medium, "a", b"secret\n");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files = ["sessions.sqlite", "sessions.sqlite-wal", "sessions.sqlite-shm", "leases/a"];
    for name in files {
        assert_eq!(mode(&folder.join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&folder.join("leases")), 0o700);
    drop(held);
}

#[test]
fn what_is_not_ours_is_refused_untouched() {
    let foreign = |sql: &str, path: &Path| {
        let connection = Connection::open(path).unwrap();
        connection.execute_batch(sql).unwrap();
        connection.close().unwrap();
    };
    type Make<'a> = Box<dyn Fn(&Path) + 'a>;
    let cases: Vec<(&str, Make<'_>, &str)> = vec![
        ("text", Box::new(|path| put(path, b"my notes\n")), "this is no database"),
        ("long text", Box::new(|path| put(path, &lines(500))), "this is no database"),
        ("zeros", Box::new(|path| put(path, &[0; 8192])), "this is no database"),
        ("another's", Box::new(|path| foreign("CREATE TABLE t (a)", path)), "another program's"),
        (
            "another's with an id and changes",
            Box::new(|path| {
                foreign("PRAGMA application_id = 7; PRAGMA journal_mode = WAL", path);
            }),
            "another program's",
        ),
        (
            "newer",
            Box::new(|path| {
                let sql = "PRAGMA application_id = 0x5265696e; PRAGMA user_version = 99; \
                           CREATE TABLE t (a)";
                foreign(sql, path);
            }),
            "sessions.sqlite is a database of version 99, newer than this version's 1; upgrade",
        ),
        ("a folder", Box::new(|path| fs::create_dir(path).unwrap()), "a folder stands where"),
        (
            "changes without their database",
            Box::new(|path| put(&path.with_file_name("sessions.sqlite-wal"), b"changes")),
            "last changes still are in",
        ),
    ];
    for (name, make, words) in cases {
        let home = tempfile::tempdir().unwrap();
        make(&home.path().join("sessions.sqlite"));
        let before = tree(home.path());
        let medium = in_file(home.path());
        let errors = [
            medium.ids().map(|_| ()).unwrap_err(),
            medium.take(&id("a")).map(|_| ()).unwrap_err(),
            medium.create(new(&id("a"), b"")).map(|_| ()).unwrap_err(),
        ];
        drop(medium);
        for error in errors {
            let text = error.to_string();
            assert!(text.contains(words) && text.contains("sessions.sqlite"), "{name}: {text}");
        }
        assert!(tree(home.path()) == before, "{name}");
    }
}

#[test]
fn an_empty_file_becomes_the_database() {
    let home = tempfile::tempdir().unwrap();
    put(&home.path().join("sessions.sqlite"), b"");
    let medium = in_file(home.path());
    assert!(medium.ids().unwrap().sessions.is_empty());
    drop(filled(&medium, "a", b"one\n"));
    assert_eq!(content(&medium, "a", 0), b"one\n");
}

/// Writes its own name into a session of that name.
fn make_and_write(home: &Path, name: &str) {
    let session = id(name);
    let medium = in_file(home);
    let mut held = loop {
        match medium.create(new(&session, b"")) {
            Ok(held) => break held,
            Err(e) if e.to_string().contains("is making the database") => {}
            Err(e) => panic!("{e}"),
        }
    };
    held.active(0, 0).unwrap().append(name.as_bytes()).unwrap();
}

#[test]
fn racing_makers_share_one_database() {
    for round in 0..10 {
        let home = tempfile::tempdir().unwrap();
        let dead = home.path().join(".sessions.sqlite.2000000000-0.tmp");
        put(&dead, b"left by a killed process");
        if round % 2 == 0 {
            put(&home.path().join("sessions.sqlite"), b"");
        }
        std::thread::scope(|scope| {
            for writer in 0..6 {
                let home = home.path();
                scope.spawn(move || make_and_write(home, &format!("writer-{writer}")));
            }
        });
        let medium = in_file(home.path());
        assert_eq!(medium.ids().unwrap().sessions.len(), 6);
        for writer in 0..6 {
            let name = format!("writer-{writer}");
            assert_eq!(content(&medium, &name, 0), name.as_bytes());
        }
        drop(medium);
        let names: Vec<String> = fs::read_dir(home.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(names.iter().all(|name| !name.contains(".tmp")), "{names:?}");
    }
}

#[test]
fn a_writer_notices_that_its_database_was_swapped() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("sessions.sqlite");
    let medium = in_file(home.path());
    let mut held = filled(&medium, "a", b"one\n");
    let mut active = held.active(0, 4).unwrap();
    fs::rename(&path, home.path().join("aside")).unwrap();
    // What SQLite has not moved into it yet would be lost: told, not begun anew.
    let error = active.append(b"two\n").unwrap_err();
    assert!(error.to_string().contains("last changes still are in"), "{error}");
    fs::remove_file(home.path().join("sessions.sqlite-wal")).unwrap();
    let error = active.append(b"two\n").unwrap_err();
    assert!(error.to_string().contains("was removed: another program"), "{error}");
    drop(filled(&in_file(home.path()), "b", b""));
    let error = active.append(b"two\n").unwrap_err();
    assert!(error.to_string().contains("was replaced: another program"), "{error}");
    assert_eq!(medium.ids().unwrap().sessions, [id("b")]);
}

#[test]
fn a_foreign_change_stops_the_writer() {
    for (sql, words) in [
        ("UPDATE segments SET length = 2", "has 2 bytes instead of 4 in segment 0"),
        ("UPDATE segments SET is_sealed = 1", "has a sealed segment 0"),
        ("DELETE FROM sessions; DELETE FROM segments", "has no segment 0 any more"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let medium = in_file(home.path());
        let mut held = filled(&medium, "a", b"one\n");
        let mut active = held.active(0, 4).unwrap();
        let other = Connection::open(home.path().join("sessions.sqlite")).unwrap();
        other.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        other.execute_batch(sql).unwrap();
        let error = active.append(b"two\n").unwrap_err();
        assert!(matches!(error, StoreError::Lost { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_long_writer_elsewhere_is_told_and_nothing_is_lost() {
    let home = tempfile::tempdir().unwrap();
    let medium = SqliteMedium::in_file(home.path(), "sessions.sqlite", Duration::from_millis(30));
    let mut held = filled(&medium, "a", b"one\n");
    let mut active = held.active(0, 4).unwrap();
    let other = Connection::open(home.path().join("sessions.sqlite")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = active.append(b"two\n").unwrap_err();
    let text = error.to_string();
    assert!(text.contains("has been writing into it for more than 30 ms"), "{text}");
    assert_eq!(content(&medium, "a", 0), b"one\n", "readers go on");
    other.execute_batch("ROLLBACK").unwrap();
    active.append(b"two\n").unwrap();
    assert_eq!(content(&medium, "a", 0), b"one\ntwo\n");
}

#[test]
fn an_upgrade_by_a_newer_program_stops_this_one() {
    let home = tempfile::tempdir().unwrap();
    let medium = in_file(home.path());
    let mut held = filled(&medium, "a", b"one\n");
    let mut active = held.active(0, 4).unwrap();
    let other = Connection::open(home.path().join("sessions.sqlite")).unwrap();
    other.execute_batch("PRAGMA user_version = 2").unwrap();
    let error = active.append(b"two\n").unwrap_err();
    assert!(matches!(error, StoreError::NewerDatabase { found: 2, known: 1, .. }), "{error}");
}

/// What a process leaves that dies while it moves changes into the database: a first page that
/// promises more pages than the file has yet. The others are in the write-ahead log.
#[test]
fn a_half_moved_log_is_no_damage() {
    use std::os::unix::fs::FileExt as _;
    let (home, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let medium = in_file(home.path());
    let lines = lines(200);
    let held = filled(&medium, "a", &lines);
    for name in ["sessions.sqlite", "sessions.sqlite-wal"] {
        fs::copy(home.path().join(name), copy.path().join(name)).unwrap();
    }
    drop((held, medium));
    let path = copy.path().join("sessions.sqlite");
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let pages = u32::try_from(fs::metadata(&path).unwrap().len() / 4096).unwrap();
    file.write_all_at(&(pages + 20).to_be_bytes(), 28).unwrap();
    // The count is believed when the counter of changes beside it says so.
    file.write_all_at(&[0, 0, 0, 99], 24).unwrap();
    file.write_all_at(&[0, 0, 0, 99], 92).unwrap();
    drop(file);
    let medium = in_file(copy.path());
    assert!(content(&medium, "a", 0) == lines);
    drop(filled(&medium, "b", b"one\n"));
}

#[test]
fn removal_gives_space_back() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("sessions.sqlite");
    let medium = in_file(home.path());
    let held = filled(&medium, "a", &lines(20_000));
    drop(filled(&medium, "b", b"one\n"));
    let reopened = |medium: SqliteMedium| {
        drop(medium);
        (fs::metadata(&path).unwrap().len(), in_file(home.path()))
    };
    held.remove().unwrap();
    let (size, medium) = reopened(medium);
    assert!(size < 200_000, "{size}");
    assert_eq!(content(&medium, "b", 0), b"one\n");
    assert!(!home.path().join("leases/a").exists());
}
