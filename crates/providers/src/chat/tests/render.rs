use std::sync::Arc;

use proptest::prelude::*;
use reins_agent::Rendered;
use reins_schema::{
    Block, CallConfig, CallId, Failure, FailureCode, HeaderReason, Image, Message, MessageId,
    Purpose, RequestHeader, RequestSent, Role, Source, ToolCallBlock, ToolResultBlock, ToolSchema,
};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::chat::{ChatRenderer, Rules, check_body};
use crate::vendor::{Quirks, Vendor};

type Node = (u64, Arc<Message>);

/// Renders these nodes of a surface.
fn render(
    renderer: &mut ChatRenderer,
    header: &RequestHeader,
    nodes: &[Node],
    previous: Option<&RequestSent>,
) -> Result<Rendered, Failure> {
    renderer.render_nodes(header, nodes.iter().map(|(seq, message)| (*seq, message)), previous)
}

fn quirks(vendor: &str) -> Quirks {
    Vendor::named(vendor).unwrap().quirks
}

fn renderer(vendor: &str) -> ChatRenderer {
    ChatRenderer::new("deepseek", &["deepseek-official".to_owned()], quirks(vendor))
}

fn header(system: &str, tools: &[&str]) -> RequestHeader {
    let parameters = r#"{"type":"object","properties":{"path":{"type":"string"}}}"#;
    let tool = |name: &&str| ToolSchema {
        name: (*name).to_owned(),
        description: "Reads.".to_owned(),
        parameters: RawValue::from_string(parameters.to_owned()).unwrap(),
    };
    RequestHeader {
        config: CallConfig { model: "m".to_owned(), ..CallConfig::default() },
        adapter_defaults: reins_schema::AdapterDefaults::default(),
        system: system.to_owned(),
        tools: tools.iter().map(tool).collect(),
        reason: HeaderReason::Initial,
    }
}

fn text(text: &str) -> Block {
    Block::Text(text.to_owned())
}

fn reasoning(text: &str) -> Block {
    Block::Reasoning(text.to_owned())
}

fn call(id: &str, name: &str, arguments: &str) -> Block {
    let (name, arguments) = (name.to_owned(), arguments.to_owned());
    Block::ToolCall(ToolCallBlock { id: CallId::new(id), name, arguments })
}

fn node(seq: u64, role: Role, content: Vec<Block>, source: Source) -> Node {
    let id = MessageId::new(format!("m{seq}"));
    (seq, Arc::new(Message { id, role, content, source }))
}

fn user(seq: u64, words: &str) -> Node {
    node(seq, Role::User, vec![text(words)], Source::User)
}

fn assistant(seq: u64, provider: &str, content: Vec<Block>) -> Node {
    let provider = provider.to_owned();
    let source = Source::Model { provider, model: "m".to_owned(), replay: None };
    node(seq, Role::Assistant, content, source)
}

fn result(seq: u64, id: &str, content: Vec<Block>) -> Node {
    let tool_call_id = CallId::new(id);
    let block = Block::ToolResult(ToolResultBlock { tool_call_id, content, is_error: false });
    let source = Source::Tool { call_id: CallId::new(id) };
    node(seq, Role::User, vec![block], source)
}

fn sent(rendered: &Rendered) -> RequestSent {
    let facts = rendered.facts.clone();
    RequestSent {
        turn: 1,
        step: 1,
        attempt: 1,
        purpose: Purpose::Turn,
        dialect: facts.dialect,
        renderer: facts.renderer,
        items: facts.items,
        bytes: facts.bytes,
        hash: facts.hash,
        shared: facts.shared,
        cause: facts.cause,
    }
}

fn body(rendered: &Rendered) -> &str {
    std::str::from_utf8(&rendered.body).unwrap()
}

/// The rendered messages, one a line.
fn messages(vendor: &str, nodes: &[Node]) -> String {
    let rendered = render(&mut renderer(vendor), &header("", &[]), nodes, None).unwrap();
    let all = body(&rendered).split_once("\"messages\":[").unwrap().1;
    all.strip_suffix("]}").unwrap().replace("},{\"role\"", "}\n{\"role\"")
}

fn refused(nodes: &[Node]) -> reins_schema::Failure {
    render(&mut renderer("deepseek"), &header("", &[]), nodes, None).unwrap_err()
}

