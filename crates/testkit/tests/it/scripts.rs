use std::io::Write;
use std::sync::{Arc, Mutex};

use reins_providers::script::{Recorder, Script, ScriptOptions, ScriptServer, serve};
use reins_testkit::{StrictServer, script};
use serde_json::{Value, json};

use crate::client::{Client, End, chat, hello};

fn start(text: &str) -> ScriptServer {
    let script = Script::parse(text, "test.toml").unwrap();
    ScriptServer::start(script, ScriptOptions::default()).unwrap()
}

#[test]
fn a_broken_script_names_line_and_nearest_name() {
    let table = [
        ("", "1: the script has no `[[answer]]`"),
        ("[[answr]]\ntext = \"a\"", "1: `answr` is no key of a script; did you mean `answer`?"),
        ("\n[[answer]]\ntxt = \"a\"", "3: `txt` is no key of an answer; did you mean `text`?"),
        ("[[answer]]\ntext = 1", "2: invalid type: integer `1`, expected a string"),
        ("[[answer]]\ntext = \"a", "2: invalid basic string, expected `\"`"),
        ("[answer]\ntext = \"a\"", "1: `answer` is written as `[[answer]]` tables"),
        ("[[answer]]\nreasoning = \"a\"", "1: an answer needs `text` or an `[[answer.call]]`"),
        ("[[answer]]\ntext = \"a\"\nrepeat = 0", "1: `repeat` must be at least 1"),
        (
            "[[answer]]\ntext = \"a\"\nrepeat = \"always\"",
            "1: `repeat = \"always\"`: a number or \"forever\" is meant",
        ),
        ("[[answer]]\ntext = \"a\"\nchunk_bytes = 0", "1: `chunk_bytes` must be at least 1"),
        ("[[answer]]\ntext = \"a\"\ndelay_ms = 3600001", "1: a wait must be at most 3600000 ms"),
        ("[[answer]]\ntext = \"a\"\nwhen = \"\"", "1: `when` must not be empty"),
        (
            "[[answer]]\ntext = \"a\"\nfinish = \"tool_call\"",
            "1: `finish = \"tool_call\"`: did you mean \"tool_calls\"?",
        ),
        (
            "[[answer]]\ntext = \"a\"\nusage = { inputs = 3 }",
            "3: `inputs` is no key of `usage`; did you mean `input`?",
        ),
        (
            "[[answer]]\ntext = \"{{last_tool_reslt}}\"",
            "1: `{{last_tool_reslt}}`: did you mean `{{last_tool_result}}`?",
        ),
        (
            "[[answer]]\n[[answer.call]]\nname = \"read\"\nargs = {}",
            "4: `args` is no key of a call; its keys are name, arguments, id",
        ),
        ("[[answer]]\n[[answer.call]]\nname = \"read\"", "2: missing field `arguments`"),
        (
            "[[answer]]\n[[answer.call]]\nname = \"read\"\narguments = 3",
            "2: `arguments` is a table or a text, not of type integer",
        ),
        (
            "[[answer]]\ntext = \"a\"\nfault = \"cut\"",
            "3: `fault` is no key of an answer; its keys are reasoning, text, call, usage, finish, \
             delay_ms, chunk_bytes, chunk_delay_ms, when, repeat",
        ),
    ];
    for (text, problem) in table {
        let error = Script::parse(text, "test.toml").unwrap_err().to_string();
        assert_eq!(error, format!("test.toml:{problem}"), "{text}");
    }
}

