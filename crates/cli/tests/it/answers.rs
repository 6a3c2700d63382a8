//! Answers that a model should not give: too long, with impossible numbers, with torn characters.

use reins_testkit::{Acts, Bin, Finished, StrictServer, script};
use serde_json::json;

/// Runs a prompt with this patch against this server.
async fn run(server: &StrictServer, patch: &str) -> (Bin, Finished) {
    let bin = Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap().model_at(&server.base_url());
    bin.file("p.toml", patch).unwrap();
    let end = bin.run(["run", "--patch", "p.toml", "go"]).await.unwrap();
    (bin, end)
}

/// What a run of `acts` says on standard error; the answer may take 1000 bytes.
async fn too_long(acts: Acts) -> String {
    let server = StrictServer::start(acts).unwrap();
    let patch = "[[row]]\nid = \"agent-loop\"\nconfig = { max_answer_bytes = 1000 }\n";
    let (bin, end) = run(&server, patch).await;
    assert_eq!(end.code, Some(3), "{}", end.stderr);
    assert_eq!(server.requests().len(), 1, "nothing is repeated");
    let next = bin.run(["run", "--patch", "p.toml", "--continue", "and now"]).await.unwrap();
    assert_eq!((next.code, next.stdout.as_str()), (Some(0), "short\n"), "{}", next.stderr);
    server.assert_clean();
    end.stderr
}

#[tokio::test]
async fn an_answer_beyond_the_limit_fails_and_the_session_goes_on() {
    // Six bytes each in the log.
    let control = script().text("\u{1}".repeat(170)).then().text("short");
    let arguments = json!({"command": "x".repeat(1100), "description": "long"});
    let call = script().call("bash", arguments).then().text("short");
    for acts in [control, call] {
        let words = too_long(acts).await;
        assert!(words.contains("longer than 1000 bytes"), "{words}");
        assert!(words.contains("`max_answer_bytes` of row `agent-loop`"), "{words}");
    }
}

#[tokio::test]
async fn an_answer_at_the_limit_is_taken() {
    let server = StrictServer::start(script().text("x".repeat(1000))).unwrap();
    let patch = "[[row]]\nid = \"agent-loop\"\nconfig = { max_answer_bytes = 1000 }\n";
    let (_, end) = run(&server, patch).await;
    assert_eq!((end.code, end.stdout.trim_end().len()), (Some(0), 1000), "{}", end.stderr);
}
