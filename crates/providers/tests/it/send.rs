use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use reins_agent::{Provider as _, StreamPart, WireCall};
use reins_schema::{Failure, SessionId};
use tokio::time::Instant;

use crate::world::{EndPoint, Script, Step};

const HELLO: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"Hello\"}}]}\n\n";
const END: &str =
    "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const DEEPSEEK: &str = "vendor = \"deepseek\"";

fn call() -> WireCall {
    WireCall {
        body: Bytes::from_static(b"{\"model\":\"deepseek-v4-pro\",\"messages\":[]}"),
        session: SessionId::new("s"),
    }
}

/// The texts that arrived, and how it ended.
async fn run(point: &Arc<EndPoint>, config: &str) -> (String, Result<(), Failure>) {
    let mut stream = point.provider(config).send(call());
    let mut text = String::new();
    let mut finished = false;
    while let Some(part) = stream.next().await {
        match part {
            Ok(StreamPart::Delta { text: piece, .. }) => text.push_str(&piece),
            Ok(StreamPart::Usage(_)) => {}
            Ok(StreamPart::Finish { .. }) => finished = true,
            Err(failure) => {
                assert!(stream.next().await.is_none(), "nothing follows a failure");
                return (text, Err(failure));
            }
        }
    }
    assert!(finished, "a stream without a failure finishes");
    (text, Ok(()))
}

async fn failure(script: Script, config: &str) -> Failure {
    run(&EndPoint::new([script]), config).await.1.unwrap_err()
}

