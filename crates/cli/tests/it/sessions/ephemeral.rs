//! `run --ephemeral`: nothing is kept.

use reins_testkit::{Bin, StrictServer, script};
use serde_json::{Value, json};

use super::{object, refused};

/// A bin whose home does not exist yet.
fn without_home(acts: reins_testkit::Acts) -> (Bin, StrictServer) {
    let server = StrictServer::start(acts).unwrap();
    let bin = super::bin().model_at(&server.base_url());
    std::fs::remove_dir(bin.home()).unwrap();
    (bin, server)
}

#[tokio::test]
async fn a_run_works_as_ever_and_leaves_no_home() {
    let call = json!({"command": "echo made > made.txt", "description": "A command"});
    let (bin, server) = without_home(script().call("bash", call).then().text("done"));
    let end = object(&bin, &["run", "--ephemeral", "--output", "json", "make it"]).await;
    assert_eq!((&end["text"], &end["ephemeral"]), (&json!("done"), &json!(true)));
    assert!(bin.project().join("made.txt").exists());
    assert!(!bin.home().exists());
    server.assert_clean();
}

#[tokio::test]
async fn it_cannot_go_on_with_a_session_and_nobody_is_told_to() {
    let (bin, _server) = without_home(script().text("fine").forever());
    for more in ["--continue", "--session=x"] {
        let said = refused(&bin, &["run", "--ephemeral", more, "x"], 2).await;
        assert!(said.contains("cannot be used with"), "{said}");
    }
    let end = bin.run(["run", "--ephemeral", "hi"]).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "fine\n"), "{end:?}");
    assert!(!end.stderr.contains("--session"), "{}", end.stderr);
}

#[tokio::test]
async fn whichever_store_the_settings_choose_gives_way() {
    let (bin, _server) = without_home(script().text("fine").forever());
    let rows = format!(
        "[[row]]\nid = \"store\"\ndisabled = true\n[[insert]]\nid = \"db\"\n\
         plugin = \"store-sqlite\"\nconfig = {{ home = {:?} }}\n",
        bin.home()
    );
    bin.file("p.toml", rows).unwrap();
    let args = ["run", "--ephemeral", "--patch", "p.toml", "--output", "json", "hi"];
    let end: Value = object(&bin, &args).await;
    assert_eq!(end["ephemeral"], json!(true));
    assert!(!bin.home().exists());
    let end = object(&bin, &["run", "--patch", "p.toml", "--output", "json", "hi"]).await;
    assert_eq!(end["ephemeral"], json!(false));
    assert!(bin.home().exists());
}
