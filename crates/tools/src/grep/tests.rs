use std::path::{Path, PathBuf};

use reins_world::{Incomplete, SearchHit, SearchHits};

use super::{GrepConfig, report};

fn hit(path: &str, line: u64, text: &str) -> SearchHit {
    SearchHit { path: PathBuf::from(path), line, text: text.to_owned() }
}

#[track_caller]
fn check(hits: &SearchHits, expected: &str) {
    assert_eq!(report(hits, Path::new("/w"), &GrepConfig::default()), expected);
}

#[test]
fn matches_stand_under_their_file() {
    let hits = vec![hit("/w/a.rs", 3, "fn a"), hit("/w/a.rs", 9, "  fn b"), hit("/o/c", 1, "fn")];
    check(
        &SearchHits { hits, files: 2, ..SearchHits::default() },
        "Found 3 matches\n\na.rs\nLine 3: fn a\nLine 9:   fn b\n\n/o/c\nLine 1: fn",
    );
    check(&SearchHits::default(), "No matches found");
}

#[test]
fn an_incomplete_search_never_says_that_nothing_is_there() {
    let late =
        SearchHits { incomplete: Some(Incomplete::TimeLimit), files: 12, ..SearchHits::default() };
    check(
        &late,
        "No match found so far\n\n(Incomplete: the time limit of 20000 ms passed after 12 files. \
         Give a narrower path or include.)",
    );
    let many = SearchHits {
        hits: vec![hit("/w/a", 1, "x")],
        incomplete: Some(Incomplete::CountLimit),
        ..SearchHits::default()
    };
    check(
        &many,
        "Showing the first 1 match; there may be more\n\na\nLine 1: x\n\n\
         (Give a narrower pattern, path or include to see the rest.)",
    );
}

#[test]
fn skipped_files_are_named_up_to_a_limit() {
    let skipped = (0..5).map(|n| (PathBuf::from(format!("/w/{n}.bin")), "binary".into())).collect();
    check(
        &SearchHits { skipped, skipped_total: 9, ..SearchHits::default() },
        "No matches found\n\n(Not searched: 9: 0.bin (binary), 1.bin (binary), 2.bin (binary), …)",
    );
}

#[test]
fn the_whole_answer_is_bounded() {
    let hits = (0..500).map(|n| hit("/w/a", n, &"x".repeat(2000))).collect();
    let text = report(
        &SearchHits { hits, ..SearchHits::default() },
        Path::new("/w"),
        &GrepConfig::default(),
    );
    assert!(text.len() < 48_200 && text.contains("bytes left out"), "{}", text.len());
}
