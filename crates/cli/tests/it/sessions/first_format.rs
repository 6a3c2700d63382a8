//! A session of the first format, kept for ever: every command works on it.

use std::path::Path;

use reins_testkit::Bin;

use super::{folder, log_of, object, rig, well};

const ID: &str = "01a22e61-f270-709b-97ad-49fb8c8a532f";

/// A home that holds it.
fn put(bin: &Bin) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format-1").join(ID);
    std::fs::create_dir_all(folder(bin, ID)).unwrap();
    std::fs::copy(from.join("00000000.log"), log_of(bin, ID)).unwrap();
    // The directory that it really was in may be there on this machine.
    let header = std::fs::read_to_string(from.join("header.json")).unwrap();
    let header = header.replace("/tmp/reins-demo-cmODzD", "/nonexistent/project");
    bin.file(&format!("../home/sessions/{ID}/header.json"), header).unwrap();
}

#[tokio::test]
async fn it_is_listed_shown_verified_forked_and_gone_on_with() {
    let (bin, server) = rig();
    put(&bin);
    let before = std::fs::read(log_of(&bin, ID)).unwrap();
    let list = well(&bin, &["session", "list"]).await.stdout;
    assert!(list.starts_with(ID), "{list}");
    let show = well(&bin, &["session", "show", ID]).await.stdout;
    assert!(show.contains("] you: The check of this project fails."), "{show}");
    let verify = well(&bin, &["session", "verify", ID]).await.stdout;
    assert!(verify.starts_with(&format!("{ID}  ok: 46 events, ")), "{verify}");
    let diff = well(&bin, &["session", "diff", ID]).await.stdout;
    assert!(diff.contains("+++ "), "{diff}");
    assert_eq!(std::fs::read(log_of(&bin, ID)).unwrap(), before, "looking changes nothing");

    let fork = well(&bin, &["session", "fork", ID]).await.stdout;
    let project = bin.project();
    let project = project.to_str().unwrap();
    let model = "deepseek/deepseek-v4-flash";
    for id in [fork.trim_end(), ID] {
        // Its directory is long gone.
        let said = super::refused(&bin, &["run", "--session", id, "-m", model, "on"], 2).await;
        assert!(said.contains("does not exist"), "{said}");
        let args = ["run", "--session", id, "--cwd", project, "-m", model, "--output=json", "on"];
        let end = object(&bin, &args).await;
        assert_eq!(end["text"], "fine");
        let asked = server.json_bodies().pop().unwrap()["messages"].to_string();
        assert!(asked.contains("The check of this project fails."), "{asked}");
        well(&bin, &["session", "verify", id]).await;
    }
    server.assert_clean();
}
