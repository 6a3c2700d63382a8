//! The lines of a run on a terminal, and the status line.

use std::time::Duration;

use reins_testkit::{At, Fault, script};
use serde_json::json;

use super::{bash, lasting, served, watch, watcher};

const CLEAR: &str = "\r\u{1b}[K";
const SANDBOX: &str =
    "reins: no sandbox yet: commands run with all your permissions (danger-full-access)\n";

/// What stays of a run that uses several tools.
const WORK: &str = "\
I look.
● read notes.txt
● bash echo 'expected 42'; exit 1
  ✓ read notes.txt (3 lines)
  ✗ bash: exit 1 · expected 42
● write out.txt
  ✓ write: Created file `out.txt` (1 line, 2 bytes).
Done.
";

#[tokio::test]
async fn calls_and_results_are_lines_and_the_end_says_how_to_go_on() {
    let acts = script()
        .text("I look.")
        .call("read", json!({"file_path": "notes.txt"}))
        .call("bash", bash("echo 'expected 42'; exit 1"))
        .call("write", json!({"content": "x\n", "file_path": "out.txt"}))
        .usage(1000, 20, 900)
        .then()
        .text("Done.")
        .usage(1500, 30, 0);
    let server = served(acts);
    let Some(bin) = watcher(&server) else { return };
    bin.file("notes.txt", "a\nb\nc\n").unwrap();
    let end = watch(&bin, "one", &["run", "do it"]).await;
    assert_eq!(end.code, Some(0), "{end:?}");
    let seen = lasting(&end.stdout);
    let after = seen.strip_prefix(&format!("{SANDBOX}{WORK}"));
    let last = after.unwrap_or_else(|| panic!("not the lines: {seen}"));
    let id = super::super::demo::newest_session(&bin);
    let reins = env!("CARGO_BIN_EXE_reins");
    let figures = "2 steps · 2500 in · 50 out · go on with: ";
    let go_on = format!("{figures}{reins} run --session {id} \"…\"\n");
    assert!(last.ends_with(&go_on) && last.lines().count() == 1, "{last}");
    assert!(end.stdout.contains(CLEAR), "there is a status line: {}", end.stdout);
}

#[tokio::test]
async fn text_without_a_line_end_does_not_hide_that_a_call_is_written() {
    let acts = script()
        .text("I write")
        .call("write", json!({"content": "x".repeat(2000), "file_path": "out.txt"}))
        .chunks(500, Duration::from_millis(300))
        .then()
        .reasoning("so")
        .text("Done");
    let server = served(acts);
    let Some(bin) = watcher(&server) else { return };
    let end = watch(&bin, "one", &["run", "do it"]).await;
    assert_eq!(end.code, Some(0), "{end:?}");
    assert!(end.stdout.contains("] writing a call"), "{}", end.stdout);
    assert!(lasting(&end.stdout).contains("\nI write\n● write out.txt\n"), "{}", end.stdout);
}

#[tokio::test]
async fn a_terminal_that_cannot_clear_a_line_gets_no_status_line() {
    for term in ["dumb", ""] {
        let server = served(script().text("one").call("bash", bash("true")).then().text("two"));
        let Some(bin) = watcher(&server) else { return };
        let end = watch(&bin.env("TERM", term), "one", &["run", "do it"]).await;
        assert_eq!(end.code, Some(0), "{end:?}");
        assert!(!end.stdout.contains(['\r', '\u{1b}']), "{:?}", end.stdout);
        let lines = "one\n● bash true\n  ✓ bash: (no output)\ntwo\n";
        assert!(end.stdout.contains(lines), "{}", end.stdout);
    }
}

#[tokio::test]
async fn each_terminal_gets_what_is_its_own() {
    let server = served(script().text("one").call("bash", bash("true")).then().text("two"));
    let Some(bin) = watcher(&server) else { return };
    let end = watch(&bin, "two", &["run", "do it"]).await;
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "one\ntwo\n"), "{end:?}");
    assert!(end.stderr.contains("● bash true\n"), "{}", end.stderr);
}

#[tokio::test]
async fn the_last_failure_is_said_once_and_so_is_how_to_go_on() {
    let server = served(script().status(503, &[("retry-after", "0")]).then().status(401, &[]));
    let Some(bin) = watcher(&server) else { return };
    let end = watch(&bin, "one", &["run", "do it"]).await;
    assert_eq!(end.code, Some(3), "{end:?}");
    let seen = lasting(&end.stdout);
    assert_eq!(seen.matches("HTTP 401").count(), 1, "{seen}");
    assert_eq!(seen.matches("HTTP 503").count(), 1, "{seen}");
    assert!(seen.contains("(2 attempts)"), "{seen}");
    assert!(!seen.contains("--continue"), "{seen}");
    assert_eq!(seen.matches("go on with: ").count(), 1, "{seen}");
    // Nothing was used, so nothing is said about it.
    assert!(!seen.contains(" in · ") && seen.contains("1 step · go on with: "), "{seen}");
}

#[tokio::test]
async fn a_limit_is_said_once() {
    let server = served(script().call("bash", bash("true")).forever());
    let Some(bin) = watcher(&server) else { return };
    let end = watch(&bin, "one", &["run", "do it", "--max-steps", "1"]).await;
    assert_eq!(end.code, Some(5), "{end:?}");
    let seen = lasting(&end.stdout);
    assert_eq!(seen.matches("reached").count(), 1, "{seen}");
}

#[tokio::test]
async fn silence_in_the_middle_of_a_line_is_said_below_it() {
    let stall = Fault::Stall(At::Text, Duration::from_secs(600));
    for mode in ["one", "two"] {
        let server = served(script().text("the first half, the other half").fault(stall.clone()));
        let Some(bin) = watcher(&server) else { return };
        let end = watch(&bin, mode, &["run", "do it", "--max-time", "10s"]).await;
        assert_eq!(end.code, Some(5), "{end:?}");
        let (notices, drawn) = if mode == "one" {
            let below = format!("the first half,\n{CLEAR}[");
            assert!(end.stdout.contains(&below), "{:?}", end.stdout);
            (&end.stdout, 16)
        } else {
            assert_eq!(end.stdout, "the first half,\n");
            // Each figure changes once a second.
            (&end.stderr, 26)
        };
        assert!(notices.contains(" answering · no data for 6 s"), "{notices:?}");
        let drawings = notices.matches(CLEAR).count();
        assert!(drawings <= drawn, "{drawings} drawings: {notices:?}");
    }
}
