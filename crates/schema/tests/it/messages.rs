use reins_schema::{Block, Message, MessageId, Payload, Source, UserMessage};

fn read(json: &str) -> Message {
    serde_json::from_str(json).unwrap()
}

/// Kinds of a later version, also inside a tool result, and sources of another program.
const FOREIGN: &str = concat!(
    r#"{"id":"m1","role":"user","content":[{"type":"text","text":"a"},"#,
    r#"{"type":"hologram", "depth" : 1.50, "é":"\u00e9"},"#,
    r#"{"type":"tool-result","toolCallId":"c1","content":[{ "z":1,"type":"chart" }]}],"#,
    r#""source":{"kind":"agent-instructions","form":"instructions","x":[1, 2]}}"#
);

#[test]
fn unknown_blocks_and_sources_survive_byte_for_byte() {
    let message = read(FOREIGN);
    assert!(matches!(message.content[1], Block::Unknown(_)));
    assert!(matches!(message.source, Source::Unknown(_)));
    assert_eq!(serde_json::to_string(&message).unwrap(), FOREIGN);
}

#[test]
fn an_unknown_block_survives_inside_an_event() {
    let entered = UserMessage { message: read(FOREIGN), inbox: vec![MessageId::new("m1")] };
    let draft = Payload::from(entered).draft(Vec::new()).unwrap();
    assert!(draft.data.get().contains(r#"{"type":"hologram", "depth" : 1.50, "é":"\u00e9"}"#));
    let Payload::UserMessage(again) = Payload::read(&draft).unwrap() else { unreachable!() };
    assert_eq!(serde_json::to_string(&again.message).unwrap(), FOREIGN);
}

#[test]
fn what_a_model_needs_to_see_again_is_kept_as_it_came() {
    let json = concat!(
        r#"{"id":"m","role":"assistant","content":[],"source":"#,
        r#"{"kind":"model","provider":"p","model":"x","replay":{"sig" : "A==", "n":1e400}}}"#
    );
    assert_eq!(serde_json::to_string(&read(json)).unwrap(), json);
}

#[test]
fn a_known_kind_with_a_wrong_shape_is_an_error_that_names_the_field() {
    let broken = r#"{"id":"m","role":"user","content":[{"type":"text"}],"source":{"kind":"user"}}"#;
    let error = serde_json::from_str::<Message>(broken).unwrap_err().to_string();
    assert!(error.contains("text"), "{error}");
    let broken = r#"{"id":"m","role":"user","content":[],"source":{"kind":"tool"}}"#;
    let error = serde_json::from_str::<Message>(broken).unwrap_err().to_string();
    assert!(error.contains("callId"), "{error}");
}
