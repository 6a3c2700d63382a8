//! Agents of one process, with one preset and with several: each has its own, and nothing leaks.

use std::sync::{Arc, Mutex};

use reins_agent::{
    Agent, AnyTool, Guard, PreExecute, PreStep, PromptContext, PromptSection, RequestConfig,
    RuntimeFact, ToolEffect, ToolSuccess,
};
use reins_host::{OpenOrder, RunEnd, RunOrder, run};
use reins_kernel::{BoxFuture, LayerRan, Next, Origin, Registration};
use reins_schema::TurnEndReason;
use reins_session::PreStepDecision;
use reins_testkit::{Acts, script};
use reins_world::CancelToken;
use serde_json::{Value, json};

use crate::house::{House, LONG};
use crate::rig::Probe;

const SMALL: &str = r#"
[[insert]]
id = "less"
plugin = "offer"
config = { hide = ["write"] }
[[insert]]
id = "default-model"
plugin = "default-model"
config = { model = "deepseek/deepseek-v4-pro" }
[[insert]]
id = "limits"
plugin = "limits"
config = { max_steps = 1 }
[[insert]]
id = "prompt"
plugin = "prompt"
config = { persona = "Of some.", facts = false }
"#;

async fn house(acts: Acts) -> House {
    House::with(acts, "", &[("plain", ""), ("small", SMALL)]).await
}

async fn open(house: &House, preset: &str) -> Agent {
    let order = OpenOrder { preset: Some(preset.to_owned()), ..house.order(None) };
    house.host.open(order).await.unwrap().agent
}

async fn go(agent: &Agent, prompt: &str) -> RunEnd {
    let (cancel, prompt) = (CancelToken::new(), prompt.to_owned());
    let order = RunOrder { prompt, before: None, cancel, watch: &mut |_| {} };
    tokio::time::timeout(LONG, run(agent, order)).await.expect("the run ends").end
}

fn completed() -> RunEnd {
    RunEnd::Turn(TurnEndReason::Completed)
}

fn at_the_limit() -> RunEnd {
    RunEnd::Turn(TurnEndReason::Limit { name: "steps".to_owned() })
}

/// The requests with this text in a message, in order.
fn requests(house: &House, prompt: &str) -> Vec<Value> {
    let mut bodies = house.server.json_bodies();
    bodies.retain(|body| body["messages"].to_string().contains(prompt));
    bodies
}

