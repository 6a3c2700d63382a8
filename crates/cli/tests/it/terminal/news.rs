//! Settings that change while somebody watches.

use reins_testkit::script;

use super::{bash, lasting, served, watch, watcher};

const QUICK: &str = "[[row]]\nid = \"reload\"\nconfig = { every_ms = 20, settle_ms = 20 }\n";

#[tokio::test]
async fn what_is_said_of_settings_stands_whole_on_lines_of_its_own() {
    let edit = "echo '[[row' > ../home/settings.toml; sleep 2";
    let acts = script().text("I edit").call("bash", bash(edit)).then().text("Done.");
    let server = served(acts);
    let Some(bin) = watcher(&server) else { return };
    bin.file("../home/settings.toml", QUICK).unwrap();
    let end = watch(&bin, "one", &["run", "do it"]).await;
    assert_eq!(end.code, Some(0), "{end:?}");
    let path = bin.home().join("settings.toml").display().to_string();
    let seen = lasting(&end.stdout);
    let lines: Vec<&str> = seen.lines().collect();
    let at = lines.iter().position(|line| line.starts_with(&format!("reins: {path}:1: ")));
    let at = at.unwrap_or_else(|| panic!("not said: {seen}"));
    assert!(lines[at].ends_with("; the last good settings stay in force"), "{seen}");
    assert!(lines[at].len() > 80, "whole, though it is longer than the terminal is wide");
    assert!(lines[at - 1].starts_with("● bash"), "{seen}");
    assert!(lines[at + 1].starts_with("  ✓ bash"), "{seen}");
}
