use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::Bench;

fn edit(path: &str, old: &str, new: &str) -> Value {
    json!({"file_path": path, "old_string": old, "new_string": new})
}

async fn bench_with(name: &str, content: impl AsRef<[u8]>) -> Bench {
    let bench = Bench::new().await;
    bench.put(name, content);
    bench.ok("read", json!({"file_path": name})).await;
    bench
}

/// B01: line ends of the file survive.
#[tokio::test]
async fn crlf_files_stay_crlf() {
    let bench = bench_with("a.txt", "one\r\ntwo\r\nthree\r\n").await;
    let answer = bench.ok("edit", edit("a.txt", "one\ntwo", "1\n2")).await;
    assert_eq!(bench.text("a.txt"), "1\r\n2\r\nthree\r\n");
    assert_eq!(
        answer.text,
        "Edited `a.txt`: 1 replacement, line 1. No exact match: found by ignoring differences in \
         line ends. New line ends were written as CRLF, like those of the file."
    );
    assert_eq!(answer.meta["rule"], "line ends");
    assert!(answer.meta["diff"].as_str().unwrap().contains("+1\r\n+2\r\n"), "{}", answer.meta);
}

/// B03: a change of line ends really happens.
#[tokio::test]
async fn line_ends_can_be_changed() {
    let bench = bench_with("a.txt", "x\r\ny\r\n").await;
    let (code, _) = bench.fails("edit", edit("a.txt", "x\ny", "x\r\ny")).await;
    assert_eq!(code, "FS_EDIT_NO_CHANGE");
    bench.ok("edit", edit("a.txt", "x\r\ny", "x\ny")).await;
    assert_eq!(bench.text("a.txt"), "x\ny\r\n");
}

/// B04: text in an older encoding can be read and edited; its other bytes stay.
#[tokio::test]
async fn files_in_other_encodings_keep_their_bytes() {
    for tail in [&b"caf\xE9\n"[..], b"\xD6\xD0\xCE\xC4\r\n"] {
        let before = [b"n = 1\n# ", tail].concat();
        let bench = bench_with("a.txt", &before).await;
        let shown = bench.ok("read", json!({"file_path": "a.txt"})).await;
        assert!(shown.text.contains("Not UTF-8"), "{}", shown.text);
        bench.ok("edit", edit("a.txt", "n = 1", "n = 2")).await;
        assert_eq!(bench.get("a.txt"), [b"n = 2\n# ", tail].concat());
    }
}

/// B06, B07: typographic characters match only where they are meant, and it is said.
#[tokio::test]
async fn typographic_characters_match_once() {
    let bench =
        bench_with("a.md", "（最大３）— ok\nx\nsay “hi”\n10\u{202f}km, total \u{2212} 5\n").await;
    let answer = bench.ok("edit", edit("a.md", "say \"hi\"", "say \"bye\"")).await;
    assert!(answer.text.contains("look-alike characters"), "{}", answer.text);
    bench.ok("edit", edit("a.md", "10 km, total - 5", "10 km, total - 6")).await;
    let expected = "（最大３）— ok\nx\nsay “bye”\n10\u{202f}km, total \u{2212} 6\n";
    assert_eq!(bench.text("a.md"), expected);
    let (code, message) = bench.fails("edit", edit("a.md", "20 km, total - 6", "z")).await;
    assert_eq!(code, "FS_EDIT_NOT_FOUND");
    assert!(message.contains("U+202F (line 4, column 3)"), "{message}");
    assert_eq!(bench.text("a.md"), expected);
}

/// B08: several places are counted and named.
#[tokio::test]
async fn several_places_are_named() {
    let bench = bench_with("a.py", "x = 0\ny = 1\nx = 0\nx = 0\n").await;
    let (code, message) = bench.fails("edit", edit("a.py", "x = 0", "x = 1")).await;
    assert_eq!(code, "FS_AMBIGUOUS_EDIT");
    assert!(message.contains("3 times in `a.py`: lines 1, 3, 4."), "{message}");
    let mut all = edit("a.py", "x = 0", "x = 1");
    all["replace_all"] = true.into();
    let answer = bench.ok("edit", all).await;
    assert_eq!(answer.text, "Edited `a.py`: 3 replacements, lines 1, 3, 4.");
    assert_eq!(bench.text("a.py"), "x = 1\ny = 1\nx = 1\nx = 1\n");
}

#[tokio::test]
async fn only_what_was_read_is_edited() {
    let bench = Bench::new().await;
    bench.put("a", "one\n");
    assert_eq!(bench.fails("edit", edit("a", "one", "two")).await.0, "FS_NOT_OBSERVED");
    bench.ok("read", json!({"file_path": "a"})).await;
    bench.put("a", "one\nmore\n");
    let (code, message) = bench.fails("edit", edit("a", "one", "two")).await;
    assert_eq!(code, "FS_STALE_VERSION");
    assert!(message.contains("read it again"), "{message}");
    assert_eq!(bench.text("a"), "one\nmore\n");
    bench.ok("read", json!({"file_path": "a"})).await;
    bench.ok("edit", edit("a", "one", "two")).await;
    bench.ok("edit", edit("a", "two\n", "three\n")).await;
    assert_eq!(bench.text("a"), "three\nmore\n");
    assert_eq!(bench.fails("edit", edit("absent", "a", "b")).await.0, "FS_NOT_FOUND");
    assert_eq!(bench.fails("edit", edit("a", "", "b")).await.0, "INVALID_ARGS");
    assert_eq!(bench.fails("edit", edit("a", "b", "b")).await.0, "INVALID_ARGS");
}

