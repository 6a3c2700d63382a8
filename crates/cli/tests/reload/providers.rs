//! Providers that change or go while a session uses them.

use reins_host::RunEnd;
use reins_schema::TurnEndReason;
use reins_testkit::{StrictServer, script};

use crate::rig::{House, Plan, asked, persona};

fn brief(text: &str) -> StrictServer {
    StrictServer::start(script().text(text).forever()).unwrap()
}

fn provider(config: &str) -> String {
    format!("[[row]]\nid = \"deepseek\"\nconfig = {{ vendor = \"deepseek\", {config} }}\n")
}

#[tokio::test]
async fn a_changed_provider_is_used_from_the_next_turn_on() {
    let (server, other) = (brief("first"), brief("second"));
    let house = House::new(&server, Plan::default()).await;
    let talk = house.open(None).await;
    assert_eq!(talk.turn("1").await.outcome.text, "first");
    let row = provider(&format!("base_url = \"{}\", max_tokens = 77", other.base_url()));
    house.edit("settings.toml", &row).await;
    let turn = talk.turn("2").await;
    assert_eq!(turn.outcome.text, "second");
    assert_eq!(turn.changes, [["deepseek"]]);
    // The items that a server could keep are the same.
    assert_eq!((turn.headers, turn.causes), (vec!["call settings".to_owned()], vec![None]));
    assert_eq!((server.requests().len(), other.requests().len()), (1, 1));
    assert_eq!(
        (asked(&server)[0].max_tokens, asked(&other)[0].max_tokens),
        (Some(256_000), Some(77))
    );
    // Nothing that the model reads is different at the first server again.
    house.edit("settings.toml", &provider("max_tokens = 77")).await;
    let turn = talk.turn("3").await;
    assert_eq!((turn.outcome.text.as_str(), turn.headers.len()), ("first", 0));
    talk.agent.close().await;
    other.assert_clean();
    other.stop().await;
    house.end(server).await;
}

#[tokio::test]
async fn a_session_whose_provider_goes_is_told_so_and_goes_on_when_it_is_back() {
    let server = brief("done");
    let house = House::new(&server, Plan::default()).await;
    let talk = house.open(None).await;
    talk.turn("1").await;
    house.edit("settings.toml", "[[row]]\nid = \"deepseek\"\ndisabled = true\n").await;
    let outcome = talk.turn("2").await.outcome;
    let RunEnd::Turn(TurnEndReason::Error { failure }) = &outcome.end else {
        panic!("{:?}", outcome.end)
    };
    let words = "there is no provider `deepseek`; no provider row is enabled";
    assert_eq!((failure.code.as_str(), failure.message.as_str()), ("INVALID_REQUEST", words));
    house.edit("settings.toml", "").await;
    let turn = talk.turn("3").await;
    assert_eq!(turn.outcome.text, "done");
    assert_eq!(turn.causes, [None]);
    let bodies = server.json_bodies();
    let prompts: Vec<&str> = bodies[1]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "user")
        .filter_map(|message| message["content"].as_str())
        .filter(|text| text.len() == 1)
        .collect();
    assert_eq!(prompts, ["1", "2", "3"], "what was said in between is not lost");
    talk.agent.close().await;
    house.end(server).await;
}

#[tokio::test]
async fn connections_outlive_generations() {
    let server = brief("done");
    let house = House::new(&server, Plan::default()).await;
    let talk = house.open(None).await;
    for text in ["one", "two", "three"] {
        house.edit("settings.toml", &persona(text)).await;
        assert_eq!(talk.turn(text).await.changes, [["prompt"]]);
    }
    house.edit("settings.toml", &provider("max_tokens = 5")).await;
    talk.turn("four").await;
    let connections: Vec<u64> = server.requests().iter().map(|sent| sent.connection).collect();
    assert_eq!(connections, [1, 1, 1, 1]);
    talk.agent.close().await;
    house.end(server).await;
}
