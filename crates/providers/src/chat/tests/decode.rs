use std::collections::VecDeque;
use std::fmt::Write as _;

use proptest::prelude::*;
use reins_agent::StreamPart;
use reins_schema::Failure;

use crate::chat::ChatDecoder;
use crate::vendor::DoneMark;

/// One line per part, consecutive texts of a part joined.
fn show(parts: &VecDeque<StreamPart>, end: &Result<(), Failure>) -> String {
    let mut lines: Vec<(String, String)> = Vec::new();
    for part in parts {
        match part {
            StreamPart::Delta { index, kind, id, name, text } => {
                let mut head = format!("{index} {kind:?}");
                if let Some(id) = id {
                    write!(head, " id={id}").unwrap();
                }
                if let Some(name) = name {
                    write!(head, " name={name}").unwrap();
                }
                lines.push((head, text.clone()));
            }
            StreamPart::Usage(usage) => {
                let line = format!(
                    "usage {}+{} out {} ({})",
                    usage.input_tokens,
                    usage.cache_read_tokens,
                    usage.output_tokens,
                    usage.reasoning_tokens
                );
                lines.push((line, String::new()));
            }
            StreamPart::Finish { reason, .. } => {
                lines.push((format!("finish {reason:?}"), String::new()));
            }
        }
    }
    if let Err(failure) = end {
        lines.push((format!("! {failure}"), String::new()));
    }
    lines.iter().fold(String::new(), |mut text, (head, body)| {
        writeln!(text, "{head}{}{body}", if body.is_empty() { "" } else { ": " }).unwrap();
        text
    })
}

fn decode(pieces: &[&[u8]], content_type: &str, mark: DoneMark) -> String {
    let mut decoder = ChatDecoder::new(Some(content_type), mark);
    let mut parts = VecDeque::new();
    let mut run = || {
        for piece in pieces {
            decoder.push(piece, &mut parts)?;
        }
        decoder.end(&mut parts)
    };
    let end = run();
    show(&parts, &end)
}

fn strict(stream: &str) -> String {
    decode(&[stream.as_bytes()], "text/event-stream", DoneMark::Required)
}

/// A stream of these deltas, a finish reason, and the end mark.
fn deltas(deltas: &[&str], finish: &str) -> String {
    let mut stream = String::new();
    for delta in deltas {
        write!(stream, "data: {{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}\n\n").unwrap();
    }
    let last = format!("{{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"{finish}\"}}]}}");
    write!(stream, "data: {last}\n\ndata: [DONE]\n\n").unwrap();
    stream
}

const RECORDED: &str = concat!(
    ": keep-alive\n\n",
    "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":",
    "{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"\"},\"logprobs\":null,",
    "\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":null,",
    "\"reasoning_content\":\"想\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"读写\u{2028}\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" \\u8bfb\\ud83d\\ude00\"}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",",
    "\"type\":\"function\",\"function\":{\"name\":\"read\",\"arguments\":\"\"}}]}}]}\r\n\r\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":",
    "{\"arguments\":\"{\\\"path\\\":\"}},{\"index\":1,\"id\":\"c2\",\"function\":",
    "{\"name\":\"list\",\"arguments\":\"{}\"}}]}}]}\n\n",
    "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":",
    "{\"arguments\":\"\\\"a\\\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":20,",
    "\"prompt_cache_hit_tokens\":64,\"completion_tokens_details\":{\"reasoning_tokens\":5}}}\n\n",
    "data: [DONE]\n\n",
);

const RECORDED_PARTS: &str = "\
0 Reasoning: 想
1 Text: 读写\u{2028}
1 Text:  读😀
2 Call id=c1 name=read
2 Call: {\"path\":
3 Call id=c2 name=list: {}
2 Call: \"a\"}
usage 36+64 out 20 (5)
finish ToolCalls
";

#[test]
fn a_recorded_stream_cut_at_every_byte() {
    assert_eq!(strict(RECORDED), RECORDED_PARTS);
    let bytes = RECORDED.as_bytes();
    for cut in 0..=bytes.len() {
        let pieces = [&bytes[..cut], &bytes[cut..]];
        let got = decode(&pieces, "text/event-stream", DoneMark::Required);
        assert_eq!(got, RECORDED_PARTS, "cut at {cut}");
    }
    let each: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(decode(&each, "text/event-stream", DoneMark::Required), RECORDED_PARTS);
}

#[test]
fn a_short_stream_cut_at_every_two_bytes() {
    let stream = "\u{feff}data: {\"choices\":[{\"delta\":{\"content\":\"读写\"}}]}\r\n\r\n\
                  data: {\"choices\":[{\"finish_reason\":\"stop\"}]}\r\rdata:[DONE]";
    let bytes = stream.as_bytes();
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let pieces = [&bytes[..first], &bytes[first..second], &bytes[second..]];
            let got = decode(&pieces, "text/event-stream", DoneMark::Required);
            assert_eq!(got, "0 Text: 读写\nfinish Stop\n", "cut at {first} and {second}");
        }
    }
}