#[tokio::test]
async fn an_answer_streams_reasoning_text_calls_usage_and_end() {
    let server = start(
        r#"
        [[answer]]
        reasoning = "think"
        text = "héllo"
        usage = { input = 10, output = 4, cached = 6 }
        chunk_bytes = 2
        [[answer.call]]
        name = "read"
        arguments = { path = "a{{n}}", deep = [{ x = "{{last_message}}" }], lines = 3 }
        [[answer.call]]
        id = "mine"
        name = "bash"
        arguments = '{"n": {{n}}, "said": "{{last_message}}", bad'
        "#,
    );
    let mut client = Client::to(server.port()).await;
    let got = client.ask(&chat(&json!([{"role": "user", "content": "say \"x\""}]))).await;
    assert_eq!((got.status, got.end, got.is_done()), (200, End::Whole, true));
    assert!(got.head.contains("x-reins-scripted: true"), "{}", got.head);
    assert!(got.head.contains("content-type: text/event-stream"));
    assert_eq!(got.joined("/choices/0/delta/reasoning_content"), "think");
    assert_eq!(got.text(), "héllo");
    let mut calls = vec![(String::new(), String::new(), String::new()); 2];
    for event in got.events() {
        let Some(call) = event.pointer("/choices/0/delta/tool_calls/0") else { continue };
        let index = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
        calls[index].0.push_str(call["id"].as_str().unwrap_or(""));
        calls[index].1.push_str(call["function"]["name"].as_str().unwrap_or(""));
        calls[index].2.push_str(call["function"]["arguments"].as_str().unwrap_or(""));
    }
    assert_eq!((calls[0].0.as_str(), calls[0].1.as_str()), ("call_1_1", "read"));
    let arguments: Value = serde_json::from_str(&calls[0].2).unwrap();
    assert_eq!(arguments, json!({"path": "a1", "deep": [{"x": "say \"x\""}], "lines": 3}));
    assert_eq!((calls[1].0.as_str(), calls[1].1.as_str()), ("mine", "bash"));
    assert_eq!(calls[1].2, r#"{"n": 1, "said": "say \"x\"", bad"#);
    assert_eq!(got.joined("/choices/0/finish_reason"), "tool_calls");
    assert_eq!(got.joined("/model"), "deepseek-v4-flash".repeat(got.events().len()));
    let usage = got.events().last().unwrap()["usage"].clone();
    assert_eq!(usage["prompt_tokens"], 10);
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], 6);
    assert_eq!(usage["prompt_cache_miss_tokens"], 4);
    server.stop().await;
}

#[tokio::test]
async fn answers_come_in_order_and_those_with_a_condition_out_of_it() {
    let server = start(
        r#"
        [[answer]]
        text = "first"
        [[answer]]
        when = "weather"
        text = "rain {{round}}"
        repeat = 2
        [[answer]]
        text = "second {{n-1}}"
        "#,
    );
    let mut client = Client::to(server.port()).await;
    let mut said = Vec::new();
    for word in ["hello", "the weather?", "hello", "weather", "weather"] {
        let parts = json!([{"type": "text", "text": word}]);
        let got = client.ask(&chat(&json!([{"role": "user", "content": parts}]))).await;
        let error = got.body.contains("the script has no answer for request 5");
        said.push(if error { got.status.to_string() } else { got.text() });
    }
    assert_eq!(said, ["first", "rain 1", "second 2", "rain 2", "400"]);
    server.stop().await;
}

