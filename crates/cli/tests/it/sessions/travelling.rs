//! `export` and `import`: a session from one home to another.

use serde_json::json;

use super::{keys, log_of, made, object, refused, rig, well};

#[tokio::test]
async fn a_session_and_its_forks_travel_whole() {
    let (bin, _server) = rig();
    let (other, server) = rig();
    let id = made(&bin, "`\u{1b}[31mthe first`").await;
    let fork = well(&bin, &["session", "fork", &id]).await.stdout.trim_end().to_owned();
    well(&bin, &["run", "--session", &fork, "in the fork"]).await;
    let log = well(&bin, &["session", "show", &id, "--events"]).await.stdout;

    let out = object(&bin, &["session", "export", &id, "-o", "one.zip", "--json"]).await;
    assert_eq!(keys(&out), ["schema", "file", "sessions", "bytes"]);
    assert_eq!(out["sessions"], json!([id]));
    let args = ["session", "export", &id, "-o", "a.zip", "--with-forks", "--json"];
    let out = object(&bin, &args).await;
    assert_eq!(out["sessions"], json!([id, fork]));
    assert_eq!(out["bytes"], json!(bin.project().join("a.zip").metadata().unwrap().len()));
    let said = refused(&bin, &["session", "export", &id, "-o", "a.zip"], 2).await;
    assert!(said.contains("is there already"), "{said}");
    well(&bin, &["session", "export", &id, "-o", "a.zip", "--with-forks", "--force"]).await;

    let file = bin.project().join("a.zip");
    let file = file.to_str().unwrap();
    let read = object(&other, &["session", "import", file, "--json"]).await;
    assert_eq!((&read["sessions"], &read["already"]), (&json!([id, fork]), &json!([])));
    let again = object(&other, &["session", "import", file, "--json"]).await;
    assert_eq!((&again["sessions"], &again["already"]), (&json!([]), &json!([id, fork])));
    let there = well(&other, &["session", "show", &id, "--events"]).await.stdout;
    assert_eq!(there, log);
    let new = object(&other, &["session", "import", file, "--as-new", "--json"]).await;
    assert_eq!(new["sessions"].as_array().unwrap().len(), 2, "{new}");
    let new = new["sessions"][0].as_str().unwrap();
    assert_ne!(new, id);
    assert_eq!(well(&other, &["session", "show", new, "--events"]).await.stdout, log);
    well(&other, &["session", "verify", "--all"]).await;
    let project = other.project();
    let project = project.to_str().unwrap();
    std::fs::remove_dir_all(bin.project()).unwrap();
    well(&other, &["run", "--session", &fork, "--cwd", project, "on"]).await;
    let asked = server.json_bodies().pop().unwrap()["messages"].to_string();
    assert!(asked.contains("the first") && asked.contains("in the fork"), "{asked}");
    server.assert_clean();
}

#[tokio::test]
async fn what_is_no_export_is_refused_and_leaves_nothing() {
    let (bin, _server) = rig();
    let id = made(&bin, "go").await;
    bin.file("no.zip", "PK\u{3}\u{4} not really").unwrap();
    for name in ["no.zip", "absent.zip"] {
        let said = refused(&bin, &["session", "import", name], 2).await;
        assert!(said.contains(name), "{said}");
    }
    let list = object(&bin, &["session", "list", "--json"]).await;
    assert_eq!(list["total"], json!(1));
    assert!(log_of(&bin, &id).exists());
}
