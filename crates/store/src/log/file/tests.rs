//! Devices that refuse what a disk refuses rarely.

use std::fs::OpenOptions;
use std::path::Path;

use super::ActiveFile;
use crate::StoreError;

fn device(path: &str) -> ActiveFile {
    let file = OpenOptions::new().append(true).open(path).unwrap();
    ActiveFile::new(file, Path::new(path), 0).unwrap()
}

#[test]
fn a_write_that_cannot_be_undone_reports_both_errors() {
    let error = device("/dev/full").append(b"line\n").unwrap_err();
    let StoreError::NotUndone { write, .. } = &error else { panic!("{error}") };
    assert!(matches!(**write, StoreError::Full { .. }));
    assert!(error.to_string().starts_with("disk full: /dev/full"), "{error}");
}

#[test]
fn a_refused_sync_is_an_error() {
    let mut file = device("/dev/null");
    file.append(b"line\n").unwrap();
    assert!(matches!(file.sync(), Err(StoreError::NotUndone { .. })));
}

#[test]
fn a_wrong_length_is_seen_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    let file = OpenOptions::new().append(true).create(true).open(&path).unwrap();
    let error = ActiveFile::new(file, &path, 7).unwrap_err();
    assert!(matches!(&error, StoreError::Lost { .. }), "{error}");
    assert!(error.to_string().contains("has 0 bytes instead of 7"), "{error}");
}
