use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use reins_world::{Fs, FsError, GlobHits, GlobQuery, Incomplete, LocalFs, SearchHits, SearchQuery};
use tempfile::{TempDir, tempdir};

use crate::files::{make_fifo, put};

fn tree(files: &[(&str, &str)]) -> TempDir {
    let folder = tempdir().unwrap();
    for (path, content) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        put(&path, content);
    }
    folder
}

fn query(root: &Path, pattern: &str) -> SearchQuery {
    SearchQuery {
        pattern: pattern.into(),
        root: root.into(),
        include: None,
        max_matches: 100,
        max_line_bytes: 100,
        time_limit: Duration::from_secs(60),
    }
}

async fn search(query: SearchQuery) -> SearchHits {
    LocalFs::default().search(query).await.unwrap()
}

/// `path:line:text`, paths below the root.
fn shown(hits: &SearchHits, root: &Path) -> Vec<String> {
    let line = |hit: &reins_world::SearchHit| {
        let path = hit.path.strip_prefix(root).unwrap().display().to_string();
        format!("{path}:{}:{}", hit.line, hit.text)
    };
    hits.hits.iter().map(line).collect()
}

#[tokio::test]
async fn search_leaves_out_what_is_ignored_hidden_or_binary() {
    let folder = tree(&[
        (".git/config", "needle"),
        (".gitignore", "target/\n"),
        (".hidden/f", "needle"),
        ("a.txt", "one\nneedle 1\r\nneedle 2"),
        ("a/deep", "needle 3\n"),
        ("a.binary", "needle\n\0"),
        ("target/out", "needle"),
        ("sub/.ignore", "skip\n"),
        ("sub/skip", "needle"),
        ("sub/work/f", "a needle here"),
    ]);
    let root = folder.path();
    make_fifo(&root.join("fifo"));
    symlink("a.txt", root.join("link")).unwrap();
    let mut late = "needle\n".repeat(20_000);
    late.push('\0');
    put(&root.join("late"), late);
    let hits = search(query(root, "needle")).await;
    let expected =
        ["a/deep:1:needle 3", "a.txt:2:needle 1", "a.txt:3:needle 2", "sub/work/f:1:a needle here"];
    assert_eq!(shown(&hits, root), expected);
    assert_eq!((hits.files, hits.incomplete), (3, None));
    let skipped: Vec<(String, &str)> = hits
        .skipped
        .iter()
        .map(|(path, why)| (path.file_name().unwrap().display().to_string(), why.as_str()))
        .collect();
    let mut skipped: Vec<String> = skipped.iter().map(|(p, why)| format!("{p}: {why}")).collect();
    skipped.sort();
    assert_eq!(skipped, ["a.binary: binary", "fifo: a FIFO", "late: binary"]);

    // The ignore file of the repository counts below a folder inside it.
    put(&root.join("sub/work/target"), "x");
    fs::create_dir(root.join("sub/work/t")).unwrap();
    put(&root.join(".gitignore"), "*.log\n");
    put(&root.join("sub/work/t/x.log"), "needle");
    let below = search(query(&root.join("sub/work"), "needle")).await;
    assert_eq!(below.files, 2);
    assert_eq!(shown(&below, root), ["sub/work/f:1:a needle here"]);
    // A file that is named is searched, hidden or ignored or not.
    for named in [".hidden/f", "target/out", "sub/work/t/x.log", "link"] {
        assert!(!search(query(&root.join(named), "needle")).await.hits.is_empty(), "{named}");
    }
}

#[tokio::test]
async fn a_line_that_is_too_long_is_said_in_plain_words() {
    let folder = tree(&[]);
    let file = fs::File::create(folder.path().join("long")).unwrap();
    std::io::Write::write_all(&mut &file, "x".repeat(33 << 20).as_bytes()).unwrap();
    let hits = search(query(folder.path(), "needle")).await;
    assert_eq!(hits.skipped[0].1, "a line is longer than 32 MiB");
}

#[tokio::test]
async fn search_includes_by_name_or_path() {
    let folder =
        tree(&[("a.rs", "x"), ("src/b.rs", "x"), ("src/deep/c.rs", "x"), ("src/d.txt", "x")]);
    for (include, count) in [
        ("*.rs", 3),
        ("src/*.rs", 1),
        ("src/**", 3),
        ("**/*.{rs,txt}", 4),
        ("./src/**/*.rs", 2),
        ("none", 0),
    ] {
        let query = SearchQuery { include: Some(include.into()), ..query(folder.path(), "x") };
        assert_eq!(search(query).await.hits.len(), count, "{include}");
    }
}

