use reins_testkit::{StrictServer, script};
use serde_json::{Value, json};

use crate::client::{Client, chat, hello};

fn called(ids: &[&str]) -> Value {
    let calls: Vec<Value> = ids
        .iter()
        .map(|id| {
            let function = json!({"name": "read", "arguments": "{}"});
            json!({"id": id, "type": "function", "function": function})
        })
        .collect();
    json!({"role": "assistant", "content": "", "tool_calls": calls})
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

fn result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "ok"})
}

fn with(key: &str, value: Value) -> Value {
    let mut body = hello();
    body[key] = value;
    body
}

#[tokio::test]
async fn every_broken_rule_is_found_and_answered_with_400() {
    let plain = json!({"role": "assistant", "content": "hi"});
    let reasoned = json!({"role": "assistant", "content": "hi", "reasoning_content": "hm"});
    let table = [
        ("an unknown role", chat(&json!([{"role": "robot", "content": "a"}, user("a")]))),
        ("a late system message", chat(&json!([user("a"), {"role": "system", "content": "b"}]))),
        ("no user message", chat(&json!([{"role": "system", "content": "a"}]))),
        ("the model's own last", chat(&json!([user("a"), plain]))),
        (
            "an empty answer",
            chat(&json!([user("a"), {"role": "assistant", "content": ""}, user("b")])),
        ),
        ("an unanswered call", chat(&json!([user("a"), called(&["1"]), user("b")]))),
        ("an unanswered last call", chat(&json!([user("a"), called(&["1", "2"]), result("1")]))),
        ("an answer without a call", chat(&json!([user("a"), result("1")]))),
        ("an answer twice", chat(&json!([user("a"), called(&["1"]), result("1"), result("1")]))),
        ("two calls with one id", chat(&json!([user("a"), called(&["1", "1"]), result("1")]))),
        ("an empty id", chat(&json!([user("a"), called(&[""]), result("")]))),
        ("content that is no text", chat(&json!([{"role": "user", "content": null}]))),
        ("reasoning without calls", chat(&json!([user("a"), reasoned, user("b")]))),
        ("an unknown field", with("strem", json!(true))),
        ("no tools in the list", with("tools", json!([]))),
    ];
    let server = StrictServer::start(script().text("fine")).unwrap();
    let mut client = Client::to(server.port()).await;
    for (index, (what, body)) in table.iter().enumerate() {
        let got = client.ask(body).await;
        assert_eq!(got.status, 400, "{what}: {}", got.body);
        let violations = server.violations();
        assert_eq!(violations.len(), index + 1, "{what}");
        assert!(
            got.body.contains("messages")
                || got.body.contains("tools: ")
                || *what == "an unknown field"
        );
    }
    let dirty = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.assert_clean()));
    let words = *dirty.unwrap_err().downcast::<String>().unwrap();
    assert!(words.contains("request 1: messages[0].role: `robot` is no role"), "{words}");
    assert_eq!(client.ask(&hello()).await.text(), "fine", "no answer was used up");
    assert_eq!(server.requests().len(), table.len() + 1);
    server.stop().await;
}

#[tokio::test]
async fn reasoning_of_a_call_must_come_back_as_it_was() {
    let acts = script().reasoning("because").call_with_id("c1", "read", json!({})).then().text("a");
    let server = StrictServer::start(acts).unwrap();
    let mut client = Client::to(server.port()).await;
    client.ask(&hello()).await;
    let mut turn = called(&["c1"]);
    for (reasoning, status) in [(None, 400), (Some("because!"), 400), (Some("because"), 200)] {
        if let Some(reasoning) = reasoning {
            turn["reasoning_content"] = json!(reasoning);
        }
        let got = client.ask(&chat(&json!([user("hello"), turn, result("c1")]))).await;
        assert_eq!(got.status, status, "{reasoning:?} {}", got.body);
    }
    let violations = server.violations();
    assert_eq!(violations.len(), 2);
    assert!(violations[0].to_string().starts_with("request 2: messages[1].reasoning_content: "));
    server.stop().await;
}
