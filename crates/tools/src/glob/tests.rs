use std::path::{Path, PathBuf};

use reins_world::{GlobHits, Incomplete};

use super::{GlobConfig, report};

#[track_caller]
fn check(files: &[&str], total: u64, incomplete: Option<Incomplete>, expected: &str) {
    let hits = GlobHits {
        files: files.iter().map(PathBuf::from).collect(),
        total,
        incomplete,
        ..GlobHits::default()
    };
    assert_eq!(report(&hits, Path::new("/w"), &GlobConfig::default()), expected);
}

#[test]
fn paths_are_relative_and_limits_are_said() {
    check(&[], 0, None, "No files found");
    check(&["/w/b.rs", "/w/a/c.rs", "/o/d.rs"], 3, None, "b.rs\na/c.rs\n/o/d.rs");
    check(&["/w/a\nb"], 1, None, "a\\nb");
    check(
        &["/w/b.rs"],
        7,
        None,
        "b.rs\n\n(Showing the newest 1 of 7 files. Give a narrower pattern or path.)",
    );
    check(
        &[],
        0,
        Some(Incomplete::TimeLimit),
        "No file found so far\n\
         (Incomplete: the time limit of 20000 ms passed. Give a narrower path.)",
    );
    check(
        &["/w/b.rs"],
        1,
        Some(Incomplete::TimeLimit),
        "b.rs\n\n(Incomplete: the time limit of 20000 ms passed. Give a narrower path.)",
    );
}

#[test]
fn folders_that_could_not_be_read_are_counted() {
    let hits = GlobHits { unreadable: 2, ..GlobHits::default() };
    let text = report(&hits, Path::new("/w"), &GlobConfig::default());
    assert_eq!(text, "No files found\n(2 folders could not be read.)");
    let hits = GlobHits { unreadable: 1, ..GlobHits::default() };
    let text = report(&hits, Path::new("/w"), &GlobConfig::default());
    assert_eq!(text, "No files found\n(1 folder could not be read.)");
}
