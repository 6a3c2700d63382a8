//! What a failure means, and the words for it.

use reins_schema::{Failure, FailureCode};
use serde_json::Value;

use crate::redact::Secrets;

/// The longest text of a provider that is shown, in characters.
const WORDS_MAX: usize = 1000;
/// The longest quote of what is no protocol, in characters.
const QUOTE_MAX: usize = 120;

/// The start of a text with control characters escaped.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = visible(text, QUOTE_MAX);
    if text.chars().nth(QUOTE_MAX).is_some() {
        quoted.push('…');
    }
    quoted
}

fn visible(text: &str, limit: usize) -> String {
    let escape = |c: char| -> String {
        // Bidirectional marks and separators would change how a terminal shows the rest.
        let hidden = ['\u{200b}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2066}'..='\u{2069}']
            .iter()
            .any(|range| range.contains(&c));
        if c.is_control() || hidden { c.escape_unicode().to_string() } else { c.to_string() }
    };
    text.chars().take(limit).map(escape).collect()
}

/// What arrived is not the protocol.
pub(super) fn malformed(what: &str, text: &str) -> Failure {
    let message = format!("{what}: `{}`", quote(text));
    Failure::new(FailureCode::MalformedResponse, message)
}

/// A response that is no success, in parts.
pub(super) struct Refused<'a> {
    pub(super) status: u16,
    pub(super) body: &'a str,
    /// The full URL.
    pub(super) url: &'a str,
    pub(super) model: &'a str,
    /// Where the key came from, as one would write it: `the environment variable X`.
    pub(super) key_from: &'a str,
    /// `x-should-retry`, when it was sent.
    pub(super) should_retry: Option<bool>,
}

/// The failure of a response with a status that is no success.
pub(super) fn refused(refused: &Refused<'_>) -> Failure {
    let said = Said::of_body(refused.body);
    let code = repeatable(by_status(refused.status, &said), refused);
    let status = refused.status;
    let words = said.words.unwrap_or_else(|| "the answer gives no reason".to_owned());
    let message = match (&code, status) {
        (FailureCode::Auth, _) => format!(
            "the provider refused the key from {} (HTTP {status}): {words}",
            refused.key_from
        ),
        (FailureCode::Quota, _) => {
            format!("balance or quota is used up (HTTP {status}): {words}")
        }
        (_, 404) => format!(
            "`{}` knows no such path or model `{}` (HTTP 404): {words}",
            refused.url, refused.model
        ),
        (_, 300..=399) => format!(
            "`{}` redirects elsewhere (HTTP {status}); set `base_url` to the final address",
            refused.url
        ),
        _ => format!("HTTP {status}: {words}"),
    };
    Failure { status: Some(status), ..Failure::new(code, message) }
}

/// `x-should-retry` overrules the list of codes: the provider knows better.
fn repeatable(code: FailureCode, refused: &Refused<'_>) -> FailureCode {
    let temporary = matches!(
        code,
        FailureCode::RateLimit
            | FailureCode::Overloaded
            | FailureCode::Server
            | FailureCode::Timeout
    );
    match refused.should_retry {
        Some(false) if temporary => FailureCode::Other(format!("{code}_FINAL")),
        Some(true) if code == FailureCode::InvalidRequest => FailureCode::Server,
        _ => code,
    }
}

fn by_status(status: u16, said: &Said) -> FailureCode {
    match status {
        401 | 403 => FailureCode::Auth,
        402 => FailureCode::Quota,
        _ if is_quota(&said.folded) => FailureCode::Quota,
        429 => FailureCode::RateLimit,
        503 | 529 => FailureCode::Overloaded,
        500.. => FailureCode::Server,
        408 => FailureCode::Timeout,
        400 | 413 | 422 if is_overflow(&said.folded) => FailureCode::ContextWindowExceeded,
        _ => FailureCode::InvalidRequest,
    }
}

/// The failure of an error object inside an answer that began as a success.
pub(super) fn in_stream(text: &str) -> Failure {
    let said = Said::of_body(text);
    let has = |words: &[&str]| words.iter().any(|word| said.folded.contains(word));
    let code = match said.number {
        Some(status) => by_status(status, &said),
        None if is_quota(&said.folded) => FailureCode::Quota,
        None if is_overflow(&said.folded) => FailureCode::ContextWindowExceeded,
        None if has(&["rate limit", "too many requests"]) => FailureCode::RateLimit,
        None if has(&["overloaded", "unavailable", "insufficient system resource"]) => {
            FailureCode::Overloaded
        }
        None if has(&["authentication", "invalid api key", "permission"]) => FailureCode::Auth,
        None if has(&["content filter"]) => FailureCode::ContentFilter,
        None if has(&["invalid request"]) => FailureCode::InvalidRequest,
        None => FailureCode::Server,
    };
    let words = said.words.unwrap_or_else(|| quote(text));
    let message = format!("the provider broke the answer off: {words}");
    Failure { status: said.number, ..Failure::new(code, message) }
}

