use std::time::{Duration, Instant};

use serde_json::json;

use crate::bench::Bench;

#[tokio::test]
async fn a_file_is_shown_with_numbers() {
    let bench = Bench::new().await;
    bench.put("a.txt", "one\r\ntwo\n\nfour");
    let answer = bench.ok("read", json!({"file_path": "a.txt"})).await;
    assert_eq!(
        answer.text,
        "<path>a.txt</path>\n<type>file</type>\n<content>\n1: one\n2: two\n3: \n4: four\n\n\
         (End of file: 4 lines)\n</content>\n"
    );
    assert_eq!((&answer.meta["totalLines"], &answer.meta["lines"]), (&json!(4), &json!(4)));
    let answer = bench.ok("read", json!({"file_path": "a.txt", "offset": 2, "limit": 1})).await;
    assert!(answer.text.contains("\n2: two\n\n(Lines 2-2 of 4; continue with offset=3)"));
    let (code, message) = bench.fails("read", json!({"file_path": "a.txt", "offset": 5})).await;
    assert_eq!(
        (&*code, &*message),
        ("FS_NOT_FOUND", "offset 5 is out of range: `a.txt` has 4 lines")
    );
    let (code, message) = bench.fails("read", json!({"file_path": "a.txt", "limit": 2001})).await;
    assert_eq!(code, "INVALID_ARGS");
    assert!(message.contains("2000"), "{message}");
}

/// B18: what is no file is refused at once by its type.
#[tokio::test]
async fn what_is_not_a_text_file_is_refused_at_once() {
    let bench = Bench::new().await;
    bench.put("empty", "");
    std::fs::create_dir(bench.path("folder")).unwrap();
    let fifo = bench.path("fifo");
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let cases = [
        ("/dev/zero", "FS_NOT_REGULAR_FILE", "device"),
        ("fifo", "FS_NOT_REGULAR_FILE", "FIFO"),
        ("folder", "FS_NOT_REGULAR_FILE", "directory; list its files with `glob`"),
        ("absent", "FS_NOT_FOUND", "check the path with `glob`"),
    ];
    for (path, expected, words) in cases {
        let begun = Instant::now();
        let (code, message) = bench.fails("read", json!({"file_path": path})).await;
        assert!(begun.elapsed() < Duration::from_secs(5), "{path}");
        assert_eq!(code, expected, "{path}: {message}");
        assert!(message.contains(words), "{path}: {message}");
    }
    let answer = bench.ok("read", json!({"file_path": "empty"})).await;
    assert!(answer.text.contains("(The file is empty)"), "{}", answer.text);
}

/// B19: a long line can be read to its end by following what the answers say.
#[tokio::test]
async fn a_long_line_is_read_to_its_end() {
    let bench = Bench::with(&[("read", "max_bytes = 30000")]).await;
    let line = format!("[{}]", "\"ключ\u{1F600}\",".repeat(4000));
    bench.put("long.json", format!("{line}\nnext\n"));
    let mut arguments = json!({"file_path": "long.json"});
    let mut got = String::new();
    for page in 0.. {
        assert!(page < 20, "the loop does not end");
        let text = bench.ok("read", arguments.clone()).await.text;
        assert!(text.len() < 31_000, "{}", text.len());
        let shown = text.lines().find(|line| line.starts_with("1: ")).unwrap();
        let shown = shown.trim_start_matches("1: ").trim_start_matches('…');
        let Some((part, rest)) = shown.split_once("… [cut: ") else {
            got.push_str(shown);
            break;
        };
        assert!(!part.is_empty(), "an empty page");
        got.push_str(part);
        let column = rest.split_once("column=").unwrap().1.trim_end_matches(']');
        arguments = json!({
            "file_path": "long.json", "offset": 1, "column": column.parse::<u64>().unwrap(),
        });
    }
    assert_eq!(got, line);
    let far = json!({"file_path": "long.json", "offset": 1, "column": 1_000_000});
    assert!(bench.fails("read", far).await.1.contains("past the end of line 1"));
}

/// B19c: a NUL byte anywhere makes a file binary.
#[tokio::test]
async fn a_late_nul_byte_is_seen_by_every_reader() {
    let bench = Bench::new().await;
    let bytes = [&vec![b'a'; 600][..], &[0; 40]].concat();
    bench.put("late.bin", &bytes);
    let (code, message) = bench.fails("read", json!({"file_path": "late.bin"})).await;
    assert_eq!(code, "FS_NOT_TEXT");
    assert!(message.contains("offset 600"), "{message}");
    let found = bench.ok("grep", json!({"pattern": "a+"})).await;
    assert!(found.text.starts_with("No matches found"), "{}", found.text);
    assert!(found.text.contains("late.bin"), "{}", found.text);
    bench.put("late.bin", b"a");
    bench.ok("read", json!({"file_path": "late.bin"})).await;
    bench.put("late.bin", &bytes);
    let edit = json!({"file_path": "late.bin", "old_string": "a", "new_string": "b"});
    bench.fails("edit", edit).await;
    assert_eq!(bench.get("late.bin"), bytes);
}

#[tokio::test]
async fn a_cancelled_read_ends() {
    let bench = Bench::new().await;
    bench.put("a", "x");
    bench.cancel.cancel();
    assert_eq!(bench.fails("read", json!({"file_path": "a"})).await.0, "ABORTED");
}
