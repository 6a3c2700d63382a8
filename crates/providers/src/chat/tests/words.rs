use reins_schema::FailureCode;

use crate::chat::error::{Refused, refused, retry_after, wait};

fn code(status: u16, body: &str, should_retry: Option<bool>) -> FailureCode {
    failure(status, body, should_retry).code
}

fn failure(status: u16, body: &str, should_retry: Option<bool>) -> reins_schema::Failure {
    let url = "https://example.test/chat/completions";
    let key_from = "the environment variable KEY";
    refused(&Refused { status, body, url, model: "m", key_from, should_retry })
}

#[test]
fn statuses_and_wordings() {
    let overflow =
        r#"{"error":{"message":"This model's maximum context length is 65536 tokens."}}"#;
    let quota = r#"{"error":{"code":"insufficient_quota","message":"pay"}}"#;
    let cases = [
        (401, "", "AUTH"),
        (403, quota, "AUTH"),
        (402, "", "QUOTA"),
        (429, "", "RATE_LIMIT"),
        (429, quota, "QUOTA"),
        (429, r#"{"error":{"message":"You exceeded your current quota"}}"#, "QUOTA"),
        (503, "", "OVERLOADED"),
        (529, "", "OVERLOADED"),
        (500, "", "SERVER"),
        (524, "<html>", "SERVER"),
        (408, "", "TIMEOUT"),
        (400, overflow, "CONTEXT_WINDOW_EXCEEDED"),
        (413, overflow, "CONTEXT_WINDOW_EXCEEDED"),
        (422, r#"{"detail":"Prompt is too long"}"#, "CONTEXT_WINDOW_EXCEEDED"),
        (400, r#"{"error":{"code":"context_length_exceeded"}}"#, "CONTEXT_WINDOW_EXCEEDED"),
        (400, "the request exceeds the available context size", "CONTEXT_WINDOW_EXCEEDED"),
        (500, overflow, "SERVER"),
        (400, r#"{"error":{"message":"temperature exceeds maximum"}}"#, "INVALID_REQUEST"),
        (400, r#"{"error":{"message":"input too large"}}"#, "INVALID_REQUEST"),
        (413, "", "INVALID_REQUEST"),
        (404, "", "INVALID_REQUEST"),
        (308, "", "INVALID_REQUEST"),
    ];
    for (status, body, expected) in cases {
        assert_eq!(code(status, body, None).as_str(), expected, "{status} {body}");
    }
}

#[test]
fn the_provider_may_overrule_whether_repeating_helps() {
    assert_eq!(code(503, "", Some(false)).as_str(), "OVERLOADED_FINAL");
    assert_eq!(code(409, "", Some(true)).as_str(), "SERVER");
    assert_eq!(code(503, "", Some(true)).as_str(), "OVERLOADED");
    assert_eq!(code(401, "", Some(true)).as_str(), "AUTH");
}

#[test]
fn messages_say_what_to_do() {
    let auth = failure(401, r#"{"error":{"message":"bad\u001b[0m key"}}"#, None);
    assert_eq!(
        auth.message,
        "the provider refused the key from the environment variable KEY (HTTP 401): \
         bad\\u{1b}[0m key"
    );
    assert_eq!(
        failure(404, "Not Found", None).message,
        "`https://example.test/chat/completions` knows no such path or model `m` (HTTP 404): \
         Not Found"
    );
    assert_eq!(failure(500, "<html>", None).message, "HTTP 500: the answer gives no reason");
    assert_eq!(failure(500, "{\"error\":{}}", None).status, Some(500));
}

#[test]
fn waits_that_a_provider_asks_for() {
    let now = 1_000_000_000_000;
    let seconds = |text| retry_after(None, Some(text), now);
    assert_eq!(seconds("2"), Some(2000));
    assert_eq!(seconds("1500000"), Some(1_500_000_000));
    assert_eq!(seconds("Sun, 09 Sep 2001 01:46:50 GMT"), Some(10_000));
    for ignored in ["0", "-1", "soon", "99999999999999999999", "Sun, 09 Sep 2001 01:46:30 GMT"] {
        assert_eq!(seconds(ignored), None, "{ignored}");
    }
    assert_eq!(retry_after(Some("250"), Some("2"), now), Some(250));
    assert_eq!(retry_after(Some("x"), Some("2"), now), Some(2000));
    assert_eq!(retry_after(None, None, now), None);
    let words = [500, 119_001, 120_000, 7_199_000, 1_500_000_000].map(wait);
    assert_eq!(words, ["1 s", "2 min", "2 min", "120 min", "417 h"]);
}
