use std::io::Write as _;

use reins_schema::{
    Block, CallId, Event, FinishReason, Message, MessageId, Payload, Role, Source, StepStart,
    ToolCallBlock, ToolStart, TurnStart, UserMessage,
};
use reins_testkit::Transcript;

fn events(salt: &str) -> Vec<Event> {
    let message = MessageId::new(format!("m-{salt}"));
    let call = CallId::new(format!("c-{salt}"));
    let answer = Message {
        id: MessageId::new(format!("a-{salt}")),
        role: Role::Assistant,
        content: vec![
            Block::Text("x".repeat(500)),
            Block::ToolCall(ToolCallBlock {
                id: call.clone(),
                name: "read".to_owned(),
                arguments: "{}".to_owned(),
            }),
        ],
        source: Source::User,
    };
    let payloads: Vec<Payload> = vec![
        TurnStart { turn: 1 }.into(),
        UserMessage { message: Message::user(message.clone(), "hi"), inbox: vec![message] }.into(),
        StepStart { turn: 1, step: 1 }.into(),
        reins_schema::AssistantMessage {
            turn: 1,
            step: 1,
            attempt: 1,
            message: answer,
            finish: FinishReason::ToolCalls,
            usage: None,
        }
        .into(),
        ToolStart { turn: 1, step: 1, call_id: call }.into(),
    ];
    let time = i64::try_from(salt.len()).unwrap();
    let drafts = payloads.iter().zip(0..);
    drafts.map(|(p, seq)| Event { seq, time, body: p.draft(Vec::new()).unwrap() }).collect()
}

#[test]
fn two_runs_of_the_same_work_look_the_same() {
    let transcript = Transcript::of(&events("one"));
    assert_eq!(transcript, Transcript::of(&events("another")));
    let lines: Vec<&str> = transcript.as_str().lines().collect();
    assert_eq!(lines[0], "000 turn/start {turn: 1}");
    assert!(lines[1].starts_with("001 user/message + {message: {id: \"id1\""), "{}", lines[1]);
    assert!(lines[1].ends_with("inbox: [\"id1\"]}"), "{}", lines[1]);
    assert!(lines[3].contains("x …340 characters… x"), "{}", lines[3]);
    assert!(lines[3].contains("id: \"id3\", name: \"read\""), "{}", lines[3]);
    assert_eq!(lines[4], "004 tool/start {turn: 1, step: 1, callId: \"id3\"}");
    let kinds = ["turn/start", "user/message", "step/start", "assistant/message", "tool/start"];
    assert_eq!(transcript.kinds(), kinds);
    assert_eq!(transcript.only(&["step/start"]).as_str(), "step/start {turn: 1, step: 1}\n");
    assert!(transcript.replaced("read", "R").as_str().contains("name: \"R\""));
}

#[test]
fn a_log_is_read_with_its_torn_end_and_its_damage_is_named() {
    let mut bytes: Vec<u8> = Vec::new();
    for event in events("one") {
        bytes.extend(event.encode().unwrap().0);
    }
    let read = |bytes: &[u8]| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        Transcript::read(file.path()).map_err(|error| error.to_string())
    };
    let whole = read(&bytes).unwrap();
    assert_eq!(whole, Transcript::of(&events("one")));
    let torn = read(&[&bytes[..], b"{\"seq\":5"].concat()).unwrap();
    assert_eq!(torn.as_str(), format!("{whole}(torn line of 8 bytes)\n"));
    let second = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    bytes[second + 3] ^= 1;
    let error = read(&bytes).unwrap_err();
    assert!(error.contains(":2: checksum"), "{error}");
    let line = bytes[..second].to_vec();
    let error = read(&[line.clone(), line].concat()).unwrap_err();
    assert!(error.ends_with(":2: the event has number 0, but 1 follows"), "{error}");
}