#[tokio::test(start_paused = true)]
async fn a_request_and_its_answer() {
    let point = EndPoint::new([Script::ok(vec![Step::Bytes(HELLO), Step::Bytes(END)])]);
    let config =
        "vendor = \"deepseek\"\nbase_url = \"http://test/v1//\"\nheaders = { X-Team = \"blue\" }";
    let (text, end) = run(&point, config).await;
    assert_eq!((text.as_str(), end), ("Hello", Ok(())));
    assert!(!point.closed.load(Ordering::SeqCst), "the body was read to its end");
    let requests = point.requests.lock().unwrap();
    let [request] = requests.as_slice() else { panic!("one request, not {}", requests.len()) };
    assert_eq!((request.method, request.url.as_str()), ("POST", "http://test/v1/chat/completions"));
    assert_eq!(request.body, call().body);
    let agent = format!("reins/{}", env!("CARGO_PKG_VERSION"));
    let expected = [
        ("content-type", "application/json"),
        ("accept", "text/event-stream"),
        ("user-agent", agent.as_str()),
        ("x-team", "blue"),
        ("authorization", "Bearer sk-test-secret"),
    ];
    let got: Vec<(&str, &str)> =
        request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(got, expected);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_before_the_first_poll() {
    let point = EndPoint::new([]);
    drop(point.provider(DEEPSEEK).send(call()));
    assert!(point.requests.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_stream_closes_the_connection() {
    let point = EndPoint::new([Script::ok(vec![Step::Bytes(HELLO), Step::Hang])]);
    let mut stream = point.provider(DEEPSEEK).send(call());
    assert!(stream.next().await.unwrap().is_ok());
    assert!(!point.closed.load(Ordering::SeqCst));
    drop(stream);
    assert!(point.closed.load(Ordering::SeqCst));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_stays_open_after_the_end_mark_does_not_hold_the_turn() {
    let point = EndPoint::new([Script::ok(vec![Step::Bytes(HELLO), Step::Bytes(END), Step::Hang])]);
    let start = Instant::now();
    let (text, end) = run(&point, DEEPSEEK).await;
    assert_eq!((text.as_str(), end), ("Hello", Ok(())));
    assert!(start.elapsed() <= Duration::from_millis(100));
}

#[tokio::test(start_paused = true)]
async fn silence_has_an_end_wherever_it_begins() {
    let limits = "vendor = \"deepseek\"\nhead_timeout_ms = 3000\nidle_timeout_ms = 2000";
    let start = Instant::now();
    let no_head = failure(Script::default(), limits).await;
    assert_eq!(
        no_head.to_string(),
        "TIMEOUT: `https://api.deepseek.com/chat/completions` did not begin to answer for 3 s \
         (`head_timeout_ms`)"
    );
    assert_eq!(start.elapsed(), Duration::from_secs(3));

    // Comments are data enough.
    let steps = vec![
        Step::Bytes(HELLO),
        Step::Wait(1500),
        Step::Bytes(": alive\n\n"),
        Step::Wait(1500),
        Step::Bytes(": alive\n\n"),
        Step::Hang,
    ];
    let start = Instant::now();
    let (text, end) = run(&EndPoint::new([Script::ok(steps)]), limits).await;
    let failure = end.unwrap_err();
    assert_eq!(text, "Hello");
    assert_eq!(
        failure.message,
        "no data from `https://api.deepseek.com/chat/completions` for 2 s (`idle_timeout_ms`)"
    );
    assert_eq!(failure.request_id.as_deref(), Some("r-1"));
    assert_eq!(start.elapsed(), Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_keeps_what_had_arrived() {
    let broken = EndPoint::new([Script::ok(vec![Step::Bytes(HELLO), Step::Break])]);
    let (text, end) = run(&broken, DEEPSEEK).await;
    assert_eq!(text, "Hello");
    assert_eq!(
        end.unwrap_err().to_string(),
        "TRANSPORT: the connection to `test:80` broke: reset by peer"
    );
    let (_, end) = run(&EndPoint::new([]), DEEPSEEK).await;
    assert_eq!(
        end.unwrap_err().to_string(),
        "TRANSPORT: no connection to `test:80`: connection refused"
    );
    let cut = failure(Script::ok(vec![Step::Bytes(HELLO)]), DEEPSEEK).await;
    assert_eq!(
        cut.to_string(),
        "STREAM_CLOSED: `https://api.deepseek.com/chat/completions`: the stream ended before the \
         answer was complete"
    );
}

#[tokio::test(start_paused = true)]
async fn a_web_page_names_the_address() {
    let mut script = Script::ok(vec![Step::Bytes("<html>Welcome")]);
    script.headers = vec![("content-type", "text/html")];
    assert_eq!(
        failure(script, DEEPSEEK).await.to_string(),
        "MALFORMED_RESPONSE: `https://api.deepseek.com/chat/completions`: a web page came instead \
         of an answer; the base URL is probably wrong: `<html>Welcome`"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refusal_never_shows_the_key() {
    let mut script = Script::refusal(
        401,
        r#"{"error":{"message":"no such key: Bearer sk-test-secret, team blue-team-token"}}"#,
    );
    script.headers = vec![("x-deepseek-request-id", "d-7")];
    let config = "vendor = \"deepseek\"\nheaders = { x-token = \"blue-team-token\" }";
    let failure = failure(script, config).await;
    assert_eq!(
        failure.to_string(),
        "AUTH: the provider refused the key from the environment variable DEEPSEEK_API_KEY (HTTP \
         401): no such key: Bearer [key], team [key]"
    );
    assert_eq!(failure.status, Some(401));
    assert_eq!(failure.request_id.as_deref(), Some("d-7"));
}

#[tokio::test(start_paused = true)]
async fn a_key_in_a_stream_is_not_shown_either() {
    let error = "data: {\"error\":{\"message\":\"sk-test-secret\"}}\n\n";
    let failure = failure(Script::ok(vec![Step::Bytes(error)]), DEEPSEEK).await;
    assert_eq!(failure.message, "the provider broke the answer off: [key]");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_read_within_limits() {
    let flood = Script {
        status: Some(429),
        headers: vec![("retry-after", "7")],
        steps: vec![Step::Flood(&[b'x'; 1024])],
    };
    let failure_of_flood = failure(flood, DEEPSEEK).await;
    assert_eq!(failure_of_flood.code.as_str(), "RATE_LIMIT");
    assert_eq!(failure_of_flood.retry_after_ms, Some(7000));
    assert!(failure_of_flood.message.len() < 1100);

    for last in [Step::Hang, Step::Break] {
        let script = Script { status: Some(503), headers: Vec::new(), steps: vec![last] };
        assert_eq!(
            failure(script, DEEPSEEK).await.to_string(),
            "OVERLOADED: HTTP 503: the answer gives no reason"
        );
    }
    let script = Script {
        status: Some(500),
        headers: vec![("x-should-retry", "false"), ("retry-after-ms", "250")],
        steps: Vec::new(),
    };
    let last = failure(script, DEEPSEEK).await;
    assert_eq!((last.code.as_str(), last.retry_after_ms), ("SERVER_FINAL", Some(250)));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_path_names_address_and_model() {
    assert_eq!(
        failure(Script::refusal(404, ""), DEEPSEEK).await.to_string(),
        "INVALID_REQUEST: `https://api.deepseek.com/chat/completions` knows no such path or model \
         `deepseek-v4-pro` (HTTP 404): the answer gives no reason"
    );
}

#[tokio::test(start_paused = true)]
async fn keys_and_addresses_are_looked_up_for_each_request() {
    let script = || Script::ok(vec![Step::Bytes(HELLO), Step::Bytes(END)]);
    let point = EndPoint::new([script(), script()]);
    point.set("DEEPSEEK_API_KEY", " ");
    let (_, end) = run(&point, DEEPSEEK).await;
    assert_eq!(
        end.unwrap_err().to_string(),
        "AUTH: no key for provider `deepseek`: set the environment variable DEEPSEEK_API_KEY, or \
         `api_key_env` or `api_key` in the settings of row `row-1`"
    );
    point.set("DEEPSEEK_API_KEY", "sk bad\u{e9}");
    let (_, end) = run(&point, DEEPSEEK).await;
    assert_eq!(
        end.unwrap_err().to_string(),
        "AUTH: the key from the environment variable DEEPSEEK_API_KEY holds a space or a special \
         character; copy it again"
    );
    assert!(point.requests.lock().unwrap().is_empty());
    point.set("DEEPSEEK_API_KEY", " sk-good\n");
    point.set("DEEPSEEK_BASE_URL", "http://other/");
    assert_eq!(run(&point, DEEPSEEK).await.1, Ok(()));
    let explicit = "vendor = \"deepseek\"\nbase_url = \"http://mine\"";
    assert_eq!(run(&point, explicit).await.1, Ok(()));
    let requests = point.requests.lock().unwrap();
    assert_eq!(requests[0].url, "http://other/chat/completions");
    assert_eq!(requests[1].url, "http://mine/chat/completions");
    assert!(requests[0].headers.contains(&("authorization".into(), "Bearer sk-good".into())));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_keys_gets_none() {
    let point = EndPoint::new([Script::ok(vec![Step::Bytes(HELLO), Step::Bytes(END)])]);
    let config = "vendor = \"compatible\"\nbase_url = \"http://127.0.0.1:8080/v1\"";
    assert_eq!(run(&point, config).await.1, Ok(()));
    let requests = point.requests.lock().unwrap();
    assert!(requests[0].headers.iter().all(|(name, _)| name != "authorization"));
}
