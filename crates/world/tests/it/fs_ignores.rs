//! What stands under the name of an ignore file may be anything.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, Instant};

use reins_world::{Fs, LocalFs, SearchHits, SearchQuery};
use tempfile::{TempDir, tempdir};

use crate::files::{make_fifo, put};

const LIMIT: Duration = Duration::from_secs(20);

/// A repository whose `sub/a` and `sub/b.log` hold what is searched for.
fn repository() -> TempDir {
    let folder = tempdir().unwrap();
    fs::create_dir_all(folder.path().join("repo/.git/info")).unwrap();
    fs::create_dir_all(folder.path().join("repo/sub")).unwrap();
    put(&folder.path().join("repo/sub/a"), "needle\n");
    put(&folder.path().join("repo/sub/b.log"), "needle\n");
    folder
}

async fn search(root: &Path) -> SearchHits {
    let query = SearchQuery {
        pattern: "needle".into(),
        root: root.into(),
        include: None,
        max_matches: 100,
        max_line_bytes: 100,
        time_limit: LIMIT,
    };
    let work = LocalFs::default().search(query);
    tokio::time::timeout(2 * LIMIT, work).await.unwrap().unwrap()
}

/// Names of the files found.
fn found(hits: &SearchHits) -> Vec<String> {
    hits.hits.iter().map(|hit| hit.path.file_name().unwrap().display().to_string()).collect()
}

/// Searches `repo/sub` with something odd under `name` of the folder: no rule of it holds, and
/// the one note about it has these words.
async fn check(name: &str, words: &str, make: impl FnOnce(&Path)) {
    let folder = repository();
    make(&folder.path().join(name));
    let begun = Instant::now();
    let hits = search(&folder.path().join("repo/sub")).await;
    assert!(begun.elapsed() < LIMIT, "{name}: {:?}", begun.elapsed());
    assert_eq!((found(&hits), hits.incomplete), (vec!["a".into(), "b.log".into()], None), "{name}");
    let [(path, why)] = &hits.skipped[..] else { panic!("{name}: {:?}", hits.skipped) };
    assert!(path.ends_with(Path::new(name).file_name().unwrap()), "{path:?}");
    assert!(why.contains(words), "{name}: {why}");
}

fn peak_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_fifo_is_not_waited_for() {
    for name in ["repo/.gitignore", "repo/sub/.ignore", ".ignore", "repo/.git/info/exclude"] {
        check(name, "a FIFO", make_fifo).await;
    }
}

#[tokio::test]
async fn what_has_no_end_is_not_read() {
    for name in ["repo/.gitignore", "repo/sub/.ignore", ".ignore", "repo/.git/info/exclude"] {
        check(name, "a link", |path| symlink("/dev/zero", path).unwrap()).await;
    }
    check("repo/.gitignore", "1 MiB", |path| {
        put(path, "*.log\n".repeat(5_000_000));
    })
    .await;
}

/// Many files below the limit do not add up to any size either.
#[tokio::test]
async fn rules_are_bounded_together() {
    let folder = repository();
    let mut deep = folder.path().join("repo/sub");
    for _ in 0..40 {
        put(&deep.join(".gitignore"), "[ab]*c?\n".repeat(5_000));
        deep.push("d");
        fs::create_dir(&deep).unwrap();
    }
    put(&deep.join("a"), "needle\n");
    let before = peak_kb();
    let hits = search(&folder.path().join("repo")).await;
    assert!(peak_kb() < before + 150_000, "{before} -> {}", peak_kb());
    assert!(!found(&hits).is_empty());
    assert!(hits.skipped.iter().any(|(_, why)| why.contains("together")), "{:?}", hits.skipped);
}

#[tokio::test]
async fn links_inside_the_repository_are_followed() {
    let folder = repository();
    let repo = folder.path().join("repo");
    put(&repo.join("rules"), "*.log\n");
    symlink("../rules", repo.join("sub/.gitignore")).unwrap();
    let hits = search(&repo.join("sub")).await;
    assert_eq!((found(&hits), hits.skipped_total), (vec!["a".to_owned()], 0));
    // Out of it, to nothing, and to a folder.
    put(&folder.path().join("rules"), "*.log\n");
    for (target, notes) in [("../../rules", 1), ("../nothing", 0), ("../sub", 1)] {
        fs::remove_file(repo.join("sub/.gitignore")).unwrap();
        symlink(target, repo.join("sub/.gitignore")).unwrap();
        let hits = search(&repo.join("sub")).await;
        assert_eq!((found(&hits).len(), hits.skipped_total), (2, notes), "{target}");
    }
}

#[tokio::test]
async fn precedence() {
    let folder = repository();
    let repo = folder.path().join("repo");
    let names = |hits: &SearchHits| found(hits).join(" ");
    put(&repo.join(".git/info/exclude"), "b.log\n");
    assert_eq!(names(&search(&repo).await), "a");
    // Rules of files in the tree stand over the exclude file.
    put(&repo.join(".gitignore"), "!b.log\na\n");
    assert_eq!(names(&search(&repo).await), "b.log");
    // Deeper over shallower.
    put(&repo.join("sub/.gitignore"), "\u{feff}!a\n# b.log\n");
    assert_eq!(names(&search(&repo).await), "a b.log");
    // `.ignore` over `.gitignore`, wherever it stands; from above the repository too.
    put(&folder.path().join(".ignore"), "a\n");
    assert_eq!(names(&search(&repo).await), "b.log");
    put(&repo.join(".ignore"), "!/sub/a\nb.log\n");
    assert_eq!(names(&search(&repo.join("sub")).await), "a");
    // A hidden file that a rule names is seen.
    put(&repo.join("sub/.hidden"), "needle\n");
    assert_eq!(names(&search(&repo).await), "a");
    put(&repo.join("sub/.ignore"), "!.hidden\n");
    assert_eq!(names(&search(&repo).await), ".hidden a");
    // Git's rules of an outer repository do not reach into an inner one.
    fs::create_dir_all(repo.join("inner/.git")).unwrap();
    put(&repo.join(".gitignore"), "c\n");
    put(&repo.join("inner/c"), "needle\n");
    assert_eq!(names(&search(&repo.join("inner")).await), "c");
    assert_eq!(names(&search(&repo).await), "c .hidden a");
}

/// Outside of repositories `.gitignore` says nothing; a work tree's rules lie in its repository.
#[tokio::test]
async fn repositories_are_recognised() {
    let folder = repository();
    let repo = folder.path().join("repo");
    put(&repo.join(".git/info/exclude"), "*.log\n");
    fs::create_dir_all(repo.join(".git/worktrees/w")).unwrap();
    put(&repo.join(".git/worktrees/w/commondir"), "../..\n");
    let tree = folder.path().join("tree");
    fs::create_dir(&tree).unwrap();
    put(&tree.join("b.log"), "needle\n");
    put(&tree.join("c"), "needle\n");
    put(&tree.join(".gitignore"), "c\n");
    assert_eq!(found(&search(&tree).await), ["b.log", "c"]);
    put(&tree.join(".git"), "gitdir: ../repo/.git/worktrees/w\n");
    assert!(search(&tree).await.hits.is_empty());
}