#[tokio::test]
async fn search_counts_cuts_and_decodes() {
    let folder = tree(&[("a", "n\nn\n"), ("b", "n\n")]);
    let root = folder.path();
    for (max_matches, found, incomplete) in [
        (4, 3, None),
        (3, 3, None),
        (2, 2, Some(Incomplete::CountLimit)),
        (1, 1, Some(Incomplete::CountLimit)),
        (0, 0, Some(Incomplete::CountLimit)),
    ] {
        let hits = search(SearchQuery { max_matches, ..query(root, "n") }).await;
        assert_eq!((hits.hits.len(), hits.incomplete), (found, incomplete), "{max_matches}");
    }
    put(&root.join("long"), format!("{}\r\nmark\r\n", "é".repeat(60)));
    put(&root.join("latin"), b"mark caf\xe9\n");
    let odd = SearchQuery { max_line_bytes: 5, ..query(root, "é+$|mark") };
    let expected = ["latin:1:mark  [… of 9 bytes]", "long:1:éé [… of 120 bytes]", "long:2:mark"];
    assert_eq!(shown(&search(odd).await, root), expected);
    let whole = search(query(root, "caf")).await;
    assert_eq!(shown(&whole, root), ["latin:1:mark caf\u{fffd}"]);
}

#[tokio::test]
async fn patterns_that_do_not_parse_say_where() {
    let folder = tree(&[]);
    for (pattern, words, column) in
        [("a(b", "unclosed group", 2), ("[z-a]", "invalid character class range", 2)]
    {
        let refused = LocalFs::default().search(query(folder.path(), pattern)).await.unwrap_err();
        let FsError::Pattern { pattern: named, problem } = refused else { panic!("{refused:?}") };
        assert_eq!(named, pattern);
        assert!(problem.contains(words), "{problem}");
        assert!(problem.ends_with(&format!("(at character {column})")), "{problem}");
    }
    let include = SearchQuery { include: Some("[".into()), ..query(folder.path(), "a") };
    assert!(matches!(LocalFs::default().search(include).await, Err(FsError::Pattern { .. })));
    for pattern in ["[", "", "a{b"] {
        let refused = LocalFs::default().glob(names(folder.path(), pattern)).await;
        assert!(matches!(refused, Err(FsError::Pattern { .. })), "{pattern}: {refused:?}");
    }
}

#[tokio::test]
async fn roots_must_be_there() {
    let folder = tree(&[("file", "x")]);
    make_fifo(&folder.path().join("fifo"));
    let fs = LocalFs::default();
    let missing = folder.path().join("missing");
    let not_found = FsError::NotFound { path: missing.clone() };
    assert_eq!(fs.search(query(&missing, "x")).await.unwrap_err(), not_found);
    assert_eq!(fs.glob(names(&missing, "*")).await.unwrap_err(), not_found);
    let fifo = fs.search(query(&folder.path().join("fifo"), "x")).await.unwrap_err();
    assert!(matches!(fifo, FsError::NotRegular { .. }), "{fifo:?}");
    let file = fs.glob(names(&folder.path().join("file"), "*")).await.unwrap_err();
    assert!(matches!(file, FsError::NotDirectory { .. }), "{file:?}");
}

#[tokio::test]
async fn a_time_limit_gives_what_was_found() {
    let folder = tempdir().unwrap();
    for dir in 0..20 {
        let dir = folder.path().join(format!("{dir:02}"));
        fs::create_dir(&dir).unwrap();
        for file in 0..100 {
            put(&dir.join(format!("{file:02}")), "needle\n");
        }
    }
    // One file takes longer than all others together.
    let huge = fs::File::create(folder.path().join("10/50")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&huge, b"needle\n", 0).unwrap();
    let long_line = "x".repeat(1 << 20) + "\n";
    for block in 0..64 {
        let text = long_line.as_bytes();
        std::os::unix::fs::FileExt::write_all_at(&huge, text, 7 + block * text.len() as u64)
            .unwrap();
    }
    let whole = SearchQuery { max_matches: 10_000, ..query(folder.path(), "needle") };
    assert_eq!(search(whole.clone()).await.hits.len(), 2000);
    // Twice the limit until some hits but not all fit into it.
    let mut time_limit = Duration::from_micros(500);
    let mut partial = None;
    while partial.is_none() {
        let hits = search(SearchQuery { time_limit, ..whole.clone() }).await;
        if hits.incomplete.is_none() {
            assert_eq!(hits.hits.len(), 2000);
            break;
        }
        assert_eq!(hits.incomplete, Some(Incomplete::TimeLimit));
        partial = (!hits.hits.is_empty()).then_some(hits);
        time_limit += time_limit / 4;
    }
    let partial = partial.expect("hits before the limit");
    assert!(partial.hits.is_sorted_by_key(|hit| (hit.path.clone(), hit.line)));
    let none = GlobQuery { time_limit: Duration::ZERO, ..names(folder.path(), "*") };
    let none = LocalFs::default().glob(none).await.unwrap();
    assert_eq!(none.incomplete, Some(Incomplete::TimeLimit));
}

