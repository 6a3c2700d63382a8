//! `list`, `show`, `diff`, `path`, and shortened ids.

use std::time::Duration;

use reins_testkit::{Bin, StrictServer, script};
use serde_json::{Value, json};

use super::{folder, keys, log_of, made, object, refused, rig, well};

#[tokio::test]
async fn the_list_has_the_last_used_first_and_can_be_narrowed() {
    let (bin, _server) = rig();
    let none = well(&bin, &["session", "list"]).await;
    assert_eq!(none.stderr, "no sessions yet; `reins demo` makes one without a key\n");
    let first = made(&bin, "the first").await;
    std::fs::create_dir(bin.project().join("below")).unwrap();
    well(&bin, &["run", "--cwd", "below", "the second"]).await;
    let third = made(&bin, "the third").await;

    let list = well(&bin, &["session", "list"]).await;
    let lines: Vec<&str> = list.stdout.lines().collect();
    assert_eq!((lines.len(), list.stderr.as_str()), (3, ""), "{list:?}");
    assert!(lines[0].starts_with(&third) && lines[0].ends_with("  the third"), "{}", lines[0]);
    assert!(lines[2].starts_with(&first), "{}", lines[2]);
    let here = well(&bin, &["session", "list", "--cwd"]).await;
    assert_eq!(here.stdout.lines().count(), 2, "{here:?}");
    assert!(!here.stdout.contains("the second"), "{here:?}");
    let one = well(&bin, &["session", "list", "--limit", "1"]).await;
    assert_eq!(one.stdout, format!("{}\n", lines[0]));
    assert_eq!(one.stderr, "and 2 more; a higher --limit shows them\n");

    let list = object(&bin, &["session", "list", "--json", "--limit", "2"]).await;
    assert_eq!(keys(&list), ["schema", "sessions", "damaged", "total"]);
    assert_eq!(
        (&list["schema"], &list["total"], &list["damaged"]),
        (&json!("reins.session.list/1"), &json!(3), &json!([]))
    );
    let newest = &list["sessions"][0];
    assert_eq!(
        keys(newest),
        [
            "id",
            "created_at",
            "modified",
            "cwd",
            "agent_preset",
            "parent",
            "state",
            "lease",
            "archived",
            "events",
            "bytes",
            "first_prompt",
            "problem"
        ]
    );
    let events = std::fs::read_to_string(log_of(&bin, &third)).unwrap().lines().count();
    let expected = json!({
        "id": third, "created_at": newest["created_at"], "modified": newest["modified"],
        "cwd": bin.project().canonicalize().unwrap(), "agent_preset": "standard", "parent": null,
        "state": "idle", "lease": null, "archived": false, "events": events,
        "bytes": log_of(&bin, &third).metadata().unwrap().len(), "first_prompt": "the third",
        "problem": null,
    });
    assert_eq!(*newest, expected);
}

#[tokio::test]
async fn an_id_may_be_shortened_while_it_is_the_only_one() {
    let (bin, _server) = rig();
    let first = made(&bin, "one").await;
    let short = &first[..8];
    assert!(well(&bin, &["session", "show", short]).await.stdout.contains(&first));
    well(&bin, &["run", "--session", &short.to_uppercase(), "more"]).await;
    // The second may begin with another time; so its folder gets an id that begins the same.
    let second = format!("{}-0000-7000-8000-000000000000", &first[..8]);
    let text = std::fs::read_to_string(folder(&bin, &first).join("header.json")).unwrap();
    std::fs::create_dir(folder(&bin, &second)).unwrap();
    let file = |name: &str| format!("../home/sessions/{second}/{name}");
    bin.file(&file("header.json"), text.replace(&first, &second)).unwrap();
    bin.file(&file("00000000.log"), std::fs::read(log_of(&bin, &first)).unwrap()).unwrap();
    for args in [["session", "show", short].as_slice(), &["run", "--session", short, "x"]] {
        let said = refused(&bin, args, 6).await;
        assert!(said.contains(&first) && said.contains(&second), "{said}");
        assert!(said.contains("the beginning of several sessions"), "{said}");
    }
    let said = refused(&bin, &["session", "path", "ffff"], 6).await;
    assert!(said.starts_with("reins: no session `ffff`"), "{said}");
    assert!(refused(&bin, &["session", "path", "../x"], 6).await.contains("`../x` is not a"));
    let path = well(&bin, &["session", "path", &first]).await.stdout;
    assert_eq!(path, format!("{}\n", folder(&bin, &first).display()));
    let path = object(&bin, &["session", "path", &first, "--json"]).await;
    let expected = json!({
        "schema": "reins.session.path/1", "session": first, "path": folder(&bin, &first),
    });
    assert_eq!(path, expected);
}

