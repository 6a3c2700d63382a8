use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use reins_agent::{
    Approval, ApprovalAsked, ApprovalDecided, ApprovalRequest, Guard, Permission, PostExecute,
    PreExecute, ToolFailure,
};
use reins_host::RunEnd;
use reins_schema::TurnEndReason;
use reins_testkit::script;
use reins_world::CancelToken;
use serde_json::json;
use tokio::sync::Notify;

use crate::rig::{Own, Rig, counting};

fn one_call() -> reins_testkit::Acts {
    script().call("touch", json!({})).then().text("done")
}

fn asking(own: &mut Own<'_>) {
    own.wrap::<PreExecute, _>(|_, _| async { Permission::Ask { reason: "it touches".to_owned() } });
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_to_ask_means_denied_at_once_and_the_body_does_not_run() {
    let runs = Arc::new(AtomicUsize::new(0));
    let tool = counting("touch", &runs);
    let rig = Rig::new(one_call(), move |own| {
        own.tool(tool);
        asking(own);
    });
    let rig = rig.await;
    let outcome = rig.run("go").await;
    assert_eq!(outcome.end, RunEnd::Turn(TurnEndReason::Completed));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    assert_eq!(outcome.denied.len(), 1);
    assert!(outcome.denied[0].unanswered && outcome.denied[0].tool == "touch");
    assert!(rig.results()[0].contains("nobody is there"), "{:?}", rig.results());
    let transcript = rig.transcript(&[
        "tool/call",
        "approval/asked",
        "approval/decided",
        "tool/start",
        "tool/result",
    ]);
    let kinds = transcript.kinds();
    assert_eq!(kinds, ["tool/call", "approval/asked", "approval/decided", "tool/result"]);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_lets_one_call_through_but_a_guard_still_says_no() {
    struct NoTouch;
    impl Guard for NoTouch {
        fn refuses(&self, call: &PreExecute) -> Option<String> {
            (call.tool == "touch").then(|| "touching is off".to_owned())
        }
    }
    for guarded in [false, true] {
        let runs = Arc::new(AtomicUsize::new(0));
        let tool = counting("touch", &runs);
        let rig = Rig::new(one_call(), move |own| {
            own.tool(tool);
            asking(own);
            own.wrap::<ApprovalRequest, _>(|_, _| async { Approval::AllowedOnce });
            if guarded {
                own.add::<dyn Guard>("no-touch", Arc::new(NoTouch));
            }
        });
        let rig = rig.await;
        let outcome = rig.run("go").await;
        assert_eq!(runs.load(Ordering::SeqCst), usize::from(!guarded));
        let expected = if guarded { "Error: touching is off" } else { "ran" };
        assert_eq!(rig.results(), [expected]);
        assert!(outcome.denied.iter().all(|denied| !denied.unanswered));
        rig.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejection_tells_the_model_what_the_person_said() {
    let runs = Arc::new(AtomicUsize::new(0));
    let tool = counting("touch", &runs);
    let rig = Rig::new(one_call(), move |own| {
        own.tool(tool);
        asking(own);
        own.wrap::<ApprovalRequest, _>(|_, _| async {
            Approval::Rejected { message: "use the copy".to_owned() }
        });
    });
    let rig = rig.await;
    rig.run("go").await;
    assert!(rig.results()[0].contains("use the copy"));
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_layer_after_the_body_can_block_its_reply_and_a_panicking_one_fails_the_call_only() {
    for panics in [false, true] {
        let runs = Arc::new(AtomicUsize::new(0));
        let tool = counting("touch", &runs);
        let rig = Rig::new(one_call(), move |own| {
            own.tool(tool);
            own.wrap::<PostExecute, _>(move |_, _| async move {
                assert!(!panics, "a layer of this test panics");
                Err(ToolFailure::new("BLOCKED", "look again"))
            });
        });
        let rig = rig.await;
        let outcome = rig.run("go").await;
        assert_eq!(outcome.end, RunEnd::Turn(TurnEndReason::Completed));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        let expected = if panics { "panicked" } else { "Error: look again" };
        assert!(rig.results()[0].contains(expected), "{:?}", rig.results());
        rig.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_waits_for_any_more_is_decided_as_cancelled() {
    for closes in [false, true] {
        let runs = Arc::new(AtomicUsize::new(0));
        let (tool, begun) = (counting("touch", &runs), Arc::new(Notify::new()));
        let tell = begun.clone();
        let rig = Rig::new(one_call(), move |own| {
            own.tool(tool);
            asking(own);
            own.wrap::<ApprovalRequest, _>(move |_, _| {
                tell.notify_one();
                std::future::pending()
            });
        });
        let rig = rig.await;
        let cancel = CancelToken::new();
        tokio::join!(rig.run_until("go", cancel.clone()), async {
            begun.notified().await;
            if closes {
                rig.agent.close().await;
            } else {
                cancel.cancel();
            }
        });
        let mut events = rig.agent.events(0);
        if !closes {
            let outcome = rig.run("again").await;
            assert_eq!(outcome.end, RunEnd::Turn(TurnEndReason::Completed));
            rig.agent.close().await;
        }
        let mut questions = Vec::new();
        while let Some(event) = events.next().await {
            match event.body.kind.as_str() {
                ApprovalAsked::TYPE => questions.push("asked".to_owned()),
                ApprovalDecided::TYPE => {
                    let data = event.body.data.get();
                    let decided: ApprovalDecided = serde_json::from_str(data).unwrap();
                    questions.push(decided.outcome);
                }
                _ => {}
            }
        }
        assert_eq!(questions, ["asked", "cancelled"], "closes: {closes}");
        assert_eq!(runs.load(Ordering::SeqCst), 0);
        rig.end().await;
    }
}
