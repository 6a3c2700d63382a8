//! What an agent does for its session when a turn begins and ends.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reins_testkit::{StrictServer, script};
use serde_json::{Value, json};

use crate::rig::{Gate, House, Plan};

const OFTEN: &str =
    "[[row]]\nid = \"store\"\nconfig = { home = \"${home}\", snapshot_events = 5 }\n";

/// The folder of the only session.
fn folder(home: &Path) -> PathBuf {
    std::fs::read_dir(home.join("sessions")).unwrap().next().unwrap().unwrap().path()
}

/// A file of the log's own thread, once it says this.
async fn says(path: &Path, pointer: &str, wanted: &Value) {
    let reads = || -> Option<Value> {
        let text = std::fs::read_to_string(path).ok()?;
        let value: Value = serde_json::from_str(text.lines().next()?).ok()?;
        value.pointer(pointer).cloned()
    };
    let mut found = reads();
    for _ in 0..500 {
        if found.as_ref() == Some(wanted) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        found = reads();
    }
    panic!("{}: {pointer} is {found:?}, not {wanted}", path.display());
}

#[tokio::test]
async fn the_lease_says_which_turn_is_open_and_a_turn_ends_with_a_snapshot() {
    let acts = script().call("gate", json!({"name": "turns"})).then().text("done");
    let server = StrictServer::start(acts).unwrap();
    let house = House::new(&server, Plan { settings: Some(OFTEN), ..Plan::default() }).await;
    let talk = house.open(None).await;
    let (gate, folder) = (Gate::named("turns"), folder(&house.home()));
    let (lease, snapshot) = (folder.join("lease"), folder.join("snapshot.json"));
    let look = async {
        gate.reached().await;
        says(&lease, "/doing", &json!("turn 1")).await;
        assert!(!snapshot.exists(), "none inside a turn");
        gate.open();
    };
    tokio::join!(talk.turn("go"), look);
    says(&lease, "/doing", &json!("idle")).await;
    let last = talk.agent.next_seq() - 1;
    says(&snapshot, "/at/seq", &json!(last)).await;
    talk.agent.close().await;
    house.end(server).await;
}
