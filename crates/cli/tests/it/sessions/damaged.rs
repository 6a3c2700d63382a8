//! Damaged sessions: what `show`, `verify`, `repair` and a run say, and that all bytes are kept.

use std::io::Write as _;
use std::path::Path;

use reins_testkit::Bin;
use serde_json::{Value, json};

use super::{folder, keys, log_of, made, object, rig, well};

/// Makes one byte of the line with this text another one; the number of its event.
fn break_line(log: &Path, with: &str) -> u64 {
    let mut bytes = std::fs::read(log).unwrap();
    let at = bytes.windows(with.len()).position(|part| part == with.as_bytes()).unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let number = text[..at].matches('\n').count() as u64;
    bytes[at] ^= 1;
    put(log, &bytes);
    number
}

fn put(path: &Path, bytes: &[u8]) {
    std::fs::File::create(path).unwrap().write_all(bytes).unwrap();
}

fn append(path: &Path, bytes: &[u8]) {
    std::fs::File::options().append(true).open(path).unwrap().write_all(bytes).unwrap();
}

/// Every file of a session's folder but those that only say who used it.
fn kept(bin: &Bin, id: &str) -> Vec<(String, Vec<u8>)> {
    let files = std::fs::read_dir(folder(bin, id)).unwrap().map(|file| file.unwrap());
    let files = files.filter(|file| file.file_type().unwrap().is_file());
    let mut files: Vec<_> = files
        .map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()))
        .filter(|(name, _)| name != "lease")
        .collect();
    files.sort();
    files
}

#[tokio::test]
async fn a_hole_is_named_and_repair_keeps_the_bytes() {
    let (bin, _server) = rig();
    let id = made(&bin, "the first prompt").await;
    well(&bin, &["run", "--session", &id, "the second"]).await;
    let log = log_of(&bin, &id);
    let seq = break_line(&log, "fine");
    let damaged = std::fs::read(&log).unwrap();
    // What was stored for a fast opening would hide it.
    drop(std::fs::remove_file(folder(&bin, &id).join("snapshot.json")));
    let before = kept(&bin, &id);

    let verify = bin.run(["session", "verify", &id]).await.unwrap();
    assert_eq!(verify.code, Some(6), "{verify:?}");
    assert!(verify.stdout.starts_with(&format!("{id}  damaged: ")), "{}", verify.stdout);
    assert!(verify.stdout.contains(&format!("  hole: {}, ", log.display())), "{}", verify.stdout);
    assert!(verify.stderr.starts_with("reins: 1 session is damaged\nhint: "), "{}", verify.stderr);
    let verify = bin.run(["session", "verify", "--all", "--json"]).await.unwrap();
    let found: Value = serde_json::from_str(&verify.stdout).unwrap();
    assert_eq!((verify.code, &found["ok"]), (Some(6), &json!(false)), "{verify:?}");
    let place = &found["sessions"][0]["damage"][0];
    assert_eq!(
        keys(place),
        ["kind", "path", "offset", "bytes", "line", "problem", "first", "last"]
    );
    assert_eq!(
        (&place["kind"], &place["first"], &place["last"]),
        (&json!("hole"), &json!(seq), &json!(seq))
    );

    let show = bin.run(["session", "show", &id]).await.unwrap();
    assert_eq!(show.code, Some(6), "{show:?}");
    assert!(show.stdout.contains(&format!("\n[{seq}] lost\n")), "{}", show.stdout);
    assert!(show.stdout.contains("] you: the second\n"), "what follows is shown: {}", show.stdout);
    assert!(show.stderr.starts_with("reins: the session is damaged: "), "{}", show.stderr);

    let dry = object(&bin, &["session", "repair", &id, "--dry-run", "--json"]).await;
    assert_eq!(
        (&dry["dry_run"], &dry["recovered"][0]["lost"]),
        (&json!(true), &json!([[seq, seq]]))
    );
    assert_eq!(kept(&bin, &id), before, "nothing was written yet");
    let repair = well(&bin, &["session", "repair", &id]).await;
    assert!(repair.stdout.starts_with("repaired: "), "{repair:?}");
    assert!(repair.stdout.contains(&format!("; lost events: {seq}; ")), "{repair:?}");
    let originals = kept(&bin, &id).into_iter().filter(|(name, _)| name.starts_with("original-"));
    let originals: Vec<Vec<u8>> = originals.map(|(_, bytes)| bytes).collect();
    assert_eq!(originals, [damaged], "a byte copy of the original is kept");
    well(&bin, &["session", "verify", &id]).await;
    let again = well(&bin, &["session", "repair", &id]).await;
    assert_eq!((again.stdout.as_str(), again.stderr.as_str()), ("", "nothing is to be repaired\n"));
}

#[tokio::test]
async fn a_run_goes_on_over_damage_and_says_once_what_it_did() {
    let (bin, server) = rig();
    let id = made(&bin, "the first prompt").await;
    well(&bin, &["run", "--session", &id, "the second"]).await;
    let log = log_of(&bin, &id);
    break_line(&log, "fine");
    append(&log, b"{\"seq\":99,\"ti");
    drop(std::fs::remove_file(folder(&bin, &id).join("snapshot.json")));
    let end = well(&bin, &["run", "--session", &id, "--output", "json", "on"]).await;
    let told = end.stderr.lines().filter(|line| line.starts_with("reins: the log was damaged: "));
    assert_eq!(told.count(), 2, "{}", end.stderr);
    let object: Value = serde_json::from_str(&end.stdout).unwrap();
    let recovered = object["recovered"].as_array().unwrap();
    assert_eq!(recovered.len(), 2, "{object}");
    assert_eq!(keys(&recovered[0]), ["damage", "cut_bytes", "kept_in", "lost", "aside", "branch"]);
    let asked = server.json_bodies().pop().unwrap()["messages"].to_string();
    assert!(asked.contains("the first prompt") && asked.contains("the second"), "{asked}");
    server.assert_clean();
    let again = well(&bin, &["run", "--session", &id, "--output", "json", "on"]).await;
    assert!(!again.stderr.contains("damaged"), "{}", again.stderr);
    assert!(again.stdout.contains("\"recovered\":[]"), "{}", again.stdout);
}

#[tokio::test]
async fn one_damaged_session_hides_no_other() {
    let (bin, _server) = rig();
    let (bad, good) = (made(&bin, "bad").await, made(&bin, "good").await);
    put(&log_of(&bin, &bad), &[0x8f; 5000]);
    bin.file("../home/sessions/stranger/x", "y").unwrap();
    let list = well(&bin, &["session", "list"]).await;
    assert!(list.stdout.contains(&good), "{list:?}");
    let said = format!("{}{}", list.stdout, list.stderr);
    assert!(said.contains(&bad) && said.contains("damaged"), "{list:?}");
    let all = bin.run(["session", "verify", "--all"]).await.unwrap();
    assert_eq!(all.code, Some(6), "{all:?}");
    assert!(all.stdout.contains(&format!("{good}  ok: ")), "{}", all.stdout);
}
