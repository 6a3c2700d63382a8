//! `fork` and `archive`.

use serde_json::{Value, json};

use super::{folder, keys, log_of, made, object, refused, rig, well};

fn seq_of(log: &str, kind: &str, nth: usize) -> u64 {
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut found = lines.filter(|event| event["type"] == kind);
    found.nth(nth).unwrap()["seq"].as_u64().unwrap()
}

#[tokio::test]
async fn a_fork_goes_on_from_any_place_between_turns_and_outlives_its_parent() {
    let (bin, server) = rig();
    let parent = made(&bin, "the first").await;
    well(&bin, &["run", "--session", &parent, "the second"]).await;
    let log = std::fs::read_to_string(log_of(&bin, &parent)).unwrap();
    let boundary = seq_of(&log, "turn/end", 0);

    let whole = well(&bin, &["session", "fork", &parent]).await;
    let child = whole.stdout.trim_end().to_owned();
    assert!(whole.stderr.contains(&format!("run --session {child} ")), "{}", whole.stderr);
    let at = format!("{parent}@{boundary}");
    let early = object(&bin, &["session", "fork", &at, "--json"]).await;
    assert_eq!(keys(&early), ["schema", "session", "parent", "at"]);
    assert_eq!((&early["parent"], &early["at"]), (&json!(parent), &json!(boundary)));
    let early = early["session"].as_str().unwrap().to_owned();

    let inside = format!("{parent}@{}", boundary - 1);
    let said = refused(&bin, &["session", "fork", &inside], 2).await;
    assert!(said.contains("inside turn 1"), "{said}");
    let said = refused(&bin, &["session", "fork", &format!("{parent}@99999")], 2).await;
    assert!(said.contains("has no event 99999"), "{said}");
    let said = refused(&bin, &["session", "fork", &format!("{parent}@x")], 2).await;
    assert!(said.contains("`x` behind the @ is not the number of an event"), "{said}");

    // The parent goes away; its children lose nothing.
    well(&bin, &["session", "remove", "--yes", &parent]).await;
    assert!(!folder(&bin, &parent).exists());
    for (id, has_second) in [(&child, true), (&early, false)] {
        let before = server.requests().len();
        well(&bin, &["run", "--session", id, "and now"]).await;
        let asked = server.json_bodies()[before]["messages"].to_string();
        assert!(asked.contains("the first") && asked.contains("and now"), "{asked}");
        assert_eq!(asked.contains("the second"), has_second, "{asked}");
        let show = well(&bin, &["session", "show", id]).await.stdout;
        assert!(show.contains(&format!("forked from {parent} at ")), "{show}");
        well(&bin, &["session", "verify", id]).await;
    }
    let grandchild = well(&bin, &["session", "fork", &child]).await.stdout;
    let show = well(&bin, &["session", "show", grandchild.trim_end(), "--messages"]).await.stdout;
    assert_eq!(show.matches("] you: ").count(), 3, "{show}");
    server.assert_clean();
}

#[tokio::test]
async fn an_archived_session_is_hidden_until_it_is_asked_for_and_goes_on_as_ever() {
    let (bin, _server) = rig();
    let (id, other) = (made(&bin, "kept").await, made(&bin, "other").await);
    let archived = object(&bin, &["session", "archive", &id, "--json"]).await;
    let expected = json!({"schema": "reins.session.archive/1", "session": id, "archived": true});
    assert_eq!(archived, expected);
    let list = well(&bin, &["session", "list"]).await.stdout;
    assert!(list.contains(&other) && !list.contains(&id), "{list}");
    let all = well(&bin, &["session", "list", "--all"]).await.stdout;
    assert!(all.contains("  [archived] kept\n"), "{all}");
    let show = well(&bin, &["session", "show", &id]).await.stdout;
    assert!(show.contains("] you: kept\n"), "{show}");
    well(&bin, &["session", "verify", &id]).await;
    well(&bin, &["session", "archive", &id, "--undo"]).await;
    let list = well(&bin, &["session", "list"]).await.stdout;
    assert!(list.contains(&id), "{list}");
    well(&bin, &["run", "--session", &id, "more"]).await;
}