#[tokio::test]
async fn what_is_no_chat_request_is_refused_in_words() {
    let server = start("[[answer]]\ntext = \"a\"\nrepeat = \"forever\"");
    let table: [(&str, &str, &str, u16, &str); 4] = [
        ("GET", "/chat/completions", "", 405, "POST is expected, not GET"),
        ("POST", "/v1/models", "{}", 404, "only /chat/completions is scripted"),
        ("POST", "/chat/completions", "{", 400, "the body is no chat request"),
        ("POST", "/chat/completions", r#"{"messages":[]}"#, 400, r#"send \"stream\": true"#),
    ];
    let mut client = Client::to(server.port()).await;
    for (method, path, body, status, words) in table {
        let got = client.send(method, path, body.as_bytes()).await;
        assert_eq!(got.status, status, "{words}");
        assert!(got.body.contains(words), "{}", got.body);
        assert!(got.head.contains("x-reins-scripted: true"));
    }
    server.stop().await;
}

#[tokio::test]
async fn fifty_steps_on_one_connection() {
    let acts = script()
        .reasoning("step {{n}}")
        .call("edit", json!({"old": "{{n}}", "new": "{{n+1}}"}))
        .times(50)
        .then()
        .text("after {{last_tool_result}}");
    let server = StrictServer::start(acts).unwrap();
    let mut client = Client::to(server.port()).await;
    let mut messages = vec![json!({"role": "user", "content": "go"})];
    for step in 1..=50 {
        let got = client.ask(&chat(&json!(messages))).await;
        let arguments: Value = serde_json::from_str(&got.arguments()).unwrap();
        let new = (step + 1).to_string();
        assert_eq!(arguments, json!({"old": step.to_string(), "new": new}));
        let id = format!("call_{step}_1");
        let function = json!({"name": "edit", "arguments": got.arguments()});
        messages.push(json!({
            "role": "assistant", "content": "", "reasoning_content": format!("step {step}"),
            "tool_calls": [{"id": id, "type": "function", "function": function}],
        }));
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": new}));
    }
    assert_eq!(client.ask(&chat(&json!(messages))).await.text(), "after 51");
    assert_eq!(server.requests().len(), 51);
    server.assert_clean();
    server.stop().await;
}

#[tokio::test]
async fn parallel_connections_get_one_answer_each() {
    let text = "[[answer]]\ntext = \"{{n}}\"\nchunk_delay_ms = 1\nrepeat = 40";
    let server = start(text);
    let port = server.port();
    let asked = (0..40).map(|_| async move { Client::to(port).await.ask(&hello()).await.text() });
    let mut numbers: Vec<u64> = futures_util::future::join_all(asked)
        .await
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<_>>());
    server.stop().await;
}

#[tokio::test]
async fn a_taken_port_is_said() {
    let server = start("[[answer]]\ntext = \"a\"");
    let options = ScriptOptions { port: server.port(), record: None };
    let script = Script::parse("[[answer]]\ntext = \"a\"", "x").unwrap();
    let error = ScriptServer::start(script, options).unwrap_err().to_string();
    assert!(error.contains(&format!("cannot listen on 127.0.0.1:{}", server.port())), "{error}");
    server.stop().await;
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn raw_bodies_are_recorded_as_lines_until_it_is_cancelled() {
    let kept = Shared::default();
    let record = Some(Recorder::to_writer(kept.clone()));
    let script = Script::parse("[[answer]]\ntext = \"a\"\nrepeat = 2", "x").unwrap();
    let cancel = reins_world::CancelToken::new();
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let serving = serve(script, ScriptOptions { port: 0, record }, cancel.clone(), |url| {
        sender.send(url.to_owned()).unwrap();
    });
    let bodies = [hello(), chat(&json!([{"role": "user", "content": "two\nlines"}]))];
    let asking = async {
        let url = receiver.await.unwrap();
        let port = url.strip_prefix("http://127.0.0.1:").unwrap().parse().unwrap();
        let mut client = Client::to(port).await;
        for body in &bodies {
            assert_eq!(client.ask(body).await.text(), "a");
        }
        cancel.cancel();
    };
    let (served, ()) = tokio::join!(serving, asking);
    served.unwrap();
    let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<String> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines, bodies.map(|body| body.to_string()));
}

#[tokio::test]
async fn authorization_is_not_kept() {
    let recorder = Recorder::in_memory();
    let options = ScriptOptions { port: 0, record: Some(recorder.clone()) };
    let script = Script::parse("[[answer]]\ntext = \"a\"", "x").unwrap();
    let server = ScriptServer::start(script, options).unwrap();
    Client::to(server.port()).await.ask(&hello()).await;
    let requests = recorder.requests();
    assert_eq!(requests[0].path, "/v1/chat/completions");
    assert!(!format!("{requests:?}").contains("secret"));
    assert!(requests[0].headers.contains(&("authorization".into(), "(withheld)".into())));
    server.stop().await;
}
