//! Sessions whose project is renamed, reached by a link, or elsewhere.

use std::path::Path;

use reins_testkit::{StrictServer, script};
use serde_json::json;

use super::{log_of, made, object, refused, rig, well};

#[tokio::test]
async fn a_session_follows_its_renamed_project() {
    let (bin, server) = rig();
    let old = bin.project().join("old");
    std::fs::create_dir(&old).unwrap();
    let old = old.canonicalize().unwrap();
    let run = |cwd: &str| ["run", "--cwd", cwd, "--output", "json"].map(str::to_owned);
    let begun = bin.run(run("old").iter().map(String::as_str).chain(["go"])).await.unwrap();
    assert_eq!(begun.code, Some(0), "{begun:?}");
    let id = super::super::demo::newest_session(&bin);
    let new = old.with_file_name("new");
    std::fs::rename(&old, &new).unwrap();

    let said = refused(&bin, &["run", "--session", &id, "on"], 2).await;
    assert!(said.contains(&format!("reins session move {id} DIR")), "{said}");
    let said = refused(&bin, &["run", "--continue", "--cwd", "new", "on"], 6).await;
    assert!(said.contains("there is no session of directory"), "{said}");
    // Where it is now is said once.
    well(&bin, &["run", "--session", &id, "--cwd", "new", "on"]).await;
    let log = std::fs::read_to_string(log_of(&bin, &id)).unwrap();
    assert_eq!(log.matches("\"type\":\"session/moved\"").count(), 1, "{log}");
    let end = object(&bin, &["run", "--continue", "--cwd", "new", "--output=json", "on"]).await;
    assert_eq!(end["session"], json!(id));
    let end = object(&bin, &["run", "--session", &id, "--output=json", "on"]).await;
    assert_eq!(end["session"], json!(id));
    let log = std::fs::read_to_string(log_of(&bin, &id)).unwrap();
    assert_eq!(log.matches("\"type\":\"session/moved\"").count(), 1, "{log}");
    let list = object(&bin, &["session", "list", "--json"]).await;
    assert_eq!(list["sessions"][0]["cwd"], json!(new));
    let shown = object(&bin, &["session", "show", &id, "--json"]).await;
    let of = &shown["session"];
    assert_eq!((&of["cwd"], &of["began_in"]), (&json!(new), &json!(old)));
    server.assert_clean();
}

#[tokio::test]
async fn a_turn_that_was_cut_off_does_not_keep_a_session_from_following() {
    let call = json!({"command": "sleep 600", "description": "A long command"});
    let acts = script().call("bash", call).then().text("fine").forever();
    let server = StrictServer::start(acts).unwrap();
    let bin = super::bin().model_at(&server.base_url());
    let (old, new) = (bin.project().join("old"), bin.project().join("new"));
    std::fs::create_dir(&old).unwrap();
    let run = bin.spawn(["run", "--cwd", "old", "go"], None).await.unwrap();
    run.kill9_after(bin.until_log("\"type\":\"tool/start\"", 1)).await.unwrap();
    let id = super::super::demo::newest_session(&bin);
    std::fs::rename(&old, &new).unwrap();
    let said = refused(&bin, &["session", "move", &id, "new"], 6).await;
    assert!(said.contains("interrupted in a turn; run it once"), "{said}");
    well(&bin, &["run", "--session", &id, "--cwd", "new", "on"]).await;
    let end = object(&bin, &["run", "--continue", "--cwd", "new", "--output=json", "on"]).await;
    assert_eq!(end["session"], json!(id));
    server.assert_clean();
}

#[tokio::test]
async fn a_session_is_moved_to_a_worktree_by_a_command() {
    let (bin, _server) = rig();
    let id = made(&bin, "go").await;
    std::fs::create_dir(bin.project().join("worktree")).unwrap();
    let said = refused(&bin, &["run", "--session", &id, "--cwd", "worktree", "on"], 2).await;
    assert!(said.contains(&format!("reins session move {id} DIR")), "{said}");
    let said = refused(&bin, &["session", "move", &id, "absent"], 2).await;
    assert!(said.starts_with("reins: DIR `absent`: "), "{said}");
    let to = bin.project().join("worktree").canonicalize().unwrap();
    let moved = object(&bin, &["session", "move", &id, "worktree", "--json"]).await;
    let expected = json!({"schema": "reins.session.move/1", "session": id, "cwd": to});
    assert_eq!(moved, expected);
    let end =
        object(&bin, &["run", "--continue", "--cwd", "worktree", "--output=json", "on"]).await;
    assert_eq!(end["session"], json!(id));
    let said = refused(&bin, &["run", "--continue", "on"], 6).await;
    assert!(said.contains("there is no session of directory"), "{said}");
    let show = well(&bin, &["session", "show", &id]).await.stdout;
    assert!(show.contains(&format!("] moved to {}\n", to.display())), "{show}");
}

#[tokio::test]
async fn a_link_to_the_project_is_the_project() {
    let (bin, _server) = rig();
    let id = made(&bin, "go").await;
    let link = bin.project().with_file_name("link");
    std::os::unix::fs::symlink(bin.project(), &link).unwrap();
    let link = link.to_str().unwrap();
    for more in [["--continue", "--output=json"], ["--session", &id]] {
        let mut args = vec!["run", "--cwd", link, "on", "--output=json"];
        args.extend(more.iter().filter(|arg| **arg != "--output=json"));
        assert_eq!(object(&bin, &args).await["session"], json!(id));
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (from, to) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        if from.is_dir() {
            copy(&from, &to);
        } else {
            std::fs::copy(&from, &to).unwrap();
        }
    }
}

#[tokio::test]
async fn a_copied_home_goes_on() {
    let (bin, server) = rig();
    let id = made(&bin, "go").await;
    let copied = bin.home().with_file_name("copied");
    copy(&bin.home(), &copied);
    std::fs::rename(bin.home(), bin.home().with_file_name("old-home")).unwrap();
    std::fs::rename(&copied, bin.home()).unwrap();
    let end = object(&bin, &["run", "--continue", "--output=json", "on"]).await;
    assert_eq!(end["session"], json!(id));
    server.assert_clean();
}
