use std::path::Path;

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