fn tools(body: &Value) -> Vec<String> {
    let tools = body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

fn system(body: &Value) -> &str {
    body["messages"][0]["content"].as_str().unwrap()
}

fn last(body: &Value) -> &str {
    body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_presets_in_one_process_have_tools_prompt_limits_and_model_of_their_own() {
    let call = json!({"file_path": "absent"});
    let acts = script().call("read", call.clone()).when("for all").then();
    let acts = acts.call("read", call).when("for some").then().text("done").forever();
    let house = house(acts).await;
    let (all, some) = tokio::join!(open(&house, "plain"), open(&house, "small"));
    let ends = tokio::join!(go(&all, "for all"), go(&some, "for some"));
    assert_eq!(ends, (completed(), at_the_limit()));
    let (of_all, of_some) = (requests(&house, "for all"), requests(&house, "for some"));
    assert_eq!((of_all.len(), of_some.len()), (2, 1));
    for body in &of_all {
        assert_eq!(body["model"], "deepseek-v4-flash");
        assert_eq!(tools(body), ["edit", "read", "write"]);
        assert!(system(body).starts_with("Of all."), "{}", system(body));
    }
    assert_eq!(of_some[0]["model"], "deepseek-v4-pro");
    assert_eq!(tools(&of_some[0]), ["edit", "read"]);
    assert!(system(&of_some[0]).starts_with("Of some."), "{}", system(&of_some[0]));
    all.close().await;
    // The other one is not concerned.
    assert_eq!(go(&some, "once more").await, completed());
    some.close().await;
    house.end().await;
}

/// Something that only one agent has.
struct Own;

impl PromptSection for Own {
    fn order(&self) -> i32 {
        500
    }

    fn text(&self, _of: &PromptContext) -> String {
        "A section of one.".to_owned()
    }
}

impl RuntimeFact for Own {
    fn text(&self, _of: &PromptContext) -> BoxFuture<'static, Option<String>> {
        Box::pin(async { Some("A fact of one.".to_owned()) })
    }
}

impl Guard for Own {
    fn refuses(&self, _call: &PreExecute) -> Option<String> {
        Some("A guard of one.".to_owned())
    }
}

/// What the layers and observers of one agent saw.
#[derive(Clone, Default)]
struct Journal(Arc<Mutex<Vec<String>>>);

impl Journal {
    fn note(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }
}

/// One registration of each kind in the agent's own scope.
fn register(agent: &Agent, journal: &Journal) -> Vec<Registration> {
    let (scope, origin) = (agent.scope(), Origin::runtime("test"));
    let tool = Probe::new("own", ToolEffect::ReadOnly, |_| async { Ok(ToolSuccess::text("ran")) });
    let (steps, configs, ran) = (journal.clone(), journal.clone(), journal.clone());
    let step = move |event: PreStep, next: Next<PreStep>| -> BoxFuture<'static, PreStepDecision> {
        steps.note(event.session.as_str());
        next.run(event)
    };
    let config = move |event: RequestConfig, next: Next<RequestConfig>| {
        configs.note(event.session.as_str());
        next.run(event)
    };
    vec![
        scope.add::<dyn AnyTool>("own", tool.entry(), &origin).unwrap(),
        scope.add::<dyn PromptSection>("own", Arc::new(Own), &origin).unwrap(),
        scope.add::<dyn RuntimeFact>("own", Arc::new(Own), &origin).unwrap(),
        scope.add::<dyn Guard>("own", Arc::new(Own), &origin).unwrap(),
        scope.restrict::<dyn AnyTool>(|name| name != "write", &origin),
        scope.wrap::<PreStep>(0, step, &origin),
        scope.wrap::<RequestConfig>(0, config, &origin),
        scope.observe::<LayerRan>(move |layer| ran.note(format!("saw {}", layer.chain)), &origin),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_agent_has_its_siblings_have_not() {
    for preset in ["plain", "small"] {
        let call = json!({"file_path": "absent"});
        let acts = script().call("read", call.clone()).when("A fact of one.").then();
        let acts = acts.call("read", call).when("second").then().text("done").forever();
        let house = house(acts).await;
        let (first, second) = tokio::join!(open(&house, "plain"), open(&house, preset));
        let journal = Journal::default();
        let kept = register(&first, &journal);
        let (first_end, second_end) = tokio::join!(go(&first, "first"), go(&second, "second"));
        assert_eq!(first_end, completed());
        assert_eq!(second_end, if preset == "plain" { completed() } else { at_the_limit() });
        // What was asked of the second ends in its log when the limit cuts its turn.
        assert_eq!(go(&second, "on").await, completed());

        let (of_first, of_second) = (requests(&house, "first"), requests(&house, "second"));
        assert!(!of_first.is_empty() && !of_second.is_empty());
        for body in &of_first {
            assert_eq!(tools(body), ["edit", "own", "read"]);
            assert!(body.to_string().contains("A fact of one."));
            assert!(system(body).contains("A section of one."));
        }
        assert_eq!(last(&of_first[1]), "Error: A guard of one.");
        for body in &of_second {
            assert!(!body.to_string().contains(" of one."), "{body}");
            assert!(!tools(body).contains(&"own".to_owned()));
            assert_eq!(tools(body).contains(&"write".to_owned()), preset == "plain");
        }
        let seen = std::mem::take(&mut *journal.0.lock().unwrap());
        let id = first.session().as_str();
        assert!(seen.iter().all(|seen| seen == id || seen.starts_with("saw ")), "{seen:?}");
        assert!(seen.iter().any(|seen| seen == "saw pre-step"), "{seen:?}");
        assert!(seen.iter().any(|seen| seen == id), "{seen:?}");
        assert_eq!(second.scope().contributions(), 0);

        drop(kept);
        assert_eq!(first.scope().contributions(), 0);
        assert_eq!(go(&first, "plainly").await, completed());
        let plainly = requests(&house, "plainly").pop().unwrap();
        assert_eq!(tools(&plainly), ["edit", "read", "write"]);
        assert!(!system(&plainly).contains("A section of one."));
        assert_eq!(*journal.0.lock().unwrap(), [""; 0]);
        first.close().await;
        second.close().await;
        house.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_one_agent_has_read_its_sibling_has_not() {
    let read = json!({"file_path": "a.txt"});
    let edit = json!({"file_path": "a.txt", "old_string": "one", "new_string": "two"});
    let acts = script().call("read", read).when("reader").then();
    let acts = acts.call("edit", edit.clone()).when("editor").then();
    let acts = acts.call("edit", edit).when("now edit").then().text("done").forever();
    let house = house(acts).await;
    let file = house.home().join("a.txt");
    std::fs::File::create(&file)
        .and_then(|mut f| std::io::Write::write_all(&mut f, b"one\n"))
        .unwrap();
    let (reader, editor) = tokio::join!(open(&house, "plain"), open(&house, "plain"));
    assert_eq!(go(&reader, "reader").await, completed());
    assert_eq!(go(&editor, "editor").await, completed());
    let refused = requests(&house, "editor").pop().unwrap();
    assert!(last(&refused).contains("read"), "{}", last(&refused));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one\n");
    assert_eq!(go(&reader, "now edit").await, completed());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two\n");
    reader.close().await;
    editor.close().await;
    house.end().await;
}