fn names(root: &Path, pattern: &str) -> GlobQuery {
    GlobQuery {
        pattern: pattern.into(),
        root: root.into(),
        max_files: 100,
        time_limit: Duration::from_secs(60),
    }
}

async fn glob(root: &Path, pattern: &str) -> GlobHits {
    LocalFs::default().glob(names(root, pattern)).await.unwrap()
}

fn below(hits: &GlobHits, root: &Path) -> Vec<String> {
    let path = |path: &std::path::PathBuf| path.strip_prefix(root).unwrap().display().to_string();
    hits.files.iter().map(path).collect()
}

#[tokio::test]
async fn glob_semantics() {
    let folder = tree(&[
        (".git/HEAD", ""),
        (".gitignore", "ignored.rs\n"),
        (".hidden/h.rs", ""),
        ("a.rs", ""),
        ("ignored.rs", ""),
        ("src/b.rs", ""),
        ("src/deep/c.rs", ""),
        ("src/.svn/d.rs", ""),
        ("[odd].rs", ""),
    ]);
    let root = folder.path();
    symlink("a.rs", root.join("link.rs")).unwrap();
    symlink("src", root.join("dir.rs")).unwrap();
    symlink("nowhere", root.join("dangling.rs")).unwrap();
    for entry in ["a.rs", ".hidden/h.rs", "ignored.rs", "src/b.rs", "src/deep/c.rs", "[odd].rs"] {
        let file = fs::File::options().append(true).open(root.join(entry)).unwrap();
        file.set_modified(UNIX_EPOCH).unwrap();
    }
    let absolute = format!("{}/src/*.rs", root.display());
    let all =
        [".hidden/h.rs", "[odd].rs", "a.rs", "ignored.rs", "link.rs", "src/b.rs", "src/deep/c.rs"];
    let cases: [(&str, &[&str]); 14] = [
        ("*.rs", &all),
        ("**/*.rs", &all),
        ("./*.rs", &all),
        ("src/*.rs", &["src/b.rs"]),
        ("./src/*.rs", &["src/b.rs"]),
        ("src/**/*.rs", &["src/b.rs", "src/deep/c.rs"]),
        ("src/", &["src/b.rs", "src/deep/c.rs"]),
        ("*/*.rs", &[".hidden/h.rs", "src/b.rs"]),
        ("src/b.rs", &["src/b.rs"]),
        (&absolute, &["src/b.rs"]),
        ("{a,b}.r?", &["a.rs", "src/b.rs"]),
        ("\\[odd\\].rs", &["[odd].rs"]),
        (".git/*", &[]),
        ("none/x/*", &[]),
    ];
    for (pattern, expected) in cases {
        let hits = glob(root, pattern).await;
        assert_eq!(below(&hits, root), expected, "{pattern}");
        assert_eq!(hits.total, expected.len() as u64);
    }
    let up = glob(&root.join("src/deep"), "../b.rs").await;
    assert_eq!(up.files, [root.join("src/deep/../b.rs")]);
    assert!(glob(&root.join(".git"), "*").await.files.is_empty());
}

#[tokio::test]
async fn glob_gives_the_newest_first() {
    let folder = tree(&[("old", ""), ("b", ""), ("a", ""), ("new", "")]);
    let root = folder.path();
    for (name, seconds) in [("old", 1), ("b", 2), ("a", 2), ("new", 3)] {
        let file = fs::File::options().append(true).open(root.join(name)).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    }
    assert_eq!(below(&glob(root, "*").await, root), ["new", "a", "b", "old"]);
    let two = LocalFs::default().glob(GlobQuery { max_files: 2, ..names(root, "*") }).await;
    let two = two.unwrap();
    assert_eq!((below(&two, root), two.total), (vec!["new".into(), "a".into()], 4));
}
