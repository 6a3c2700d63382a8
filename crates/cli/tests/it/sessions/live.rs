//! Sessions that another process writes, and many processes on one home.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use reins_testkit::{At, Bin, Fault, StrictServer, script};
use serde_json::{Value, json};

use super::{made, object, refused, rig, well};

#[tokio::test]
async fn reading_works_while_another_process_writes_and_the_rest_says_who_it_is() {
    let acts = script()
        .text("hello")
        .then()
        .text("half of it")
        .fault(Fault::Stall(At::Text, Duration::from_secs(600)));
    let server = StrictServer::start(acts).unwrap();
    let bin = super::bin().model_at(&server.base_url());
    let id = made(&bin, "the first").await;
    let holder = bin.spawn(["run", "--session", &id, "long"], None).await.unwrap();
    let pid = holder.id().unwrap();
    bin.until_log("\"type\":\"request/sent\"", 2).await.unwrap();
    server.reached(2).await;

    let list = well(&bin, &["session", "list"]).await.stdout;
    assert!(list.contains(&format!("[in use by pid {pid} (turn 2)] the first\n")), "{list}");
    let list = object(&bin, &["session", "list", "--json"]).await;
    let of = &list["sessions"][0];
    assert_eq!((&of["state"], &of["lease"]["pid"]), (&json!("live"), &json!(pid)));
    let show = well(&bin, &["session", "show", &id]).await.stdout;
    assert!(show.contains(&format!(", in use by pid {pid} (turn 2)\n")), "{show}");
    assert!(show.contains("] you: long\n"), "{show}");
    assert!(well(&bin, &["session", "verify", &id]).await.stdout.contains("  ok: "));
    well(&bin, &["session", "diff", &id]).await;
    well(&bin, &["session", "export", &id, "-o", "out.zip"]).await;
    let fork = well(&bin, &["session", "fork", &id]).await.stdout;
    let show = well(&bin, &["session", "show", fork.trim_end(), "--messages"]).await.stdout;
    assert!(show.contains("the first") && !show.contains("long"), "up to the open turn: {show}");

    let busy = format!("reins: session `{id}` is in use by pid {pid} (turn 2");
    let commands: [&[&str]; 5] = [
        &["run", "--session", &id, "me too"],
        &["session", "repair", &id],
        &["session", "move", &id, "."],
        &["session", "remove", &id, "--yes"],
        &["session", "archive", &id],
    ];
    for args in commands {
        let said = refused(&bin, args, 6).await;
        assert!(said.starts_with(&busy), "{args:?}: {said}");
    }
    let kept = well(&bin, &["session", "remove", "--older", "0m", "--dry-run"]).await.stdout;
    assert!(!kept.contains(&id), "one that is in use is no candidate: {kept}");
    holder.kill9_after(std::future::ready(())).await.unwrap();
    let list = well(&bin, &["session", "list"]).await.stdout;
    assert!(list.contains("[interrupted] the first\n"), "{list}");
}

#[tokio::test]
async fn sixteen_runs_at_once_on_one_home_are_sixteen_results() {
    let (bin, server) = rig();
    let bin = bin.limit(Duration::from_secs(240));
    std::fs::remove_dir(bin.home()).unwrap();
    let one = async |bin: &Bin, number: usize| -> Value {
        let prompt = format!("number {number}");
        object(bin, &["run", "--output", "json", &prompt]).await
    };
    let ends = join_all((0..16).map(|number| one(&bin, number))).await;
    let ids: BTreeSet<&str> = ends.iter().map(|end| end["session"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 16);
    assert!(ends.iter().all(|end| end["text"] == "fine" && end["error"].is_null()), "{ends:?}");
    let list = object(&bin, &["session", "list", "--json"]).await;
    let listed: BTreeSet<&str> = list["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["id"].as_str().unwrap())
        .collect();
    assert_eq!((listed, list["damaged"].clone()), (ids, json!([])));
    assert!(object(&bin, &["session", "verify", "--all", "--json"]).await["ok"] == true);
    server.assert_clean();
}