#[tokio::test]
async fn a_session_is_shown_as_events_as_messages_and_as_the_model_reads_it() {
    let call = json!({"command": "echo here", "description": "A command of a test"});
    let acts = script().text("I look.").call("bash", call).then().text("Done.").usage(9, 4, 0);
    let server = StrictServer::start(acts).unwrap();
    let bin = super::bin().model_at(&server.base_url());
    let id = made(&bin, "look").await;
    let log = std::fs::read_to_string(log_of(&bin, &id)).unwrap();

    let events = well(&bin, &["session", "show", &id, "--events"]).await.stdout;
    assert_eq!(events, log);
    let from = well(&bin, &["session", "show", &id, "--events", "--from", "3"]).await.stdout;
    assert_eq!(from, log.split_inclusive('\n').skip(3).collect::<String>());

    let said = well(&bin, &["session", "show", &id, "--messages"]).await.stdout;
    let said: Vec<&str> = said.lines().map(|line| line.split_once("] ").unwrap().1).collect();
    let model = |words: &str| format!("model deepseek/deepseek-v4-flash: {words}");
    assert_eq!(said, ["you: look", &model("I look."), &model("Done.")]);

    let surface = well(&bin, &["session", "show", &id, "--surface"]).await.stdout;
    for part in ["] you: look\n", "] reins: ", "→ bash {", "] tool: here\n", ": Done.\n"] {
        assert!(surface.contains(part), "no `{part}` in {surface}");
    }

    let shown = object(&bin, &["session", "show", &id, "--json"]).await;
    assert_eq!(keys(&shown), ["schema", "session", "events", "totals", "damage"]);
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(shown["events"], Value::Array(lines));
    let count = log.lines().count();
    let totals = json!({"events": count, "turns": 1, "input_tokens": 9, "output_tokens": 4});
    assert_eq!(shown["totals"], totals);
    let of = &shown["session"];
    assert_eq!((&of["id"], &of["lease"], &of["cwd"]), (&json!(id), &Value::Null, &of["began_in"]));
    let messages = object(&bin, &["session", "show", &id, "--json", "--messages"]).await;
    assert_eq!(messages["messages"].as_array().unwrap().len(), 3, "{messages}");
    let surface = object(&bin, &["session", "show", &id, "--json", "--surface"]).await;
    assert_eq!(surface["surface"].as_array().unwrap().len(), 5, "{surface}");
    for pair in [["--events", "--surface"], ["--surface", "--from=2"]] {
        let args = ["session", "show", &id, pair[0], pair[1]];
        refused(&bin, &args, 2).await;
    }
}

async fn changed(limit: Duration) -> (Bin, StrictServer, String) {
    let write = |path: &str, content: &str| json!({"file_path": path, "content": content});
    let edit = json!({"file_path": "new.txt", "old_string": "two", "new_string": "2"});
    let command = json!({"command": "echo x > by-command.txt", "description": "A command"});
    let acts = script()
        .call("write", write("new.txt", "one\ntwo\n"))
        .call("read", json!({"file_path": "old.txt"}))
        .then()
        .call("edit", edit)
        .call("write", write("old.txt", "after\n"))
        .call("edit", json!({"file_path": "absent", "old_string": "a", "new_string": "b"}))
        .then()
        .call("bash", command)
        .then()
        .text("Done.");
    let server = StrictServer::start(acts).unwrap();
    let bin = super::bin().model_at(&server.base_url()).limit(limit);
    bin.file("old.txt", "before\n").unwrap();
    let id = made(&bin, "change").await;
    (bin, server, id)
}

#[tokio::test]
async fn what_a_session_changed_is_a_patch_and_what_the_log_does_not_know_is_said() {
    let (bin, _server, id) = changed(Duration::from_secs(60)).await;
    let diff = well(&bin, &["session", "diff", &id]).await;
    let seq = |line: &str| line[1..].split_once(']').unwrap().0.to_owned();
    let heads: Vec<String> =
        diff.stdout.lines().filter(|line| line.starts_with('[')).map(seq).collect();
    assert_eq!(heads.len(), 3, "{}", diff.stdout);
    let expected = format!(
        "[{}] write new.txt\n--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n\
         [{}] edit new.txt\n--- a/new.txt\n+++ b/new.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\
         [{}] write old.txt\n--- a/old.txt\n+++ b/old.txt\n@@ -1 +1 @@\n-before\n+after\n",
        heads[0], heads[1], heads[2]
    );
    assert_eq!(diff.stdout, expected);
    let said = "1 command ran; what they changed in files is not in the log\n";
    assert_eq!(diff.stderr, said);

    let diff = object(&bin, &["session", "diff", &id, "--json"]).await;
    assert_eq!(keys(&diff), ["schema", "session", "files", "commands", "unknown"]);
    let files = diff["files"].as_array().unwrap();
    let paths: Vec<&Value> = files.iter().map(|file| &file["path"]).collect();
    let project = bin.project().canonicalize().unwrap();
    assert_eq!(paths, [&json!(project.join("new.txt")), &json!(project.join("old.txt"))]);
    assert_eq!(keys(&files[0]["changes"][0]), ["seq", "tool", "created", "diff"]);
    assert_eq!((&diff["commands"], &diff["unknown"]), (&json!(1), &json!([])));
}
