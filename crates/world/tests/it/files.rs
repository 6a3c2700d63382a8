//! Files for tests.

use std::io::Write;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

pub(crate) fn put(path: &Path, content: impl AsRef<[u8]>) {
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(content.as_ref()).unwrap();
}

pub(crate) fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

pub(crate) fn skipped(needs: &str) {
    reins_testkit::needs_condition(needs, false).unwrap();
}
