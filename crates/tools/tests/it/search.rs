use serde_json::json;

use crate::bench::Bench;

async fn tree() -> Bench {
    let bench = Bench::new().await;
    std::fs::create_dir_all(bench.path("src/deep")).unwrap();
    std::fs::create_dir(bench.path(".git")).unwrap();
    bench.put(".gitignore", "*.log\n");
    bench.put("src/a.rs", "fn alpha() {}\nfn beta() {}\n");
    bench.put("src/deep/b.rs", "// alpha\r\n");
    bench.put("noise.log", "alpha\n");
    bench.put("data.bin", b"alpha\0\x01");
    bench
}

#[tokio::test]
async fn names_are_found_below_the_working_directory() {
    let bench = tree().await;
    let mut found: Vec<String> = bench
        .ok("glob", json!({"pattern": "*.rs"}))
        .await
        .text
        .lines()
        .map(str::to_owned)
        .collect();
    found.sort();
    assert_eq!(found, ["src/a.rs", "src/deep/b.rs"]);
    let found = bench.ok("glob", json!({"pattern": "*.rs", "path": "src/deep"})).await;
    assert_eq!(found.text, "src/deep/b.rs");
    let found = bench.ok("glob", json!({"pattern": "*.log"})).await;
    assert_eq!(found.text, "noise.log", "ignored files count");
    assert_eq!(bench.ok("glob", json!({"pattern": "*.zig"})).await.text, "No files found");
    assert_eq!(bench.fails("glob", json!({"pattern": " "})).await.0, "INVALID_ARGS");
    let missing = json!({"pattern": "*", "path": "nowhere"});
    assert_eq!(bench.fails("glob", missing).await.0, "FS_NOT_FOUND");
    let file = json!({"pattern": "*", "path": "src/a.rs"});
    assert_eq!(bench.fails("glob", file).await.0, "FS_NOT_DIRECTORY");
    assert_eq!(bench.fails("glob", json!({"pattern": "[a"})).await.0, "SEARCH_INVALID_PATTERN");
}

#[tokio::test]
async fn lines_are_found_with_their_numbers() {
    let bench = tree().await;
    let found = bench.ok("grep", json!({"pattern": "alpha|beta"})).await;
    assert_eq!(
        found.text.split("\n\n(Not searched").next().unwrap(),
        "Found 3 matches\n\nsrc/a.rs\nLine 1: fn alpha() {}\nLine 2: fn beta() {}\n\n\
         src/deep/b.rs\nLine 1: // alpha"
    );
    assert_eq!(found.meta["matches"], 3);
    let one = bench.ok("grep", json!({"pattern": "alpha", "path": "src/a.rs"})).await;
    assert_eq!(one.text, "Found 1 match\n\nsrc/a.rs\nLine 1: fn alpha() {}");
    let none = bench.ok("grep", json!({"pattern": "alpha", "include": "*.{py,md}"})).await;
    assert_eq!(none.text, "No matches found");
    assert_eq!(bench.fails("grep", json!({"pattern": "(a"})).await.0, "SEARCH_INVALID_PATTERN");
    assert_eq!(bench.fails("grep", json!({"pattern": ""})).await.0, "INVALID_ARGS");
    let not = json!({"pattern": "a", "include": "!*.rs"});
    assert_eq!(bench.fails("grep", not).await.0, "INVALID_ARGS");
}

#[tokio::test]
async fn counts_are_limited_and_it_is_said() {
    let bench = Bench::with(&[("glob", "max_files = 3"), ("grep", "max_matches = 3")]).await;
    for n in 0..9 {
        bench.put(&format!("{n}.txt"), "hit\n");
    }
    let found = bench.ok("glob", json!({"pattern": "*.txt"})).await;
    assert!(found.text.contains("(Showing the newest 3 of 9 files."), "{}", found.text);
    let found = bench.ok("grep", json!({"pattern": "hit"})).await;
    assert!(found.text.starts_with("Showing the first 3 matches; there may be more"));
    assert_eq!(found.meta["incomplete"], true);
}

/// B19a: without time nothing is found, and that is not called nothing.
#[tokio::test]
async fn a_search_that_ran_out_of_time_is_incomplete() {
    let bench = Bench::with(&[("glob", "time_limit_ms = 0"), ("grep", "time_limit_ms = 0")]).await;
    for n in 0..300 {
        bench.put(&format!("{n}.txt"), "hit\n");
    }
    for (tool, pattern) in [("glob", "*.txt"), ("grep", "hit")] {
        let found = bench.ok(tool, json!({"pattern": pattern})).await;
        assert!(
            found.text.contains("(Incomplete: the time limit of 0 ms passed"),
            "{}",
            found.text
        );
        assert!(!found.text.starts_with("No files") && !found.text.starts_with("No matches"));
        assert_eq!(found.meta["incomplete"], true);
    }
}