/// What an error body says.
struct Said {
    /// For people.
    words: Option<String>,
    /// Code, type and message in lower case, every run of other characters one space.
    folded: String,
    /// A code that is an HTTP status.
    number: Option<u16>,
}

impl Said {
    fn of_body(body: &str) -> Self {
        let value = serde_json::from_str::<Value>(body).unwrap_or(Value::Null);
        let value = value.get(0).cloned().unwrap_or(value);
        let error = value.get("error").filter(|error| !error.is_null()).unwrap_or(&value);
        let text_of = |key: &str| error.get(key).and_then(Value::as_str);
        let message = error.as_str().or_else(|| text_of("message")).or_else(|| text_of("detail"));
        let number = ["status", "code"].iter().find_map(|key| error.get(key)?.as_u64());
        let parts = [text_of("code"), text_of("type"), message];
        let joined: Vec<&str> = parts.into_iter().flatten().collect();
        // A body that is no JSON may still be a plain sentence.
        let folded = if joined.is_empty() { fold(body) } else { fold(&joined.join(" ")) };
        let plain = Some(body.trim())
            .filter(|text| value.is_null() && !text.is_empty() && !text.starts_with('<'));
        let words = message.map(str::trim).filter(|text| !text.is_empty()).or(plain);
        Self {
            words: words.map(|text| visible(text, WORDS_MAX)),
            folded,
            number: number
                .and_then(|number| u16::try_from(number).ok())
                .filter(|number| (400..600).contains(number)),
        }
    }
}

fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_alphanumeric() {
            folded.extend(c.to_lowercase());
        } else if !folded.ends_with(' ') {
            folded.push(' ');
        }
    }
    folded
}

/// Whether folded words say that money or an allowance is used up.
fn is_quota(folded: &str) -> bool {
    const PHRASES: [&str; 17] = [
        "insufficient quota",
        "insufficient balance",
        "insufficient credits",
        "quota exceeded",
        "quota exhausted",
        "quota reached",
        "usage limit exceeded",
        "usage limit exhausted",
        "usage limit reached",
        "exceeded your current quota",
        "exceeded the current quota",
        "balance exhausted",
        "balance depleted",
        "credits exhausted",
        "credits depleted",
        "out of credits",
        "out of budget",
    ];
    PHRASES.iter().any(|phrase| folded.contains(phrase))
}

/// Whether folded words say that the request does not fit the model's window. Only words about
/// capacity count: "temperature exceeds maximum" is no overflow.
fn is_overflow(folded: &str) -> bool {
    const WINDOWS: [&str; 2] = ["context length", "context window"];
    const OVER: [&str; 3] = ["exceeded", "overflow", "limit exceeded"];
    const MAXIMA: [&str; 5] =
        ["max", "maximum", "maximum allowed", "maximum supported", "max allowed"];
    const SUBJECTS: [&str; 5] = ["request", "prompt", "input", "message", "messages"];
    const TOO: [&str; 5] = [
        "is too long",
        "too long for the model",
        "too long for this model",
        "too large for the model",
        "too large for this model",
    ];
    const EXCESS: [&str; 5] =
        ["exceeds ", "exceed ", "overflows ", "is larger than ", "are larger than "];
    /// How far behind the word of excess the word `context` may stand.
    const NEAR: usize = 40;

    let pair = |a: &str, b: &str| folded.contains(&format!("{a} {b}"));
    let window = WINDOWS.iter().any(|window| {
        OVER.iter().any(|over| pair(window, over)) || MAXIMA.iter().any(|max| pair(max, window))
    });
    let too_long = SUBJECTS.iter().any(|subject| TOO.iter().any(|too| pair(subject, too)));
    let near = |after: &str| after.chars().take(NEAR).collect::<String>().contains("context");
    let excess = EXCESS.iter().any(|word| folded.split(word).skip(1).any(near))
        && SUBJECTS.iter().any(|subject| folded.contains(subject));
    window || too_long || excess
}

/// The provider's wish before the next attempt, in milliseconds.
pub(super) fn retry_after(ms: Option<&str>, seconds: Option<&str>, now_ms: i64) -> Option<u64> {
    let millis = ms.and_then(|text| text.trim().parse::<u64>().ok());
    let wish = millis.or_else(|| {
        let text = seconds?.trim();
        if let Ok(seconds) = text.parse::<u64>() {
            return seconds.checked_mul(1000);
        }
        let date = httpdate::parse_http_date(text).ok()?;
        let since = date.duration_since(std::time::UNIX_EPOCH).ok()?;
        let wait = i64::try_from(since.as_millis()).ok()? - now_ms;
        u64::try_from(wait).ok()
    });
    wish.filter(|ms| *ms > 0)
}

/// A wait in words, rounded up.
pub(super) fn wait(ms: u64) -> String {
    match ms.div_ceil(1000) {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h", seconds.div_ceil(3600)),
    }
}

/// Takes the secrets out of everything a person or a log will see of a failure.
pub(super) fn clean(failure: Failure, secrets: &Secrets) -> Failure {
    Failure {
        message: secrets.clean(failure.message),
        request_id: failure.request_id.map(|id| secrets.clean(id)),
        ..failure
    }
}