#[test]
fn a_whole_body() {
    let mut header = header("Be good.", &["read"]);
    header.config.reasoning_effort = Some("max".to_owned());
    header.config.max_tokens = Some(256_000);
    header.config.temperature = Some(0.5);
    header.config.stop = vec!["END".to_owned()];
    let nodes = [user(0, "hi \u{2028}\n")];
    let rendered = render(&mut renderer("deepseek"), &header, &nodes, None).unwrap();
    let expected = concat!(
        r#"{"model":"m","thinking":{"type":"enabled"},"reasoning_effort":"max","#,
        r#""temperature":0.5,"max_tokens":256000,"stop":["END"],"#,
        r#""tools":[{"type":"function","function":{"name":"read","description":"Reads.","#,
        r#""parameters":{"type":"object","properties":{"path":{"type":"string"}}}}}],"#,
        r#""stream":true,"stream_options":{"include_usage":true},"#,
        r#""messages":[{"role":"system","content":"Be good."},"#,
        "{\"role\":\"user\",\"content\":\"hi \u{2028}\\n\"}]}",
    );
    assert_eq!(body(&rendered), expected);
    assert_eq!(rendered.facts.items, 3);
    assert_eq!(rendered.facts.bytes, expected.len() as u64);

    // The chain as the documentation says it.
    let items = [
        r#"{"role":"system","content":"Be good."}"#.as_bytes(),
        expected
            .split_once("\"tools\":")
            .unwrap()
            .1
            .split_once(",\"stream\"")
            .unwrap()
            .0
            .as_bytes(),
        "{\"role\":\"user\",\"content\":\"hi \u{2028}\\n\"}".as_bytes(),
    ];
    let hash = items.iter().fold(Vec::new(), |last: Vec<u8>, item| {
        Sha256::new().chain_update(last).chain_update(item).finalize().to_vec()
    });
    let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(rendered.facts.hash, hex);
}

