use reins_agent::{ToolEffect, ToolSuccess};
use reins_host::RunEnd;
use reins_schema::{Message, MessageId};
use reins_session::Refusal;
use reins_testkit::script;
use serde_json::json;
use serde_json::value::RawValue;

use crate::rig::{Probe, Rig};

/// More than a record of the log holds.
const TOO_LONG: usize = 64 * 1024 * 1024 + 1;

#[tokio::test(flavor = "multi_thread")]
async fn what_the_log_cannot_write_is_told_in_the_stores_words() {
    let rig = Rig::new(script().call("proud", json!({})), |own| {
        own.tool(Probe::new("proud", ToolEffect::Exclusive, |_| async {
            let meta = RawValue::from_string(format!("\"{}\"", "x".repeat(TOO_LONG))).unwrap();
            Ok(ToolSuccess { meta: Some(meta), ..ToolSuccess::text("ran") })
        }));
    });
    let rig = rig.await;
    let outcome = rig.run("go").await;
    let RunEnd::StoreFailed(words) = outcome.end else { panic!("{:?}", outcome.end) };
    assert!(words.contains("(tool/result) cannot be written"), "{words}");
    let outcome = rig.run("again").await;
    assert_eq!(outcome.end, RunEnd::StoreFailed(words));
    rig.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_that_no_record_holds_is_refused_and_the_session_lives_on() {
    let rig = Rig::new(script().text("here"), |_| {}).await;
    // Six bytes each in the log.
    let prompt = "\u{1}".repeat(TOO_LONG / 6);
    let outcome = rig.run(&prompt).await;
    let RunEnd::Refused(words) = outcome.end else { panic!("{:?}", outcome.end) };
    assert!(words.contains("make it shorter"), "{words}");
    let message = Message::user(MessageId::new("m"), prompt);
    let Refusal(steered) = rig.agent.steer(message).await.unwrap_err();
    assert!(steered.contains("bytes in the log"), "{steered}");
    assert_eq!(rig.run("and now").await.text, "here");
    rig.end().await;
}
