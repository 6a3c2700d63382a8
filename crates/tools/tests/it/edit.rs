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

/// Of two edits built on one content, run at once, one wins and the other is told.
#[tokio::test]
async fn of_two_edits_at_once_none_is_lost_silently() {
    let bench = bench_with("a", "one two").await;
    let (first, second) = tokio::join!(
        bench.run("edit", edit("a", "one", "1")),
        bench.run("edit", edit("a", "two", "2")),
    );
    let text = bench.text("a");
    match (first, second) {
        (Ok(_), Ok(_)) => assert_eq!(text, "1 2"),
        (Ok(_), Err(failure)) => {
            assert_eq!((&*failure.code, &*text), ("FS_STALE_VERSION", "1 two"));
        }
        (Err(failure), Ok(_)) => {
            assert_eq!((&*failure.code, &*text), ("FS_STALE_VERSION", "one 2"));
        }
        (Err(first), Err(second)) => panic!("both failed: {first}, {second}"),
    }
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
