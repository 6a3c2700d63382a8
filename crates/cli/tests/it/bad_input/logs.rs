//! Logs that are torn, damaged or in use.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use reins_testkit::{At, Bin, Fault, StrictServer, Transcript, script};
use std::time::Duration;

use super::{bin, sessions, with_session};

fn log_of(bin: &Bin, id: &str) -> PathBuf {
    bin.home().join("sessions").join(id).join("00000000.log")
}

fn append(log: &Path, bytes: &[u8]) {
    let mut file = std::fs::File::options().append(true).open(log).unwrap();
    file.write_all(bytes).unwrap();
}

#[tokio::test]
async fn a_torn_last_line_is_kept_aside_and_the_session_goes_on() {
    let server = StrictServer::start(script().text("hello").then().text("on we go")).unwrap();
    let bin = bin().model_at(&server.base_url());
    let id = with_session(&bin).await;
    let log = log_of(&bin, &id);
    let whole = std::fs::read(&log).unwrap();
    let torn = b"{\"seq\":99,\"time\":1,\"type\":\"turn/st";
    append(&log, torn);

    let end = bin.run(["run", "--session", &id, "go on"]).await.unwrap();

    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "on we go\n"), "{}", end.stderr);
    server.assert_clean();
    let after = std::fs::read(&log).unwrap();
    assert!(after.starts_with(&whole), "what was whole stays byte for byte");
    let transcript = Transcript::read(&log).unwrap();
    let recovered = transcript.only(&["session/recovered"]);
    assert!(recovered.as_str().contains("from byte"), "{recovered}");
    let kept: Vec<Vec<u8>> = sessions(&bin)
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "bytes"))
        .map(|(_, bytes)| bytes)
        .collect();
    assert_eq!(kept, [torn.to_vec()]);
    let messages = server.json_bodies()[1]["messages"].to_string();
    assert_eq!(messages.matches("the first prompt").count(), 1, "{messages}");
}

#[tokio::test]
async fn damage_in_the_middle_is_kept_and_the_session_goes_on() {
    let server = StrictServer::start(script().text("hello").forever()).unwrap();
    let bin = bin().model_at(&server.base_url());
    let id = with_session(&bin).await;
    let log = log_of(&bin, &id);
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes.windows(16).position(|part| part == b"the first prompt").unwrap();
    bytes[at] = b'T';
    std::fs::File::create(&log).unwrap().write_all(&bytes).unwrap();

    let end = bin.run(["run", "go on", "--session", &id]).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "hello\n"), "{}", end.stderr);
    let original = |(path, content): (PathBuf, Vec<u8>)| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("original-") && content == bytes
    };
    assert!(sessions(&bin).into_iter().any(original), "what was there is kept");
    let end = bin.run(["run", "go on", "--continue"]).await.unwrap();
    assert_eq!(end.code, Some(0), "{}", end.stderr);
    assert!(!end.stderr.contains("damaged"), "it is told once: {}", end.stderr);
}

#[tokio::test]
async fn a_session_without_its_header_needs_a_directory_and_goes_on() {
    let server = StrictServer::start(script().text("hello").forever()).unwrap();
    let bin = bin().model_at(&server.base_url());
    let broken = with_session(&bin).await;
    let id = with_session(&bin).await;
    let folder = bin.home().join("sessions").join(&broken);
    std::fs::rename(folder.join("header.json"), folder.join("header.old")).unwrap();
    let end = bin.run(["run", "--session", &broken, "hi"]).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(2), ""), "{}", end.stderr);
    assert!(end.stderr.contains("--cwd"), "{}", end.stderr);
    let list = bin.run(["session", "list"]).await.unwrap();
    assert_eq!(list.code, Some(0), "{}", list.stderr);
    assert!(list.stdout.contains(&id) && list.stdout.contains(&broken), "{}", list.stdout);
    let end = bin.run(["run", "--session", &broken, "--cwd", ".", "hi"]).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "hello\n"), "{}", end.stderr);
    assert!(folder.join("header.json").is_file());
}

#[tokio::test]
async fn a_session_in_use_is_refused_with_the_process_that_has_it() {
    let acts = script()
        .text("hello")
        .then()
        .text("half of it")
        .fault(Fault::Stall(At::Text, Duration::from_secs(600)))
        .then()
        .text("mine again");
    let server = StrictServer::start(acts).unwrap();
    let bin = bin().model_at(&server.base_url());
    let id = with_session(&bin).await;
    let holder = bin.spawn(["run", "--session", &id, "long"], None).await.unwrap();
    let pid = holder.id().unwrap();
    bin.until_log("\"type\":\"request/sent\"", 2).await.unwrap();
    server.reached(2).await;

    let end = bin.run(["run", "--session", &id, "me too"]).await.unwrap();
    assert_eq!(end.code, Some(6), "{}", end.stderr);
    let start = format!("reins: session `{id}` is in use by pid {pid}");
    assert!(end.stderr.starts_with(&start), "{}", end.stderr);
    assert_eq!((end.stdout.as_str(), end.stderr.lines().count()), ("", 1));

    let end = holder.kill9_after(std::future::ready(())).await.unwrap();
    assert_eq!(end.signal, Some(9));
    let end = bin.run(["run", "--session", &id, "and now"]).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(0), "mine again\n"), "{}", end.stderr);
    server.assert_clean();
    let messages = server.json_bodies()[2]["messages"].to_string();
    assert!(!messages.contains("me too"), "the refused prompt did not enter: {messages}");
}