#[test]
fn a_stream_that_ends_anywhere_is_never_complete() {
    let end = RECORDED.len() - "data: [DONE]\n\n".len();
    for cut in 0..end {
        let got = decode(&[&RECORDED.as_bytes()[..cut]], "text/event-stream", DoneMark::Required);
        assert!(!got.contains("finish"), "cut at {cut}: {got}");
        assert!(got.contains("! STREAM_CLOSED"), "cut at {cut}: {got}");
    }
}

#[test]
fn order_within_a_chunk_is_fixed_and_empty_texts_open_nothing() {
    let delta = r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"t","arguments":"{}"}}],
        "content":"c","reasoning_content":"r","role":"assistant"}"#
        .replace('\n', "");
    let stream =
        deltas(&[r#"{"content":"","reasoning_content":"","tool_calls":null}"#, &delta], "stop");
    assert_eq!(
        strict(&stream),
        "0 Reasoning: r\n1 Text: c\n2 Call id=a name=t: {}\nfinish ToolCalls\n"
    );
}

#[test]
fn reasoning_under_either_name_is_read_once() {
    let stream =
        deltas(&[r#"{"reasoning":"a"}"#, r#"{"reasoning":"b","reasoning_content":"b"}"#], "stop");
    assert_eq!(strict(&stream), "0 Reasoning: a\n0 Reasoning: b\nfinish Stop\n");
}

#[test]
fn calls_of_servers_that_bend_the_rules() {
    let call = |text: &str| format!("{{\"tool_calls\":[{text}]}}");
    let cases = [
        // No index: told apart by id.
        (
            vec![
                r#"{"id":"a","function":{"name":"x","arguments":"{}"}},
                    {"id":"b","function":{"name":"y","arguments":"{}"}}"#,
            ],
            "0 Call id=a name=x: {}\n1 Call id=b name=y: {}\nfinish ToolCalls\n",
        ),
        // No index on the later pieces.
        (
            vec![
                r#"{"id":"a","function":{"name":"x","arguments":"{"}}"#,
                r#"{"function":{"arguments":"}"}}"#,
            ],
            "0 Call id=a name=x: {\n0 Call: }\nfinish ToolCalls\n",
        ),
        // Every call has index 0.
        (
            vec![
                r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}"#,
                r#"{"index":0,"id":"b","function":{"name":"x","arguments":"{}"}}"#,
                r#"{"index":0,"function":{"arguments":" "}}"#,
            ],
            "0 Call id=a name=x: {}\n1 Call id=b name=x: {}\n1 Call:  \nfinish ToolCalls\n",
        ),
        // Id and name in every piece, or later.
        (
            vec![
                r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{"}}"#,
                r#"{"index":0,"id":"a","function":{"name":"x","arguments":"}"}}"#,
            ],
            "0 Call id=a name=x: {\n0 Call: }\nfinish ToolCalls\n",
        ),
        (
            vec![
                r#"{"index":3}"#,
                r#"{"index":3,"id":"a","function":{"name":"x"}}"#,
                r#"{"index":3,"id":"","function":{"name":"","arguments":null}}"#,
            ],
            "0 Call\n0 Call id=a name=x\n0 Call\nfinish ToolCalls\n",
        ),
        // Arguments that are an object.
        (
            vec![r#"{"index":0,"id":"a","function":{"name":"x","arguments":{"b": [1]}}}"#],
            "0 Call id=a name=x: {\"b\": [1]}\nfinish ToolCalls\n",
        ),
        // No id at all: one is given at the end. One id for two calls: the core judges that.
        (
            vec![r#"{"index":0,"function":{"name":"x","arguments":"{}"}}"#],
            "0 Call name=x: {}\n0 Call id=call-0\nfinish ToolCalls\n",
        ),
        (
            vec![
                r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}"#,
                r#"{"index":1,"id":"a","function":{"name":"y","arguments":"{}"}}"#,
            ],
            "0 Call id=a name=x: {}\n1 Call id=a name=y: {}\nfinish ToolCalls\n",
        ),
    ];
    for (pieces, expected) in cases {
        let pieces: Vec<String> = pieces.iter().map(|p| call(p).replace('\n', "")).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        assert_eq!(strict(&deltas(&pieces, "tool_calls")), expected, "{pieces:?}");
        assert_eq!(strict(&deltas(&pieces, "stop")), expected, "{pieces:?}");
    }
}

#[test]
fn halves_of_characters_are_joined_and_one_alone_is_replaced() {
    let texts = |pieces: &[&str]| {
        let pieces: Vec<String> =
            pieces.iter().map(|text| format!(r#"{{"content":"{text}"}}"#)).collect();
        let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
        strict(&deltas(&pieces, "stop"))
    };
    for (pieces, whole) in [
        (&[r"a\ud83d", r"\ude00b"][..], "a😀b"),
        (&[r"a\uD83D", "", r"\uDE00"], "a😀"),
        (&[r"\ud83d\ude00\ud83d", r"\ude00\ud83d", r"\ude00"], "😀😀😀"),
        (&[r"a\ud83d", "b"], "a\u{fffd}b"),
        (&[r"a\ud83d", r"\n\ude00"], "a\u{fffd}\n\u{fffd}"),
        (&[r"a\ud83d\ud83d\ude00b"], "a\u{fffd}😀b"),
        (&[r#"\udc00a\\ud83d\"\ud83d b"#], "\u{fffd}a\\ud83d\"\u{fffd} b"),
        (&[r"a", r"\ud83d"], "a\u{fffd}"),
        (&[r"\ud83d"], "\u{fffd}"),
    ] {
        let text = texts(pieces).replace("\n0 Text: ", "");
        assert_eq!(text, format!("0 Text: {whole}\nfinish Stop\n"), "{pieces:?}");
    }
}

#[test]
fn halves_of_characters_in_calls_spoil_nothing() {
    let call = |id: &str, arguments: &str| {
        format!(
            r#"{{"tool_calls":[{{"index":0,"id":"{id}","function":
               {{"name":"n","arguments":"{arguments}"}}}}]}}"#
        )
        .replace('\n', "")
    };
    let (first, second) = (call(r"c\ud800", r#"{\"a\":\"\ud83d"#), call("", r#"\ude00\"}"#));
    let whole = strict(&deltas(&[&first, &second], "tool_calls"));
    assert!(whole.starts_with("0 Call id=c\u{fffd} name=n: {\"a\":\""), "{whole}");
    assert!(whole.contains("😀\"}"), "{whole}");
    let reasoning = [r#"{"reasoning":"a\ud83d"}"#, r#"{"content":"\ude00b"}"#];
    let apart = strict(&deltas(&reasoning, "stop"));
    assert_eq!(apart, "0 Reasoning: a\n1 Text: \u{fffd}b\n0 Reasoning: \u{fffd}\nfinish Stop\n");
    let plain = r#"{"choices":[{"message":{"content":"x\ud83d"},"finish_reason":"stop"}]}"#;
    let whole = decode(&[plain.as_bytes()], "application/json", DoneMark::Required);
    assert_eq!(whole.replace("\n0 Text: ", ""), "0 Text: x\u{fffd}\nfinish Stop\n");
}

#[test]
fn numbers_that_no_count_can_be_are_left_out() {
    let usage = |prompt: &str, output: &str| {
        let stream = format!(
            "data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}},\"finish_reason\":\"stop\"}}],\
             \"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{output}}}}}\n\n\
             data: [DONE]\n\n"
        );
        strict(&stream)
    };
    for number in
        ["18446744073709551615", "1000000000000001", "1e300", "-4", "36893488147419103232"]
    {
        assert_eq!(usage(number, "2"), "0 Text: a\nusage 0+0 out 2 (0)\nfinish Stop\n");
        assert_eq!(usage(number, number), "0 Text: a\nfinish Stop\n");
    }
}

#[test]
fn usage_may_come_with_the_finish_or_after_it_and_the_last_counts() {
    let stream = concat!(
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"length\"}],",
        "\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":1}}\n\n",
        "data: {\"usage\":{\"prompt_tokens\":10.0,\"completion_tokens\":2,",
        "\"prompt_cache_hit_tokens\":9,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n",
        "data: {\"usage\":{}}\n\ndata: [DONE]\n\ndata: {broken after the end\n\n",
    );
    let expected = "0 Text: a\nusage 10+0 out 1 (0)\nusage 6+4 out 2 (0)\nfinish MaxTokens\n";
    assert_eq!(strict(stream), expected);
}

#[test]
fn ends() {
    let finish = |word: &str| deltas(&[r#"{"content":"a"}"#], word);
    let cases = [
        (finish("stop"), "0 Text: a\nfinish Stop\n"),
        (finish("tool_calls"), "0 Text: a\nfinish Stop\n"),
        (finish(""), "0 Text: a\nfinish Stop\n"),
        (
            finish("content_filter"),
            "0 Text: a\n! CONTENT_FILTER: the provider's content filter stopped the answer\n",
        ),
        (
            finish("insufficient_system_resource"),
            "0 Text: a\n! OVERLOADED: the provider ran out of resources during the answer\n",
        ),
        (
            finish("weird"),
            "0 Text: a\n! WEIRD: the model stopped for a reason not known here: `weird`\n",
        ),
        (deltas(&[r#"{"reasoning":"r"}"#], "stop"), "0 Reasoning: r\nfinish Stop\n"),
        (
            deltas(&[], "stop"),
            "! EMPTY_RESPONSE: the model finished its answer without saying anything\n",
        ),
        (deltas(&[], "length"), "finish MaxTokens\n"),
        (String::new(), "! STREAM_CLOSED: the server sent no answer, only an empty body\n"),
        (
            ": alive\n\n".to_owned(),
            "! STREAM_CLOSED: the stream ended before the answer was complete\n",
        ),
    ];
    for (stream, expected) in cases {
        assert_eq!(strict(&stream), expected, "{stream}");
    }
}

#[test]
fn a_missing_end_mark_is_fatal_unless_the_vendor_says_otherwise() {
    let stream = deltas(&[r#"{"content":"a"}"#], "stop").replace("data: [DONE]\n\n", "");
    let lax = |stream: &str| decode(&[stream.as_bytes()], "", DoneMark::Optional);
    assert_eq!(lax(&stream), "0 Text: a\nfinish Stop\n");
    assert_eq!(
        strict(&stream),
        "0 Text: a\n! STREAM_CLOSED: the stream ended without its end mark `[DONE]`\n"
    );
    let cut = stream.split_once("data: {\"choices\":[{\"delta\":{},").unwrap().0;
    assert!(
        lax(cut).ends_with("! STREAM_CLOSED: the stream ended before the answer was complete\n")
    );
}

#[test]
fn an_error_object_in_the_stream_fails_the_answer() {
    let error = |body: &str| {
        let start = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n";
        strict(&format!("{start}data: {body}\n\ndata: [DONE]\n\n"))
    };
    let cases = [
        (r#"{"error":{"message":"busy","code":503}}"#, "OVERLOADED", "busy"),
        (
            r#"{"error":{"message":"slow down","type":"rate_limit_error"}}"#,
            "RATE_LIMIT",
            "slow down",
        ),
        (r#"{"error":{"message":"x","code":"insufficient_quota"}}"#, "QUOTA", "x"),
        (r#"{"error":"it broke"}"#, "SERVER", "it broke"),
        (
            r#"{"object":"error","message":"The maximum context length is 10","code":400}"#,
            "CONTEXT_WINDOW_EXCEEDED",
            "The maximum context length is 10",
        ),
    ];
    for (body, code, words) in cases {
        let expected = format!("0 Text: a\n! {code}: the provider broke the answer off: {words}\n");
        assert_eq!(error(body), expected);
    }
    let named = "event: error\ndata: {\"message\":\"overloaded\"}\n\n";
    assert_eq!(strict(named), "! OVERLOADED: the provider broke the answer off: overloaded\n");
}

#[test]
fn what_is_no_protocol_is_quoted_shortly_and_visibly() {
    let got = strict("data: {\"a\u{1b}[2J\n\n");
    assert!(got.starts_with("! MALFORMED_RESPONSE: an event is no chunk ("), "{got}");
    assert!(got.ends_with("): `{\"a\\u{1b}[2J`\n"), "{got}");
    let long = strict(&format!("data: {}\n\n", "x".repeat(500)));
    assert!(long.contains(&format!("`{}…`", "x".repeat(120))), "{long}");
    let page = "<!DOCTYPE html><html>hello";
    let expected = "! MALFORMED_RESPONSE: a web page came instead of an answer; the base URL is \
                    probably wrong: `<!DOCTYPE html><html>hello`\n";
    assert_eq!(decode(&[page.as_bytes()], "text/event-stream", DoneMark::Required), expected);
    let plain = decode(&[b"hello"], "text/html; charset=utf-8", DoneMark::Required);
    assert!(plain.contains("a web page came instead"), "{plain}");
    let torn = strict("data: {\"choices\":[{\"delta\":{\"content\":5}}]}\n\ndata: [DONE]\n\n");
    assert!(torn.starts_with("0 Unknown: {\"content\":5}\n"), "{torn}");
}

#[test]
fn a_server_that_does_not_stream() {
    let body = r#" {"object":"chat.completion","choices":[{"index":0,"finish_reason":"tool_calls",
        "message":{"role":"assistant","content":"hi","reasoning_content":"r","refusal":null,
        "tool_calls":[{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}},
        {"id":"b","type":"function","function":{"name":"y","arguments":"{}"}}]}}],
        "usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
    let json = |body: &str| decode(&[body.as_bytes()], "application/json", DoneMark::Required);
    assert_eq!(
        json(body),
        "0 Reasoning: r\n1 Text: hi\n2 Call id=a name=x: {}\n3 Call id=b name=y: {}\n\
         usage 3+0 out 4 (0)\nfinish ToolCalls\n"
    );
    let cut = json(&body[..body.len() - 5]);
    assert_eq!(cut, "! STREAM_CLOSED: the answer ended in its middle\n");
    let error = json(r#"[{"error":{"code":429,"message":"wait"}}]"#);
    assert_eq!(error, "! RATE_LIMIT: the provider broke the answer off: wait\n");
    assert!(json("{\"hello\":1}").starts_with("! MALFORMED_RESPONSE: the answer has no `choices`"));
}

#[test]
fn unknown_fields_that_carry_data_are_surfaced_and_bounded() {
    let delta = r#"{"content":"a","annotations":[],"audio":null,"reasoning_details":[{"t":1}]}"#;
    let stream = deltas(&[delta, r#"{"reasoning_details":[{"t":2}]}"#], "stop");
    assert_eq!(
        strict(&stream),
        "0 Text: a\n1 Unknown: {\"reasoning_details\":[{\"t\":1}]}\n\
         1 Unknown: {\"reasoning_details\":[{\"t\":2}]}\nfinish Stop\n"
    );
    let big = format!("{{\"content\":\"a\",\"x\":\"{}\"}}", "y".repeat(300_000));
    let got = strict(&deltas(&[&big, &big], "stop"));
    assert_eq!(
        got,
        "0 Text: a\n1 Unknown: {\"x\":\"left out: unknown fields of more than 262144 bytes\"}\n\
         0 Text: a\nfinish Stop\n"
    );
}

#[test]
fn other_answers_than_the_first_are_not_mixed_in() {
    let stream = "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"}},\
                  {\"index\":0,\"delta\":{\"content\":\"yes\"},\"finish_reason\":\"stop\"}]}\n\n\
                  data: [DONE]\n\n";
    assert_eq!(strict(stream), "0 Text: yes\nfinish Stop\n");
}

proptest! {
    #[test]
    fn any_pieces_of_the_recorded_stream_give_the_same(
        cuts in prop::collection::vec(0..RECORDED.len(), 0..20),
    ) {
        let mut cuts = cuts;
        cuts.extend([0, RECORDED.len()]);
        cuts.sort_unstable();
        let bytes = RECORDED.as_bytes();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        let got = decode(&pieces, "text/event-stream", DoneMark::Required);
        prop_assert_eq!(got, RECORDED_PARTS);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let got = decode(&[&bytes], "", DoneMark::Optional);
        prop_assert!(!got.is_empty());
    }
}
