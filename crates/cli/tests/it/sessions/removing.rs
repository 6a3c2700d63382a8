//! `remove`: only what was meant, and only after a question.

use std::time::{Duration, SystemTime};

use serde_json::json;

use super::{folder, keys, log_of, made, object, refused, rig, well};

/// Makes a session look unused for two days.
fn age(bin: &reins_testkit::Bin, id: &str) {
    let two_days = Duration::from_secs(2 * 86_400);
    #[expect(clippy::disallowed_methods, reason = "the time of a file")]
    let then = SystemTime::now() - two_days;
    std::fs::File::options()
        .append(true)
        .open(log_of(bin, id))
        .unwrap()
        .set_modified(then)
        .unwrap();
}

#[tokio::test]
async fn without_a_terminal_it_needs_yes() {
    let (bin, _server) = rig();
    let (id, other) = (made(&bin, "go").await, made(&bin, "stay").await);
    let end = bin.run(["session", "remove", &id]).await.unwrap();
    assert_eq!(end.code, Some(2), "{end:?}");
    assert!(end.stdout.starts_with(&id) && end.stdout.lines().count() == 1, "{end:?}");
    assert!(end.stderr.starts_with("reins: there is no terminal to ask on\nhint: --yes "));
    let dry = well(&bin, &["session", "remove", &id, "--dry-run"]).await;
    assert!(dry.stderr.ends_with(" would be removed\n"), "{dry:?}");
    assert!(folder(&bin, &id).exists());
    // The same one twice is one.
    let gone = object(&bin, &["session", "remove", &id, &id, "--yes", "--json"]).await;
    assert_eq!(keys(&gone), ["schema", "dry_run", "removed", "kept"]);
    assert_eq!((&gone["removed"], &gone["kept"]), (&json!([id]), &json!([])));
    assert!(!folder(&bin, &id).exists() && folder(&bin, &other).exists());
    assert!(refused(&bin, &["session", "show", &id], 6).await.contains("no session"));
    let list = well(&bin, &["session", "list"]).await.stdout;
    assert!(!list.contains(&id) && list.contains(&other), "{list}");
    let said = refused(&bin, &["session", "remove", &id, "--yes"], 6).await;
    assert!(said.contains("no session"), "{said}");
    refused(&bin, &["session", "remove", "--yes"], 2).await;
    refused(&bin, &["session", "remove", "--older", "yesterday", "--yes"], 2).await;
}

#[tokio::test]
async fn old_ones_go_and_archived_and_young_ones_stay() {
    let (bin, _server) = rig();
    let (old, kept, young) =
        (made(&bin, "old").await, made(&bin, "kept").await, made(&bin, "young").await);
    well(&bin, &["session", "archive", &kept]).await;
    well(&bin, &["session", "list"]).await;
    age(&bin, &old);
    let dry = object(&bin, &["session", "remove", "--older", "30h", "--dry-run", "--json"]).await;
    assert_eq!((&dry["dry_run"], &dry["removed"]), (&json!(true), &json!([old])));
    let gone = well(&bin, &["session", "remove", "--older", "30h", "--yes"]).await;
    assert!(gone.stdout.starts_with(&old) && gone.stderr.contains("1 session of "), "{gone:?}");
    assert!(!folder(&bin, &old).exists());
    assert!(folder(&bin, &kept).exists() && folder(&bin, &young).exists());
    let none = well(&bin, &["session", "remove", "--older", "30h", "--yes"]).await;
    assert_eq!((none.stdout.as_str(), none.stderr.as_str()), ("", "no session is that old\n"));
}
