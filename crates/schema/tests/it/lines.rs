use proptest::collection::vec;
use proptest::prelude::*;
use reins_schema::{Draft, Event, LineError, SourceRange, SurfaceOp};
use serde_json::value::RawValue;

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn event(kind: &str, data: &str) -> Event {
    let body = Draft {
        kind: kind.to_owned(),
        v: None,
        data: raw(data),
        surface: None,
        sources: Vec::new(),
        ignorable: false,
    };
    Event { seq: 3, time: 1_700_000_000_000, body }
}

/// Fixed for ever: a reader in another language relies on these bytes.
#[test]
fn the_line_has_its_fields_in_order_and_the_checksum_last() {
    let mut event = event("user/message", r#"{"a":1}"#);
    event.body.v = Some(2);
    event.body.surface = Some(SurfaceOp::Replace(1, 2));
    event.body.sources = vec![SourceRange::One(0), SourceRange::Range(1, 2)];
    event.body.ignorable = true;
    let (line, _) = event.encode().unwrap();
    let expected = concat!(
        r#"{"seq":3,"time":1700000000000,"type":"user/message","v":2,"data":{"a":1},"#,
        r#""surface":{"replace":[1,2]},"sources":[0,[1,2]],"ignorable":true,"sum":"cf4a8707"}"#,
        "\n"
    );
    assert_eq!(String::from_utf8(line).unwrap(), expected);
}

#[test]
fn an_event_of_an_unknown_type_survives_byte_for_byte() {
    let data = r#"{"deep":[{"x" : 1.000},null],"é":"\u00e9"}"#;
    let (line, sum) = event("hologram/shown", data).encode().unwrap();
    let (again, found) = Event::decode(line.trim_ascii_end()).unwrap();
    assert_eq!(found, sum);
    assert_eq!(again.body.data.get(), data);
    assert_eq!(again.encode().unwrap().0, line);
}

#[test]
fn line_breaks_between_the_tokens_of_foreign_json_do_not_break_the_line() {
    let (line, _) = event("x/y", "{\n  \"a\": [1,\r\n 2]\n}").encode().unwrap();
    assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
    let (again, _) = Event::decode(line.trim_ascii_end()).unwrap();
    let value: serde_json::Value = serde_json::from_str(again.body.data.get()).unwrap();
    assert_eq!(value, serde_json::json!({"a": [1, 2]}));
}

#[test]
fn lines_that_are_no_events_say_why() {
    assert_eq!(Event::decode(b"").unwrap_err(), LineError::NoSum);
    assert_eq!(Event::decode(br#"{"seq":0,"time":0}"#).unwrap_err(), LineError::NoSum);
    let upper = br#"{"seq":0,"sum":"ABCDEF01"}"#;
    assert_eq!(Event::decode(upper).unwrap_err(), LineError::NoSum);
    let wrong = br#"{"seq":0,"sum":"00000000"}"#;
    assert!(matches!(Event::decode(wrong), Err(LineError::WrongSum { found: 0, .. })));
    let content = br#"{"seq":"zero""#;
    let sum = crc32c::crc32c(content);
    let line = [content.as_slice(), format!(",\"sum\":\"{sum:08x}\"}}").as_bytes()].concat();
    assert!(matches!(Event::decode(&line), Err(LineError::Shape(_))));
}

fn events() -> impl Strategy<Value = Event> {
    let data = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        ".{0,40}".prop_map(|text| serde_json::json!({ "t": text }).to_string()),
        Just("null".to_owned()),
    ];
    let surface = proptest::option::of(prop_oneof![
        Just(SurfaceOp::Append),
        (any::<u64>(), any::<u64>()).prop_map(|(a, b)| SurfaceOp::Replace(a, b)),
    ]);
    let source = prop_oneof![
        any::<u64>().prop_map(SourceRange::One),
        (any::<u64>(), any::<u64>()).prop_map(|(a, b)| SourceRange::Range(a, b)),
    ];
    let sources = proptest::collection::vec(source, 0..4);
    let rest = (surface, sources, proptest::option::of(any::<u32>()), any::<bool>());
    (any::<u64>(), any::<i64>(), "[a-z/]{1,20}", data, rest).prop_map(
        |(seq, time, kind, data, (surface, sources, v, ignorable))| {
            let body = Draft { kind, v, data: raw(&data), surface, sources, ignorable };
            Event { seq, time, body }
        },
    )
}

proptest! {
    #[test]
    fn every_event_is_read_back_as_it_was(event in events()) {
        let (line, sum) = event.encode().unwrap();
        let (again, found) = Event::decode(line.trim_ascii_end()).unwrap();
        prop_assert_eq!(found, sum);
        prop_assert_eq!(again.encode().unwrap().0, line);
        prop_assert_eq!((again.seq, again.time), (event.seq, event.time));
        prop_assert_eq!(again.body.kind, event.body.kind);
        prop_assert_eq!(again.body.sources, event.body.sources);
        prop_assert_eq!(again.body.surface, event.body.surface);
    }

    #[test]
    fn one_changed_byte_is_always_noticed(event in events(), at in any::<usize>(), bit in 0u8..8) {
        let (line, _) = event.encode().unwrap();
        let mut line = line.trim_ascii_end().to_vec();
        let at = at % line.len();
        line[at] ^= 1u8 << bit;
        prop_assert!(Event::decode(&line).is_err());
    }

    #[test]
    fn any_bytes_are_judged_without_a_panic(bytes in vec(any::<u8>(), 0..80)) {
        prop_assert!(Event::decode(&bytes).is_err());
    }
}