#[tokio::test]
async fn a_file_over_the_limit_is_refused() {
    let bench = Bench::with(&[("edit", "max_file_bytes = 10")]).await;
    bench.put("a", "0123456789x");
    bench.ok("read", json!({"file_path": "a"})).await;
    assert_eq!(bench.fails("edit", edit("a", "x", "y")).await.0, "FS_TOO_LARGE");
}

#[tokio::test]
async fn byte_order_mark_and_missing_final_line_end_stay() {
    let bench = bench_with("a", "\u{feff}one\r\ntwo").await;
    bench.ok("edit", edit("a", "one\ntwo", "one\nTWO\nthree")).await;
    assert_eq!(bench.text("a"), "\u{feff}one\r\nTWO\r\nthree");
}

/// Of two edits built on one content, run at once, one wins and the other is told, whether files
/// must be read or not.
#[tokio::test]
async fn of_two_edits_at_once_none_is_lost_silently() {
    for config in [&[][..], &[ALONE]] {
        let bench = Bench::with(config).await;
        let mut refused = 0;
        for _ in 0..20 {
            bench.put("a", "one two");
            bench.ok("read", json!({"file_path": "a"})).await;
            let (first, second) = tokio::join!(
                bench.run("edit", edit("a", "one", "1")),
                bench.run("edit", edit("a", "two", "2")),
            );
            let (expected, failure) = match (first, second) {
                (Ok(_), Ok(_)) => ("1 2", None),
                (Ok(_), Err(failure)) => ("1 two", Some(failure)),
                (Err(failure), Ok(_)) => ("one 2", Some(failure)),
                (Err(first), Err(second)) => panic!("both failed: {first}, {second}"),
            };
            assert_eq!(bench.text("a"), expected);
            let Some(failure) = failure else { continue };
            refused += 1;
            assert_eq!(failure.code, "FS_STALE_VERSION");
            let look = if config.is_empty() { "; read it again" } else { "; look at it again" };
            assert!(failure.message.contains(look), "{}", failure.message);
        }
        assert!(refused > 0, "{config:?}: they never met");
    }
}

/// An editor without tools to read with.
const ALONE: (&str, &str) = ("edit", "require_read = false");

#[tokio::test]
async fn without_a_read_a_file_that_others_change_can_be_edited_again() {
    let bench = Bench::with(&[ALONE]).await;
    bench.put("a", "one\n");
    bench.ok("edit", edit("a", "one", "two")).await;
    bench.put("a", "two\nby the shell\n");
    bench.ok("edit", edit("a", "two", "three")).await;
    assert_eq!(bench.text("a"), "three\nby the shell\n");
    // Made again by the shell.
    std::fs::remove_file(bench.path("a")).unwrap();
    assert_eq!(bench.fails("edit", edit("a", "three", "x")).await.0, "FS_NOT_FOUND");
    bench.put("a", "three\n");
    bench.ok("edit", edit("a", "three", "four")).await;
    assert_eq!(bench.text("a"), "four\n");
}

/// Everything that the model is told, with other file tools and without.
#[tokio::test]
async fn an_editor_alone_names_no_tool_that_is_not_there() {
    let names = ["`read`", "`write`", "`glob`", "Read the file", "use write", "numbers that"];
    let mut named = Vec::new();
    for config in [&[][..], &[ALONE]] {
        let bench = Bench::with(config).await;
        bench.put("a", "one\n");
        bench.put("b", b"\0");
        bench.ok("read", json!({"file_path": "a"})).await;
        bench.put("gone", "x");
        bench.ok("read", json!({"file_path": "gone"})).await;
        std::fs::remove_file(bench.path("gone")).unwrap();
        std::fs::create_dir(bench.path("folder")).unwrap();
        let mut told = bench.tool("edit").schema().description.clone();
        for (path, old) in [
            ("a", ""),
            ("a", "two"),
            ("a", "1: one"),
            ("absent", "x"),
            ("gone", "x"),
            ("folder", "x"),
            ("b", "x"),
        ] {
            told.push_str(&bench.fails("edit", edit(path, old, "new")).await.1);
        }
        named.push(names.iter().filter(|name| told.contains(**name)).count());
    }
    assert_eq!(named, [names.len(), 0]);
}

/// What would take long is not begun for large texts, and a cancelled call does not wait.
#[tokio::test]
async fn large_texts_are_compared_exactly_and_a_cancelled_call_ends() {
    let lines = |count: usize, seed: usize| -> String {
        (0..count).map(|n| format!("{:x}\n", (n + seed) * 2_654_435_761 % 1_048_573)).collect()
    };
    let bench = bench_with("a", format!("begin\n{}", lines(4_000_000, 0))).await;
    for old in ["no such \u{2013} text ", &lines(90_000, 7).replace('\n', " \n")] {
        let (code, message) = bench.fails("edit", edit("a", old, "y")).await;
        assert_eq!(code, "FS_EDIT_NOT_FOUND");
        assert!(message.contains("compared exactly"), "{message}");
        assert!(!message.contains("nearest"), "{message}");
    }
    let there = format!("begin\n{}", lines(100_000, 0));
    assert!(bench.run("edit", edit("a", &there, "y\n")).await.is_ok());
    bench.put("small", "text\n");
    bench.ok("read", json!({"file_path": "small"})).await;
    let (_, message) = bench.fails("edit", edit("small", &lines(20_000, 0), "y")).await;
    assert!(message.contains("compared exactly"), "{message}");

    let before = bench.get("a").len();
    bench.cancel.cancel();
    let call = bench.run("edit", edit("a", &lines(100_000, 900_000), "y"));
    let failure = tokio::time::timeout(Duration::from_secs(1), call).await.unwrap().unwrap_err();
    assert_eq!(failure.code, "ABORTED");
    assert_eq!(bench.get("a").len(), before);
}
