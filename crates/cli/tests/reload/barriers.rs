//! The row `barriers`, switched while an agent lives.

use std::path::Path;

use reins_session::Status;
use reins_testkit::{StrictServer, script};
use serde_json::json;

use crate::rig::{Gate, House, Plan, Talk};

/// Nothing but a barrier, or accepted input, makes the store write within this test.
const PATIENT: &str =
    "[[row]]\nid = \"store\"\nconfig = { home = \"${home}\", write_within_ms = 60000 }\n";
const OFF: &str = "[[row]]\nid = \"barriers\"\n\
                   config = { before_request = false, before_tools = false, at_turn_end = false }\n";

/// How many events of a type are in the files of the only session.
fn on_disk(home: &Path, kind: &str) -> usize {
    let session = std::fs::read_dir(home.join("sessions")).unwrap().next().unwrap().unwrap();
    let log = std::fs::read_to_string(session.path().join("00000000.log")).unwrap();
    log.matches(&format!("\"type\":\"{kind}\"")).count()
}

/// Plays a turn. What is on disk of `tool/start` while its only body runs, and of `turn/end` after.
async fn turn(house: &House, talk: &Talk, nth: usize) -> (usize, usize) {
    let name = format!("barriers {nth}");
    let gate = Gate::named(&name);
    let look = async {
        gate.reached().await;
        let found = on_disk(&house.home(), "tool/start");
        gate.open();
        found
    };
    let (_, started) = tokio::join!(talk.turn(&name), look);
    // The turn is over for who watches its events before it is for the agent, which may wait.
    talk.agent.status().wait_for(|status| *status == Status::Idle).await.unwrap();
    (started, on_disk(&house.home(), "turn/end"))
}

#[tokio::test]
async fn a_barrier_that_is_turned_off_no_longer_waits_from_the_next_turn_on() {
    let acts = (1..=3).fold(script(), |acts, nth| {
        let acts = acts.call("gate", json!({"name": format!("barriers {nth}")}));
        let acts = acts.then().text("done");
        if nth < 3 { acts.then() } else { acts }
    });
    let server = StrictServer::start(acts).unwrap();
    let house = House::new(&server, Plan { settings: Some(PATIENT), ..Plan::default() }).await;
    let talk = house.open(None).await;
    assert_eq!(turn(&house, &talk, 1).await, (1, 1));
    house.edit("settings.toml", &format!("{PATIENT}{OFF}")).await;
    assert_eq!(turn(&house, &talk, 2).await, (1, 1), "neither waits");
    house.edit("settings.toml", PATIENT).await;
    assert_eq!(turn(&house, &talk, 3).await, (3, 3), "both wait again");
    talk.agent.close().await;
    house.end(server).await;
}
