//! The demonstration is a real run: its requests are those that the log gives back.

use std::path::PathBuf;

use reins_providers::{Rules, Vendor, check_body};
use reins_testkit::{Bin, Finished, needs, rebuild_requests};

/// No key, no address of a model; temporary folders end with the test.
fn bin() -> Bin {
    let bin = Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap();
    let folder = bin.project();
    bin.env("TMPDIR", folder)
}

/// What follows `label` on its line of standard error.
fn said(end: &Finished, label: &str) -> String {
    let line = end.stderr.lines().find_map(|line| line.strip_prefix(label));
    line.unwrap_or_else(|| panic!("no `{label}` in {}", end.stderr)).to_owned()
}

/// The id of the newest session.
pub(super) fn newest_session(bin: &Bin) -> String {
    let logs = bin.logs().unwrap();
    let folder = logs.last().unwrap().parent().unwrap();
    folder.file_name().unwrap().to_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_demo_mends_its_project_and_every_request_can_be_rebuilt_from_the_log() {
    if !needs("bash").unwrap() {
        return;
    }
    let bin = bin();
    let end = bin.run(["demo", "--record", "requests.jsonl"]).await.unwrap();

    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(end.stdout.starts_with("The check passes now."), "{}", end.stdout);

    let project = PathBuf::from(said(&end, "project: "));
    let hand = Bin::new("bash").unwrap();
    let check = hand.run(["-c".into(), format!("cd {} && bash check.sh", project.display())]);
    let check = check.await.unwrap();
    assert_eq!((check.code, check.stdout.as_str()), (Some(0), "check passed\n"));

    let [log] = &bin.logs().unwrap()[..] else { panic!("one session") };
    let recorded = std::fs::read_to_string(bin.project().join("requests.jsonl")).unwrap();
    let recorded: Vec<String> =
        recorded.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rebuilt = rebuild_requests(log).unwrap();
    let rebuilt: Vec<&str> =
        rebuilt.iter().map(|request| std::str::from_utf8(&request.body).unwrap()).collect();
    assert_eq!(recorded.len(), 4);
    assert_eq!(recorded, rebuilt);
    let rules = Rules::of(Vendor::named("compatible").unwrap().quirks);
    for body in &recorded {
        check_body(body.as_bytes(), rules).unwrap();
    }
}

#[tokio::test]
async fn the_demo_says_what_is_scripted_where_the_session_is_and_how_to_go_on() {
    if !needs("bash").unwrap() {
        return;
    }
    let bin = bin();
    let end = bin.run(["demo"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    for part in [
        "the model is SCRIPTED",
        "no sandbox yet: commands run with all your permissions (danger-full-access)",
        "See for yourself: cd ",
        "With a real model: export DEEPSEEK_API_KEY=… ; /",
    ] {
        assert!(end.stderr.contains(part), "no `{part}` in {}", end.stderr);
    }

    let log = PathBuf::from(said(&end, "Its log: "));
    assert_eq!(bin.logs().unwrap(), [log.join("00000000.log")]);
    // The program is not on the search path here.
    let program = env!("CARGO_BIN_EXE_reins");
    let id = said(&end, &format!("The session: {program} session show "));
    assert_eq!(log.file_name().unwrap(), id.as_str());
    let list = bin.run(["session", "list"]).await.unwrap();
    assert_eq!(list.code, Some(0), "{}", list.stderr);
    assert!(list.stdout.starts_with(&format!("{id}  ")), "{}", list.stdout);
    let show = bin.run(["session", "show", &id]).await.unwrap();
    assert_eq!(show.code, Some(0), "{}", show.stderr);
    for part in ["you: The check of this project fails.", "→ edit {", "turn ended: completed"] {
        assert!(show.stdout.contains(part), "no `{part}` in {}", show.stdout);
    }
}

#[tokio::test]
async fn where_the_search_path_leads_to_the_program_its_name_is_enough() {
    if !needs("bash").unwrap() {
        return;
    }
    let bin = bin();
    let folder = bin.project().join("links");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_reins"), folder.join("reins")).unwrap();
    let mut path = folder.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let end = bin.env("PATH", path).run(["demo"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(end.stderr.contains("The session: reins session show "), "{}", end.stderr);
    assert!(end.stderr.contains("DEEPSEEK_API_KEY=… ; reins run "), "{}", end.stderr);
}

#[tokio::test]
async fn a_demo_without_a_usable_home_says_so_and_leaves_nothing() {
    let bin = bin();
    bin.file("file", "mine").unwrap();
    let file = bin.project().join("file");
    let bin = bin.env("REINS_HOME", &file);
    let end = bin.run(["demo"]).await.unwrap();
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    let message = format!(
        "reins: {} is not a folder, so sessions cannot be kept below it; set REINS_HOME to \
         another place\n",
        file.display()
    );
    assert_eq!(end.stderr, message);
    assert_eq!(std::fs::read_dir(bin.project()).unwrap().count(), 1, "no project is left");
}

#[tokio::test]
async fn a_record_that_cannot_be_written_is_refused_before_anything_is_made() {
    let bin = bin();
    let end = bin.run(["demo", "--record", "absent/requests.jsonl"]).await.unwrap();
    assert_eq!(end.code, Some(2));
    assert_eq!(
        end.stderr,
        "reins: --record absent/requests.jsonl: No such file or directory (os error 2)\n"
    );
    assert_eq!(bin.logs().unwrap(), Vec::<PathBuf>::new());
    assert_eq!(std::fs::read_dir(bin.project()).unwrap().count(), 0, "no project was made");
}
