use std::sync::Arc;
use std::time::Duration;

use reins_agent::{ToolEffect, ToolSuccess};
use reins_host::RunEnd;
use reins_schema::{CancelCause, TurnEndReason};
use reins_testkit::{At, Fault, script};
use reins_world::CancelToken;
use serde_json::json;
use tokio::sync::Notify;

use crate::rig::{Probe, Rig};

/// Longer than any test may take.
const LONG: Duration = Duration::from_secs(300);

fn by_user() -> RunEnd {
    RunEnd::Turn(TurnEndReason::Aborted { cause: CancelCause::User })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_ignores_its_cancel_is_given_up_after_the_grace() {
    let started = Arc::new(Notify::new());
    let tell = started.clone();
    let acts = script().call("deaf", json!({})).call("deaf", json!({})).then().text("next");
    let rig = Rig::new(acts, move |own| {
        own.tool(Probe::new("deaf", ToolEffect::Exclusive, move |_| {
            tell.notify_one();
            async {
                std::future::pending::<()>().await;
                Ok(ToolSuccess::text("never"))
            }
        }));
    });
    let rig = rig.await;
    let cancel = CancelToken::new();
    let (outcome, ()) = tokio::join!(rig.run_until("go", cancel.clone()), async {
        started.notified().await;
        cancel.cancel();
    });
    assert_eq!(outcome.end, by_user());
    let outcome = rig.run("again").await;
    assert_eq!(outcome.end, RunEnd::Turn(TurnEndReason::Completed));
    let results = rig.results();
    assert!(results[0].contains("did not end in time"), "{results:?}");
    assert!(results[1].contains("before this call was started"), "{results:?}");
    let messages = rig.server.json_bodies()[1]["messages"].to_string();
    assert!(messages.contains("interrupted the previous turn"), "{messages}");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_had_arrived_before_a_cancel_stays() {
    let acts =
        script().text("half of it").fault(Fault::Stall(At::Text, LONG)).then().text("the rest");
    let rig = Rig::new(acts, |_| {}).await;
    let cancel = CancelToken::new();
    let (outcome, ()) = tokio::join!(rig.run_until("go", cancel.clone()), async {
        let mut events = rig.agent.events(0);
        while let Some(event) = events.next().await {
            if event.body.kind == "assistant/chunk" {
                break;
            }
        }
        cancel.cancel();
    });
    assert_eq!(outcome.end, by_user());
    assert_eq!(outcome.text, "half ", "the fault comes in the middle of the text");
    rig.run("go on").await;
    let messages = rig.server.json_bodies()[1]["messages"].to_string();
    assert!(messages.contains("half "), "{messages}");
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_in_the_middle_awaits_everything_and_the_log_says_disposed() {
    let rig = Rig::new(script().text("x").fault(Fault::Stall(At::Head, LONG)), |_| {}).await;
    let agent = rig.agent.clone();
    let (outcome, ()) = tokio::join!(rig.run("go"), async {
        rig.server.reached(1).await;
        agent.close().await;
    });
    assert_eq!(outcome.end, RunEnd::Turn(TurnEndReason::Aborted { cause: CancelCause::Disposed }));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_never_pauses_does_not_keep_a_cancel_waiting() {
    const WHOLE: usize = 8 << 20;
    let acts = script().text("x".repeat(WHOLE)).chunks(4096, Duration::ZERO);
    let rig = Rig::new(acts.then().text("next"), |_| {}).await;
    let cancel = CancelToken::new();
    let (outcome, ()) = tokio::join!(rig.run_until("go", cancel.clone()), async {
        let mut events = rig.agent.events(0);
        while let Some(event) = events.next().await {
            if event.body.kind == "assistant/chunk" {
                break;
            }
        }
        cancel.cancel();
    });
    assert_eq!(outcome.end, by_user());
    assert!(outcome.text.len() < WHOLE / 2, "{} bytes came before the cancel", outcome.text.len());
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_while_parked_input_runs_ends_the_run_and_parks_the_prompt() {
    let acts = script().text("one").fault(Fault::Stall(At::Head, LONG)).then().text("two");
    let rig = Rig::new(acts.then().text("three"), |_| {}).await;
    let parked = reins_schema::Message::user(reins_schema::MessageId::new("parked"), "first");
    rig.agent.send(parked, reins_schema::InboxTarget::NextTurn, false).await.unwrap();
    let cancel = CancelToken::new();
    let (outcome, ()) = tokio::join!(rig.run_until("second", cancel.clone()), async {
        rig.server.reached(1).await;
        cancel.cancel();
    });
    assert_eq!(outcome.end, by_user());
    assert_eq!(outcome.turn, None, "the prompt had no turn yet");
    let outcome = rig.run("third").await;
    assert_eq!(outcome.end, RunEnd::Turn(TurnEndReason::Completed));
    let messages = rig.server.json_bodies().last().unwrap()["messages"].to_string();
    for part in ["first", "second", "third"] {
        assert_eq!(messages.matches(&format!("\"{part}\"")).count(), 1, "{part}: {messages}");
    }
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_comes_before_the_prompt_leaves_the_prompt_out() {
    let rig = Rig::new(script().text("never"), |_| {}).await;
    let before = rig.agent.next_seq();
    let cancel = CancelToken::new();
    cancel.cancel();
    let outcome = rig.run_until("too late", cancel).await;
    assert_eq!(outcome.end, by_user());
    assert_eq!(rig.agent.next_seq(), before, "nothing was logged");
    assert_eq!(rig.server.requests().len(), 0);
    rig.end().await;
}
