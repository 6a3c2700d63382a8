use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use reins_agent::{Agent, PreStep, RequestConfig, ToolEffect, ToolSuccess, TurnStopping};
use reins_host::RunEnd;
use reins_kernel::Next;
use reins_schema::{InboxTarget, Message, MessageId, TurnEndReason};
use reins_session::{Entering, PreStepDecision};
use reins_testkit::script;
use serde_json::json;
use tokio::sync::Barrier;

use crate::rig::{Probe, Rig, counting};

async fn add_notice(event: PreStep, next: Next<PreStep>) -> PreStepDecision {
    let id = MessageId::new(format!("added-{}", event.step));
    let mut decision = next.run(event).await;
    if let PreStepDecision::Enter(entries) = &mut decision {
        let message = Message::notice(id, "test", "mind the gap");
        entries.push(Entering { message, inbox: Vec::new() });
    }
    decision
}

async fn ask_more(again: bool, agent: &Agent) {
    if !again {
        return;
    }
    let message = Message::user(MessageId::new("more"), "and then?");
    agent.send(message, InboxTarget::NextStep, false).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pre_step_layer_adds_to_the_input_or_rejects_it() {
    let rig = Rig::new(script().text("ok"), |own| {
        own.wrap::<PreStep, _>(add_notice);
    });
    let rig = rig.await;
    rig.run("hello").await;
    let messages = rig.server.json_bodies()[0]["messages"].to_string();
    assert!(messages.find("hello").unwrap() < messages.find("mind the gap").unwrap());
    rig.end().await;

    let rig = Rig::new(script().text("never"), |own| {
        own.wrap::<PreStep, _>(|_, _| async {
            PreStepDecision::Reject { reason: "not today".to_owned() }
        });
    });
    let rig = rig.await;
    let outcome = rig.run("hello").await;
    let reason = "not today".to_owned();
    assert_eq!(outcome.end, RunEnd::Turn(TurnEndReason::Blocked { reason }));
    assert_eq!(rig.server.requests().len(), 0);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panicking_layer_of_the_loop_ends_the_turn_with_a_message_and_the_agent_goes_on() {
    let first = Arc::new(AtomicBool::new(true));
    let rig = Rig::new(script().text("ok"), move |own| {
        own.wrap::<RequestConfig, _>(move |event, next| {
            let panics = first.swap(false, Ordering::SeqCst);
            async move {
                assert!(!panics, "a layer of this test panics");
                next.run(event).await
            }
        });
    });
    let rig = rig.await;
    let outcome = rig.run("one").await;
    let failure = outcome.end.failure().unwrap();
    assert!(failure.message.contains("a layer of this test panics"), "{failure}");
    let outcome = rig.run("two").await;
    assert_eq!(outcome.end, RunEnd::Turn(TurnEndReason::Completed));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_layer_can_ask_for_one_more_step() {
    let asked = Arc::new(AtomicBool::new(false));
    let agent: Arc<tokio::sync::OnceCell<Agent>> = Arc::default();
    let (seen, slot) = (asked.clone(), agent.clone());
    let rig = Rig::new(script().text("first").then().text("second"), move |own| {
        own.wrap::<TurnStopping, _>(move |event, next| {
            let (again, slot) = (!seen.swap(true, Ordering::SeqCst), slot.clone());
            async move {
                ask_more(again, slot.get().unwrap()).await;
                next.run(event).await;
            }
        });
    });
    let rig = rig.await;
    agent.set(rig.agent.clone()).ok().unwrap();
    let outcome = rig.run("go").await;
    assert_eq!((outcome.steps, outcome.text.as_str()), (2, "second"));
    rig.end().await;
}

/// A probe that ends only when all that share `meet` run at once.
fn meeting(name: &'static str, meet: &Arc<Barrier>) -> Probe {
    let meet = meet.clone();
    Probe::new(name, ToolEffect::ReadOnly, move |_| {
        let meet = meet.clone();
        async move {
            meet.wait().await;
            Ok(ToolSuccess::text(name))
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn read_only_calls_overlap_and_their_results_stand_in_the_models_order() {
    let meet = Arc::new(Barrier::new(3));
    let acts =
        script().call("a", json!({})).call("b", json!({})).call("c", json!({})).then().text("done");
    let rig = Rig::new(acts, move |own| {
        for name in ["c", "a", "b"] {
            own.tool(meeting(name, &meet));
        }
    });
    let rig = rig.await;
    rig.run("go").await;
    assert_eq!(rig.results(), ["a", "b", "c"]);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_panics_or_is_called_wrongly_fails_and_the_turn_goes_on() {
    let runs = Arc::new(AtomicUsize::new(0));
    let tool = counting("touch", &runs);
    let acts = script()
        .call("boom", json!({}))
        .raw_call("touch", "{\"a\":")
        .raw_call("touch", "null")
        .raw_call("touch", "{\"colour\":1}")
        .call("tuoch", json!({}))
        .then()
        .text("done");
    let rig = Rig::new(acts, move |own| {
        own.tool(tool);
        own.tool(Probe::new("boom", ToolEffect::ReadOnly, |_| async {
            panic!("boom of this test")
        }));
    });
    let rig = rig.await;
    let outcome = rig.run("go").await;
    assert_eq!(outcome.end, RunEnd::Turn(TurnEndReason::Completed));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let results = rig.results();
    let parts =
        ["boom of this test", "not valid JSON", "null", "colour", "there is no tool `tuoch`"];
    for (result, part) in results.iter().zip(parts) {
        assert!(result.contains(part), "{result} lacks {part}");
    }
    assert_eq!(results.len(), 5);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_appears_between_turns_is_named_as_the_cause_of_the_changed_header() {
    let rig = Rig::new(script().text("one").then().text("two").then().text("three"), |_| {}).await;
    rig.run("a").await;
    rig.run("b").await;
    let runs = Arc::new(AtomicUsize::new(0));
    let tool = reins_agent::erase(counting("probe", &runs));
    let origin = reins_kernel::Origin::runtime("late-row");
    let added = rig.agent.scope().add::<dyn reins_agent::AnyTool>("probe", tool, &origin).unwrap();
    rig.run("c").await;
    let sent = rig.transcript(&["request/sent"]);
    let causes: Vec<bool> = sent.as_str().lines().map(|line| line.contains("late-row")).collect();
    assert_eq!(causes, [false, false, true], "{}", sent.as_str());
    drop(added);
    rig.end().await;
}
