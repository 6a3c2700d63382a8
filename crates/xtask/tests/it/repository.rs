use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The gate: `cargo test` fails where this repository breaks one of its own rules.
#[test]
fn this_repository_is_tidy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let report = reins_xtask::tidy(&root).unwrap();
    let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{} findings:\n{}", found.len(), found.join("\n"));
    // A walk that lost its way would find nothing, too.
    assert!(report.crates >= 14, "only {} crates were read", report.crates);
    assert!(report.files >= 30, "only {} files were read", report.files);
}

/// `cargo test --workspace` runs this package's tests last, so the count stands near the end.
#[test]
fn the_number_of_skipped_tests_is_said() {
    let skips = std::env::var_os("REINS_TEST_SKIPS").map_or_else(skipped_file, PathBuf::from);
    let Ok(lines) = std::fs::read_to_string(&skips) else { return };
    let count = lines.lines().count();
    let note = format!("{count} tests were SKIPPED:\n{lines}");
    std::io::stderr().write_all(note.as_bytes()).unwrap();
    std::fs::remove_file(&skips).unwrap();
}

/// Where testkit notes skips: `<target>/skipped.txt`.
fn skipped_file() -> PathBuf {
    let program = std::env::current_exe().unwrap();
    program.ancestors().nth(3).unwrap().join("skipped.txt")
}
