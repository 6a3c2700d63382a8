//! What may stand where the file belongs.

use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::Connection;

use super::medium::Pretended;
use super::{everything, kept_in};
use crate::index::Index;

const FILE: &str = "index.sqlite";

/// A home whose file knows all sessions, and what a list shows without any file.
fn filled() -> (tempfile::TempDir, Pretended, String) {
    let home = tempfile::tempdir().unwrap();
    let medium = Pretended::with(120);
    medium.break_log("s-5");
    medium.break_header("s-6");
    everything(&kept_in(home.path()), &medium);
    let expected = format!("{:?}", everything(&Index::new(None), &medium).0);
    (home, medium, expected)
}

fn put(path: &Path, bytes: &[u8]) {
    File::create(path).unwrap().write_all(bytes).unwrap();
}

fn sql(path: &Path, text: &str) {
    Connection::open(path).unwrap().execute_batch(text).unwrap();
}

type PutThere = fn(&Path);

/// What is put in the place of a good file.
const BROKEN: [(&str, PutThere); 17] = [
    ("nothing", |path| fs::remove_file(path).unwrap()),
    ("an empty file", |path| put(path, b"")),
    ("zeros", |path| put(path, &[0; 40_000])),
    ("words", |path| put(path, &b"this is no database, and long enough for one ".repeat(9))),
    ("half of it", |path| {
        let half = fs::metadata(path).unwrap().len() / 2;
        File::options().write(true).open(path).unwrap().set_len(half).unwrap();
    }),
    ("its first bytes", |path| put(path, &fs::read(path).unwrap()[..100])),
    ("only a first page", |path| put(path, &fs::read(path).unwrap()[..16384])),
    ("another program's database", |path| {
        fs::remove_file(path).unwrap();
        sql(path, "CREATE TABLE sessions (x); PRAGMA application_id = 5");
    }),
    ("a database without an owner", |path| {
        fs::remove_file(path).unwrap();
        sql(path, "CREATE TABLE sessions (x)");
    }),
    ("a newer version", |path| sql(path, "PRAGMA user_version = 999999")),
    ("another table", |path| sql(path, "DROP TABLE sessions; CREATE TABLE sessions (id TEXT)")),
    ("no table", |path| sql(path, "DROP TABLE sessions")),
    ("a changed row", |path| sql(path, "UPDATE sessions SET cwd = '/x' WHERE id = 's-9'")),
    ("a row of another session", |path| {
        sql(path, "DELETE FROM sessions WHERE id = 's-8'");
        sql(path, "UPDATE sessions SET id = 's-8' WHERE id = 's-9'");
    }),
    ("an empty folder", |path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }),
    ("a FIFO", |path| {
        fs::remove_file(path).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    }),
    ("a link to nothing", |path| {
        fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink("nothing", path).unwrap();
    }),
];

#[test]
fn whatever_stands_there_the_list_is_right_and_the_file_is_made_anew() {
    let (home, medium, expected) = filled();
    let path = home.path().join(FILE);
    for (name, put_there) in BROKEN {
        put_there(&path);
        for (look, reads) in [("first", true), ("second", false)] {
            let (listing, read) = everything(&kept_in(home.path()), &medium);
            assert_eq!(format!("{listing:?}"), expected, "{name}, {look} look");
            assert_eq!(read > 0, reads, "{name}, {look} look: {read} sessions were read");
        }
        assert!(fs::metadata(&path).unwrap().is_file(), "{name}");
    }
    let mode = fs::symlink_metadata(home.path().join("nothing")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_folder_with_something_in_it_is_left_alone() {
    let (home, medium, expected) = filled();
    let path = home.path().join(FILE);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    put(&path.join("precious"), b"x");
    let (listing, read) = everything(&kept_in(home.path()), &medium);
    assert_eq!((format!("{listing:?}"), read >= 120), (expected, true));
    assert!(path.join("precious").exists());
}

#[test]
fn no_flipped_bit_changes_the_list() {
    let (home, medium, expected) = filled();
    let path = home.path().join(FILE);
    let good = fs::read(&path).unwrap();
    // Every byte of the header, and a sample of everything else.
    let step = good.len() / 200 + 1;
    for at in (0..120).chain((120..good.len()).step_by(step)) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        put(&path, &bytes);
        let (listing, _) = everything(&kept_in(home.path()), &medium);
        assert_eq!(format!("{listing:?}"), expected, "byte {at}");
    }
}

#[test]
fn a_locked_file_is_done_without_and_stays() {
    let (home, medium, expected) = filled();
    let path = home.path().join(FILE);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let (listing, read) = everything(&kept_in(home.path()), &medium);
    assert_eq!((format!("{listing:?}"), read > 0), (expected.clone(), true));
    other.execute_batch("COMMIT").unwrap();
    let (listing, read) = everything(&kept_in(home.path()), &medium);
    assert_eq!((format!("{listing:?}"), read), (expected, 0));
}

#[test]
fn a_reader_does_not_keep_others_from_listing() {
    let (home, medium, expected) = filled();
    let other = Connection::open(home.path().join(FILE)).unwrap();
    other.execute_batch("BEGIN; SELECT * FROM sessions LIMIT 1").unwrap();
    let (listing, read) = everything(&kept_in(home.path()), &medium);
    assert_eq!((format!("{listing:?}"), read), (expected, 0));
}

#[test]
fn a_home_that_is_not_there_is_not_made() {
    let home = tempfile::tempdir().unwrap();
    let absent = home.path().join("absent");
    let medium = Pretended::with(3);
    assert_eq!(everything(&kept_in(&absent), &medium).0.sessions.len(), 3);
    assert!(!absent.exists());
    everything(&kept_in(home.path()), &Pretended::default());
    assert!(!home.path().join(FILE).exists(), "there was nothing to keep");
}

#[test]
fn a_file_that_may_not_be_read_is_made_anew() {
    let (home, medium, expected) = filled();
    let path = home.path().join(FILE);
    fs::set_permissions(&path, Permissions::from_mode(0o000)).unwrap();
    let (listing, _) = everything(&kept_in(home.path()), &medium);
    assert_eq!(format!("{listing:?}"), expected);
    assert_eq!(everything(&kept_in(home.path()), &medium).1, 0);
}