#[test]
fn effort_in_the_words_of_each_vendor() {
    let head = |vendor: &str, effort: Option<&str>| {
        let mut header = header("", &[]);
        header.config.reasoning_effort = effort.map(str::to_owned);
        let rendered = render(&mut renderer(vendor), &header, &[user(0, "a")], None).unwrap();
        body(&rendered).split_once(",\"stream\"").unwrap().0.to_owned()
    };
    assert_eq!(head("deepseek", Some("off")), r#"{"model":"m","thinking":{"type":"disabled"}"#);
    assert_eq!(head("deepseek", None), r#"{"model":"m""#);
    assert_eq!(head("compatible", Some("low")), r#"{"model":"m","reasoning_effort":"low""#);
    assert_eq!(head("compatible", None), r#"{"model":"m""#);
}

#[test]
fn history_in_the_words_of_the_wire() {
    let nodes = [
        user(0, "go"),
        assistant(1, "deepseek", vec![reasoning("plan"), call("a", "read", "{\"path\":\"x\"}")]),
        result(2, "a", vec![text("one"), text(" two")]),
        assistant(3, "other", vec![reasoning("secret"), text("hm"), call("b", "my.tool", "{")]),
        result(4, "b", vec![]),
        assistant(5, "deepseek", vec![reasoning("only thoughts")]),
        assistant(6, "deepseek", vec![reasoning("done"), text("do"), text("ne")]),
        user(7, ""),
    ];
    assert_eq!(
        messages("deepseek", &nodes),
        r#"{"role":"user","content":"go"}
{"role":"assistant","content":"","reasoning_content":"plan","tool_calls":[{"id":"a","type":"function","function":{"name":"read","arguments":"{\"path\":\"x\"}"}}]}
{"role":"tool","tool_call_id":"a","content":"one two"}
{"role":"assistant","content":"hm","tool_calls":[{"id":"b","type":"function","function":{"name":"my_tool","arguments":"{\"invalid_arguments\":\"{\"}"}}]}
{"role":"tool","tool_call_id":"b","content":"(no output)"}
{"role":"assistant","content":"done"}
{"role":"user","content":""}"#
    );
    let plain = messages("compatible", &nodes);
    assert!(!plain.contains("reasoning_content"), "{plain}");
    assert!(plain.contains(r#""arguments":"{\"invalid_arguments\":\"{\"}""#), "{plain}");
}

#[test]
fn only_arguments_that_the_tools_take_go_back_as_they_are() {
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(200), "]".repeat(200));
    let lone = "{\"a\":\"\\ud83d\"}";
    let raw = ["{\"a\":1} x", "[1]", "\"a\"", "nan", "{", &deep, lone];
    for vendor in ["deepseek", "compatible"] {
        let sent = |arguments: &str| {
            let nodes = [
                user(0, "go"),
                assistant(1, "deepseek", vec![call("a", "read", arguments)]),
                result(2, "a", vec![text("x")]),
            ];
            let rendered = render(&mut renderer(vendor), &header("", &[]), &nodes, None).unwrap();
            let body: serde_json::Value = serde_json::from_slice(&rendered.body).unwrap();
            let call = &body["messages"][1]["tool_calls"][0];
            call["function"]["arguments"].as_str().unwrap().to_owned()
        };
        for arguments in raw {
            let wrapped = serde_json::json!({ "invalid_arguments": arguments }).to_string();
            assert_eq!(sent(arguments), wrapped);
        }
        for (arguments, expected) in [("", "{}"), (" \n", "{}"), (" {\"a\": 1} ", " {\"a\": 1} ")] {
            assert_eq!(sent(arguments), expected);
        }
    }
}

#[test]
fn ids_that_servers_find_too_long_become_their_hash_in_call_and_result() {
    let (fits, long) = ("f".repeat(64), "l".repeat(65));
    let nodes = [
        user(0, "go"),
        assistant(1, "deepseek", vec![call(&fits, "read", "{}"), call(&long, "read", "{}")]),
        result(2, &fits, vec![text("x")]),
        result(3, &long, vec![text("y")]),
    ];
    let rendered = render(&mut renderer("deepseek"), &header("", &[]), &nodes, None).unwrap();
    let body: serde_json::Value = serde_json::from_slice(&rendered.body).unwrap();
    let hash = Sha256::digest(&long).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let short = format!("c_{}", &hash[..32]);
    let ids = |index: usize| body["messages"][1]["tool_calls"][index]["id"].clone();
    assert_eq!((ids(0), ids(1)), (fits.as_str().into(), short.as_str().into()));
    assert_eq!(body["messages"][2]["tool_call_id"], fits.as_str());
    assert_eq!(body["messages"][3]["tool_call_id"], short.as_str());
}

#[test]
fn an_alias_is_the_same_provider() {
    let nodes = [
        user(0, "go"),
        assistant(1, "deepseek-official", vec![reasoning("plan"), call("a", "read", "{}")]),
        result(2, "a", vec![text("x")]),
    ];
    assert!(messages("deepseek", &nodes).contains(r#""reasoning_content":"plan""#));
}

#[test]
fn unknown_blocks_are_left_out_and_pictures_refused() {
    let raw = RawValue::from_string(r#"{"type":"song","x":1}"#.to_owned()).unwrap();
    let unknown = node(0, Role::User, vec![text("a"), Block::Unknown(raw)], Source::User);
    assert_eq!(messages("deepseek", &[unknown]), r#"{"role":"user","content":"a"}"#);
    let image =
        || Block::Image(Image { blob: "00".to_owned(), media_type: "image/png".to_owned() });
    let own = node(0, Role::User, vec![image()], Source::User);
    assert_eq!(refused(&[own]).code, FailureCode::UnsupportedContent);
    let nested = [
        user(0, "go"),
        assistant(1, "deepseek", vec![call("a", "read", "{}")]),
        result(2, "a", vec![image()]),
    ];
    assert_eq!(refused(&nested).code, FailureCode::UnsupportedContent);
}

#[test]
fn what_a_server_would_refuse_does_not_leave() {
    let open = [user(0, "go"), assistant(1, "deepseek", vec![call("a", "read", "{}")])];
    let failure = refused(&open);
    assert_eq!(failure.code, FailureCode::InvalidRequest);
    assert_eq!(
        failure.message,
        "the request was not sent, the provider would refuse it: messages: the calls `a` have no \
         answer; messages: the last message must not be the model's own"
    );
    let between = [open[0].clone(), open[1].clone(), user(2, "x"), result(3, "a", vec![])];
    assert!(refused(&between).message.contains("messages[2]: the calls `a` before it"));
    assert!(refused(&[]).message.contains("at least one user message"));
    let twice = vec![call("a", "read", "{}"), call("a", "read", "{}")];
    let twice = [open[0].clone(), assistant(1, "deepseek", twice), result(2, "a", vec![])];
    assert!(refused(&twice).message.contains("tool_calls[1].id: `a` is there twice"));
    let tools = render(&mut renderer("deepseek"), &header("", &["a.b"]), &[user(0, "a")], None);
    assert!(tools.unwrap_err().message.contains("tools[0].function.name: `a.b` is not"));
}

#[test]
fn the_checker_reads_raw_bodies() {
    let check = |body: &str| {
        let faults = check_body(body.as_bytes(), Rules::of(quirks("deepseek")));
        let faults = faults.err().unwrap_or_default();
        faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let with = |messages: &str| {
        check(&format!("{{\"model\":\"m\",\"stream\":true,\"messages\":[{messages}]}}"))
    };
    assert_eq!(with(r#"{"role":"user","content":"a"}"#), "");
    let cases = [
        (r#"{"role":"user","content":null}"#, "messages[0].content: must be a text"),
        (r#"{"role":"robot","content":"a"}"#, "messages[0].role: `robot` is no role"),
        (
            r#"USER,{"role":"system","content":"b"}"#,
            "messages[1].role: a system message must be the first",
        ),
        (
            r#"USER,{"role":"tool","tool_call_id":"x","content":"b"}"#,
            "messages[1].tool_call_id: `x` is no open call of the message before the results",
        ),
        (
            r#"USER,{"role":"assistant","content":""},USER"#,
            "messages[1]: an assistant message needs content or calls",
        ),
        (
            r#"USER,{"role":"assistant","content":"b","tool_calls":[]},USER"#,
            "messages[1].tool_calls: must be left out instead of empty",
        ),
        (
            r#"USER,{"role":"assistant","content":"b","reasoning_content":"c"},USER"#,
            "messages[1].reasoning_content: is not taken here",
        ),
    ];
    for (messages, fault) in cases {
        let got = with(&messages.replace("USER", r#"{"role":"user","content":"a"}"#));
        assert!(got.lines().any(|line| line == fault), "{messages}: {got}");
    }
    let head = check(concat!(
        r#"{"model":"","seed":1,"temperature":null,"max_tokens":0,"stop":[],"#,
        r#""thinking":{"type":"disabled"},"reasoning_effort":"high","tools":[],"messages":{}}"#,
    ));
    for fault in [
        "model: must be a text that is not empty",
        "seed: is no field of a request",
        "temperature: must be left out instead of null",
        "max_tokens: must be a whole number above 0",
        "stop: must be 1 to 16 texts that are not empty",
        "reasoning_effort: contradicts disabled thinking",
        "stream: must be true",
        "tools: must be an array with at least one tool, or be left out",
        "messages: must be an array",
    ] {
        assert!(head.lines().any(|line| line == fault), "{fault}: {head}");
    }
    assert!(check("[]").starts_with(": the body is no JSON object"));
}

#[test]
fn why_items_are_not_shared() {
    let nodes = [user(0, "a"), assistant(1, "deepseek", vec![text("b")]), user(2, "c")];
    let one = header("s", &["read"]);
    let mut rolling = renderer("deepseek");
    let first = render(&mut rolling, &one, &nodes[..1], None).unwrap();
    assert_eq!((first.facts.shared, &first.facts.cause), (0, &None));
    let second = render(&mut rolling, &one, &nodes, Some(&sent(&first))).unwrap();
    assert_eq!((second.facts.shared, &second.facts.cause), (3, &None));

    // Another process goes on from the log.
    let reopened = render(&mut renderer("deepseek"), &one, &nodes, Some(&sent(&first))).unwrap();
    assert_eq!(reopened.body, second.body);
    assert_eq!(reopened.facts, second.facts);

    // A replaced surface keeps what stands before the replaced span.
    let replaced = [nodes[0].clone(), user(3, "summary")];
    let third = render(&mut rolling, &one, &replaced, Some(&sent(&second))).unwrap();
    assert_eq!((third.facts.shared, third.facts.cause.as_deref()), (3, Some("surface")));
    let again = render(&mut rolling, &one, &replaced, Some(&sent(&third))).unwrap();
    assert_eq!((again.facts.shared, again.facts.cause), (4, None));

    // New tools: only the system message before them is left.
    let other = header("s", &["read", "write"]);
    let fourth = render(&mut rolling, &other, &replaced, Some(&sent(&third))).unwrap();
    assert_eq!((fourth.facts.shared, fourth.facts.cause.as_deref()), (1, Some("header")));

    let mut foreign = sent(&fourth);
    foreign.hash = "00".repeat(32);
    let cause = |previous: &RequestSent| {
        let rendered = render(&mut renderer("deepseek"), &other, &replaced, Some(previous));
        let facts = rendered.unwrap().facts;
        (facts.shared, facts.cause)
    };
    assert_eq!(cause(&foreign), (0, Some("surface".to_owned())));
    foreign.renderer = 0;
    assert_eq!(cause(&foreign), (0, Some("renderer".to_owned())));
    foreign.dialect = "messages".to_owned();
    assert_eq!(cause(&foreign), (0, Some("dialect".to_owned())));
    // Another version that happens to give the same bytes shares them.
    let mut same = sent(&fourth);
    same.renderer = 0;
    assert_eq!(cause(&same), (4, None));
}

#[test]
fn a_refused_request_leaves_nothing_behind() {
    let nodes = [
        user(0, "go"),
        assistant(1, "deepseek", vec![call("a", "read", "{}")]),
        result(2, "a", vec![text("x")]),
    ];
    let header = header("", &[]);
    let mut rolling = renderer("deepseek");
    render(&mut rolling, &header, &nodes[..1], None).unwrap();
    render(&mut rolling, &header, &nodes[..2], None).unwrap_err();
    let after = render(&mut rolling, &header, &nodes, None).unwrap();
    let fresh = render(&mut renderer("deepseek"), &header, &nodes, None).unwrap();
    assert_eq!(after.body, fresh.body);
    assert_eq!(after.facts, fresh.facts);
}

/// One exchange of a random history.
#[derive(Clone, Debug)]
enum Exchange {
    Talk(String, String),
    Tools(String, Vec<(String, String)>),
    Thoughts(String),
}

fn exchange() -> impl Strategy<Value = Exchange> {
    let word = || ".{0,12}";
    prop_oneof![
        (word(), word()).prop_map(|(a, b)| Exchange::Talk(a, b)),
        (word(), prop::collection::vec((word(), word()), 1..4))
            .prop_map(|(a, calls)| Exchange::Tools(a, calls)),
        word().prop_map(Exchange::Thoughts),
    ]
}

/// The nodes, and after which numbers of them a request may leave.
fn history(exchanges: &[Exchange]) -> (Vec<Node>, Vec<usize>) {
    let mut nodes = vec![user(0, "start")];
    let mut stops = vec![1];
    for exchange in exchanges {
        let seq = nodes.len() as u64;
        match exchange {
            Exchange::Talk(answer, words) => {
                nodes.push(assistant(seq, "deepseek", vec![text(answer)]));
                nodes.push(user(seq + 1, words));
            }
            Exchange::Tools(thoughts, calls) => {
                let id = |index: usize| format!("c{index}");
                let mut content = vec![reasoning(thoughts)];
                for (index, (name, arguments)) in calls.iter().enumerate() {
                    content.push(call(&id(index), name, arguments));
                }
                nodes.push(assistant(seq, "deepseek", content));
                for (index, (_, output)) in calls.iter().enumerate().rev() {
                    let at = nodes.len() as u64;
                    nodes.push(result(at, &id(index), vec![text(output)]));
                }
            }
            Exchange::Thoughts(thoughts) => {
                nodes.push(assistant(seq, "deepseek", vec![reasoning(thoughts)]));
                nodes.push(user(seq + 1, "and?"));
            }
        }
        stops.push(nodes.len());
    }
    (nodes, stops)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn each_request_is_the_start_of_the_next(
        exchanges in prop::collection::vec(exchange(), 0..12),
        vendor in prop::sample::select(vec!["deepseek", "compatible"]),
        tools in prop::sample::select(vec![vec![], vec!["read", "write"]]),
    ) {
        let (nodes, stops) = history(&exchanges);
        let header = header("s", &tools);
        let mut rolling = renderer(vendor);
        let mut last: Option<Rendered> = None;
        for stop in stops {
            let previous = last.as_ref().map(sent);
            let next = render(&mut rolling, &header, &nodes[..stop], previous.as_ref()).unwrap();
            let fresh = render(&mut renderer(vendor), &header, &nodes[..stop], previous.as_ref())
                .unwrap();
            prop_assert_eq!(&next.body, &fresh.body);
            prop_assert_eq!(&next.facts, &fresh.facts);
            prop_assert_eq!(check_body(&next.body, Rules::of(quirks(vendor))), Ok(()));
            if let Some(last) = &last {
                let start = body(last).strip_suffix("]}").unwrap();
                prop_assert!(body(&next).starts_with(start));
                prop_assert_eq!(next.facts.shared, last.facts.items);
                prop_assert_eq!(&next.facts.cause, &None);
            }
            last = Some(next);
        }
    }
}
