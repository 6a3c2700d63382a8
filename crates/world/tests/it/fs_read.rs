use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use reins_world::{FileKind, Fs, FsError, Line, LineWindow, Lines, LocalFs, Place};
use sha2::{Digest, Sha256};
use tempfile::tempdir;

use crate::files::{make_fifo, put};

const ALL: LineWindow = LineWindow {
    first: 1,
    count: 1000,
    max_bytes: 1 << 20,
    max_line_bytes: 1 << 16,
    skip_bytes: 0,
};

async fn lines_of(content: &[u8], window: LineWindow) -> Result<Lines, FsError> {
    let folder = tempdir().unwrap();
    put(&folder.path().join("f"), content);
    let lines = LocalFs::default().read_lines(folder.path(), "f", window).await;
    if let Ok(lines) = &lines {
        assert_eq!(lines.hash.0, <[u8; 32]>::from(Sha256::digest(content)));
    }
    lines
}

fn texts(lines: &Lines) -> Vec<&str> {
    lines.lines.iter().map(|line| line.text.as_str()).collect()
}

async fn problem(content: &[u8]) -> String {
    match lines_of(content, ALL).await {
        Err(FsError::NotText { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn line_ends_and_totals() {
    let cases: [(&str, &[&str]); 9] = [
        ("", &[]),
        ("\n", &[""]),
        ("a", &["a"]),
        ("a\n", &["a"]),
        ("a\n\n", &["a", ""]),
        ("a\r\nb\nc", &["a", "b", "c"]),
        ("a\rb\r\r\n", &["a\rb\r"]),
        ("a\r", &["a\r"]),
        ("\u{feff}a\n\u{feff}b\n", &["a", "\u{feff}b"]),
    ];
    for (content, expected) in cases {
        let lines = lines_of(content.as_bytes(), ALL).await.unwrap();
        assert_eq!(texts(&lines), expected, "{content:?}");
        assert_eq!(lines.total, expected.len() as u64, "{content:?}");
        assert!(!lines.capped);
        assert!(lines.lines.iter().all(|line| line.cut_from.is_none()));
    }
}

#[tokio::test]
async fn windows() {
    let content: String = (1..=10).map(|n| format!("line {n}\n")).collect();
    let lines = lines_of(content.as_bytes(), LineWindow { first: 3, count: 2, ..ALL }).await;
    let lines = lines.unwrap();
    assert_eq!((texts(&lines), lines.total), (vec!["line 3", "line 4"], 10));
    let beyond = lines_of(content.as_bytes(), LineWindow { first: 11, ..ALL }).await.unwrap();
    assert_eq!((texts(&beyond), beyond.total), (vec![], 10));
    // `line N` and its line end are 7 bytes.
    for (max_bytes, count, capped) in [(70, 9, true), (71, 10, false), (14, 2, true)] {
        let lines = lines_of(content.as_bytes(), LineWindow { max_bytes, ..ALL }).await.unwrap();
        assert_eq!((lines.lines.len(), lines.capped), (count, capped), "{max_bytes}");
        assert_eq!(lines.total, 10);
    }
}

#[tokio::test]
async fn not_text_is_refused_with_its_position() {
    assert!(problem(b"n = 1\n# caf\xe9\n").await.contains("0xE9 at offset 11 (line 2)"));
    assert!(problem(b"\xff\xfea\0").await.contains("UTF-16"));
    assert!(problem("é".as_bytes()[..1].as_ref()).await.contains("0xC3 at offset 0 (line 1)"));
    // 600 clean bytes, then a NUL; and one far behind the first piece.
    let mut late = b"clean\n".repeat(100);
    late.push(0);
    assert!(problem(&late).await.contains("offset 600 (line 101)"), "{}", problem(&late).await);
    let mut far = vec![b'x'; 200_000];
    far.push(0);
    assert!(problem(&far).await.contains("offset 200000 (line 1)"));
    // A replacement character in the file is a character.
    assert_eq!(texts(&lines_of("\u{fffd}\n".as_bytes(), ALL).await.unwrap()), ["\u{fffd}"]);
}

/// A long line read in pages by its cursor: the pages are the line, none is empty, no character
/// is split.
async fn pages(content: &str, page: usize) -> String {
    let folder = tempdir().unwrap();
    put(&folder.path().join("f"), content);
    let fs = LocalFs::default();
    let mut whole = String::new();
    loop {
        let window =
            LineWindow { max_bytes: page, skip_bytes: whole.len() as u64, count: 1, ..ALL };
        let lines = fs.read_lines(folder.path(), "f", window).await.unwrap();
        let [Line { text, cut_from, .. }] = &lines.lines[..] else { panic!("{lines:?}") };
        assert!(text.len() <= page && !text.is_empty());
        whole.push_str(text);
        match cut_from {
            Some(length) => assert_eq!(*length, content.trim_end().len() as u64),
            None => return whole,
        }
    }
}

#[tokio::test]
async fn a_long_line_comes_in_pages() {
    let json = format!("{{\"k\":\"{}\"}}", "aé读\u{1f600}".repeat(6554));
    assert!(json.len() > 64 * 1024);
    assert_eq!(pages(&json, 30 * 1024).await, json);
    assert_eq!(pages(&format!("{json}\r\n"), 1000).await, json);
    assert_eq!(pages(&json[..3002], 3002).await, &json[..3002]);
    assert_eq!(pages(&format!("{}\r\n", &json[..3002]), 3002).await, &json[..3002]);
}

#[tokio::test]
async fn a_huge_line_is_not_held_in_memory() {
    let folder = tempdir().unwrap();
    let mut file = fs::File::create(folder.path().join("f")).unwrap();
    let piece = vec![b'x'; 1 << 20];
    (0..64).for_each(|_| file.write_all(&piece).unwrap());
    file.seek(SeekFrom::Start(0)).unwrap();
    let window = LineWindow { max_line_bytes: 10, ..ALL };
    let lines = LocalFs::default().read_lines(folder.path(), "f", window).await.unwrap();
    let expected = Line { number: 1, text: "x".repeat(10), cut_from: Some(64 << 20) };
    assert_eq!((lines.lines, lines.total), (vec![expected], 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lines_are_the_file(content in "([ab\u{e9}\u{1f600}\r]{0,5}\n?){0,40}", first in 1_u16..20) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let window = LineWindow { first: first.into(), ..ALL };
        let lines = runtime.block_on(lines_of(content.as_bytes(), window)).unwrap();
        let all: Vec<&str> = content.split_inclusive('\n').collect();
        let expected: Vec<&str> = all.iter().skip(usize::from(first) - 1).map(|line| {
            match line.strip_suffix('\n') {
                Some(line) => line.strip_suffix('\r').unwrap_or(line),
                None => line,
            }
        }).collect();
        prop_assert_eq!(texts(&lines), expected);
        prop_assert_eq!(lines.total, all.len() as u64);
    }
}

#[tokio::test]
async fn what_is_no_regular_file_is_refused_unopened() {
    let folder = tempdir().unwrap();
    make_fifo(&folder.path().join("fifo"));
    symlink("fifo", folder.path().join("link")).unwrap();
    put(&folder.path().join("empty"), "");
    let fs = LocalFs::default();
    let started = Instant::now();
    for (path, kind) in [
        ("/dev/zero", "character device"),
        ("/dev/tty", "character device"),
        ("fifo", "FIFO"),
        ("link", "FIFO"),
        (".", "directory"),
    ] {
        let read = fs.read(folder.path(), path, 1 << 20).await.unwrap_err();
        let lines = fs.read_lines(folder.path(), path, ALL).await.unwrap_err();
        assert_eq!(read, lines);
        assert_eq!(read, FsError::NotRegular { path: path.into(), kind: kind.into() });
    }
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    let empty = fs.read_lines(folder.path(), "empty", ALL).await.unwrap();
    assert_eq!((empty.lines.len(), empty.total), (0, 0));
}

#[tokio::test]
async fn reading_is_bounded() {
    let folder = tempdir().unwrap();
    put(&folder.path().join("f"), "12345");
    let fs = LocalFs::default();
    assert_eq!(fs.read(folder.path(), "f", 5).await.unwrap().bytes, b"12345");
    let refused = fs.read(folder.path(), "f", 4).await.unwrap_err();
    assert_eq!(refused, FsError::TooLarge { path: "f".into(), size: 5, limit: 4 });
    // Files of /proc say that they are empty.
    let endless = fs.read(folder.path(), "/proc/self/maps", 10).await.unwrap_err();
    assert!(matches!(endless, FsError::TooLarge { limit: 10, .. }), "{endless:?}");
    assert!(!fs.read(folder.path(), "/proc/self/maps", 1 << 24).await.unwrap().bytes.is_empty());
}

async fn resolved(cwd: &Path, path: &str) -> Result<(PathBuf, Option<FileKind>), FsError> {
    let Place { real, kind, .. } = LocalFs::default().resolve(cwd, path).await?;
    Ok((real, kind))
}

#[tokio::test]
async fn paths_resolve_as_the_kernel_does() {
    let folder = tempdir().unwrap();
    let top = folder.path().canonicalize().unwrap();
    fs::create_dir_all(top.join("a/b/c")).unwrap();
    put(&top.join("a/b/file"), "x");
    symlink("a/b/c", top.join("deep")).unwrap();
    symlink("nowhere/at/all", top.join("dangling")).unwrap();
    symlink("loop", top.join("loop")).unwrap();
    symlink(top.join("a/b"), top.join("absolute")).unwrap();
    let (file, dir) = (Some(FileKind::File), Some(FileKind::Directory));
    for (path, real, kind) in [
        ("a/b/file", "a/b/file", file),
        ("./a//b/./file", "a/b/file", file),
        // Not `file` in the folder of the link, but in the parent of its target.
        ("deep/../file", "a/b/file", file),
        ("absolute/file", "a/b/file", file),
        ("deep", "a/b/c", dir),
        ("deep/", "a/b/c", dir),
        ("a/..", "", dir),
        ("new", "new", None),
        ("deep/new/x/y", "a/b/c/new/x/y", None),
        ("dangling", "nowhere/at/all", None),
    ] {
        let real = if real.is_empty() { top.clone() } else { top.join(real) };
        assert_eq!(resolved(&top, path).await, Ok((real, kind)), "{path}");
    }
    let not_directory = Err(FsError::NotDirectory { path: top.join("a/b/file") });
    assert_eq!(resolved(&top, "a/b/file/x").await, not_directory);
    assert_eq!(resolved(&top, "a/b/file/").await, not_directory);
    assert_eq!(resolved(&top, "a/b/file/..").await, not_directory);
    for missing in ["", "new/../a"] {
        let expected = Err(FsError::NotFound { path: missing.into() });
        assert_eq!(resolved(&top, missing).await, expected, "{missing}");
    }
    assert!(matches!(resolved(&top, "loop").await, Err(FsError::Io { .. })));
    assert!(matches!(resolved(&top, "a\0b").await, Err(FsError::Io { .. })));
    assert_eq!(resolved(&top, "/").await, Ok(("/".into(), dir)));
    assert_eq!(resolved(&top, "/../..").await, Ok(("/".into(), dir)));
}
