//! What can go wrong with a model's answer, as changes of a response's steps.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use reins_providers::script::{Answer, Arguments, Place, Played, Reply, Step, WireEvent};
use serde::Deserialize;

/// The keys of an answer that make it go wrong.
pub const FAULT_KEYS: [&str; 7] =
    ["fault", "at", "at_byte", "limit_ms", "status", "headers", "body"];

/// How long a stall lasts when the client does not leave.
const STALL_LIMIT: Duration = Duration::from_secs(600);

const HTML: &str = "<!DOCTYPE html><html><body><h1>Sign in to continue</h1></body></html>";

/// How far an answer gets before it goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Before the head of the response.
    Head,
    /// After the head, before the first event.
    Start,
    /// After the first half of the text.
    Text,
    /// After the whole text.
    AfterText,
    /// After the first half of the first call's arguments.
    Arguments,
    /// After so many events.
    Events(usize),
    /// After so many bytes of the body.
    Bytes(usize),
}

/// One way to go wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Another status, with these headers and this body.
    Status {
        /// Of HTTP.
        status: StatusCode,
        /// For example `retry-after`.
        headers: HeaderMap,
        /// As it is sent.
        body: String,
    },
    /// The connection is closed.
    Cut(At),
    /// The connection is reset (RST).
    Reset(At),
    /// Nothing more comes until the client leaves, or until the limit; then the connection is cut.
    Stall(At, Duration),
    /// A page for people, with status 200.
    Html(String),
    /// An event whose data is broken JSON; then the rest follows.
    BadJson(At),
    /// Everything but the end mark, and an orderly end of the body.
    MissingDone,
    /// An error object in the stream, and an orderly end of the body.
    ErrorEvent(At, String),
    /// A complete answer with nothing in it.
    Empty,
    /// Status 200 and no body.
    EmptyBody,
    /// The last call's arguments, or the text, are cut in half with the finish reason `length`.
    Length,
    /// The port is closed and the connection, too: nothing can connect any more.
    ServerGone,
}

#[derive(Deserialize)]
struct Keys {
    fault: Option<String>,
    at: Option<AtKey>,
    at_byte: Option<usize>,
    limit_ms: Option<u64>,
    status: Option<u16>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "`at` is the name of a place or a number of events")]
enum AtKey {
    Events(usize),
    Name(String),
}

impl Fault {
    /// The fault that an answer's extra keys describe.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read(answer: &Answer) -> Result<Option<Self>, String> {
        if answer.extra.is_empty() {
            return Ok(None);
        }
        let table: toml::Table = answer.extra.clone().into_iter().collect();
        let keys: Keys = table.try_into().map_err(|e| e.message().trim_end().to_owned())?;
        let at = keys.place()?;
        let fault = match (keys.fault.as_deref(), keys.status) {
            (Some(_), Some(_)) => return Err("`fault` and `status` exclude each other".to_owned()),
            (None, None) => return Err("`fault` or `status` is missing".to_owned()),
            (None, Some(status)) => Self::status(status, &keys.headers, keys.body)?,
            (Some(name), None) => Self::named(name, at, &keys)?,
        };
        fault.check(answer)?;
        Ok(Some(fault))
    }

    /// Whether the answer has what the fault happens in.
    ///
    /// # Errors
    /// What it lacks.
    pub fn check(&self, answer: &Answer) -> Result<(), String> {
        match self.at() {
            Some(At::Text | At::AfterText) if answer.text.is_empty() => {
                Err("a fault in the text needs `text`".to_owned())
            }
            Some(At::Arguments) if answer.calls.is_empty() => {
                Err("a fault in the arguments needs an `[[answer.call]]`".to_owned())
            }
            Some(At::Head) if matches!(self, Self::BadJson(_) | Self::ErrorEvent(..)) => {
                Err("this fault is an event; it cannot come before the head".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// The response to a request whose answer would be `played`.
    pub fn reply(&self, mut played: Played) -> Reply {
        self.prepare(&mut played.answer);
        let events = played.events();
        match self {
            Self::Status { status, headers, body } => Reply {
                before: Vec::new(),
                status: *status,
                headers: headers.clone(),
                body: vec![Step::Send(Bytes::from(body.clone()))],
            },
            Self::Cut(at) => stopped(&played, events, *at, Step::Cut),
            Self::Reset(at) => stopped(&played, events, *at, Step::Reset),
            Self::Stall(at, limit) => stopped(&played, events, *at, Step::Stall(*limit)),
            Self::Html(page) => {
                let page = vec![Step::Send(Bytes::from(page.clone()))];
                Reply::new(StatusCode::OK, "text/html", page)
            }
            Self::BadJson(at) => {
                let mut events = events;
                let broken = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"br\n\n";
                let broken =
                    WireEvent { place: Place::Text, bytes: Bytes::from_static(broken.as_bytes()) };
                events.insert(kept(&events, *at), broken);
                played.reply(events)
            }
            Self::ErrorEvent(at, error) => {
                let mut events = events;
                events.truncate(kept(&events, *at));
                let bytes = Bytes::from(format!("data: {error}\n\n"));
                events.push(WireEvent { place: Place::Finish, bytes });
                played.reply(events)
            }
            Self::MissingDone => without_done(&played, events),
            Self::EmptyBody => played.reply(Vec::new()),
            Self::Empty | Self::Length => played.reply(events),
            Self::ServerGone => {
                let before = vec![Step::Deaf, Step::Cut];
                Reply { before, ..played.reply(Vec::new()) }
            }
        }
    }

    fn at(&self) -> Option<At> {
        match self {
            Self::Cut(at) | Self::Reset(at) | Self::Stall(at, _) => Some(*at),
            Self::BadJson(at) | Self::ErrorEvent(at, _) => Some(*at),
            _ => None,
        }
    }

    /// Changes the answer so that there is an event at the right place.
    fn prepare(&self, answer: &mut Answer) {
        match self {
            Self::Empty => {
                answer.text.clear();
                answer.reasoning.clear();
                answer.calls.clear();
                answer.finish = Some("stop".to_owned());
            }
            Self::Length => {
                answer.finish = Some("length".to_owned());
                match answer.calls.last_mut().map(|call| &mut call.arguments) {
                    Some(Arguments::Raw(arguments)) => halve(arguments),
                    _ => halve(&mut answer.text),
                }
            }
            _ => {}
        }
        let halved = match self.at() {
            Some(At::Text) => answer.text.len(),
            Some(At::Arguments) => match answer.calls.first().map(|call| &call.arguments) {
                Some(Arguments::Raw(arguments)) => arguments.len(),
                _ => 0,
            },
            _ => return,
        };
        answer.chunk_bytes.get_or_insert((halved / 2).max(1));
    }

    fn named(name: &str, at: Option<At>, keys: &Keys) -> Result<Self, String> {
        let limit = keys.limit_ms.map_or(STALL_LIMIT, Duration::from_millis);
        let start = at.unwrap_or(At::Start);
        let after_role = at.unwrap_or(At::Events(1));
        let error = r#"{"error":{"message":"the scripted server failed","type":"server_error"}}"#;
        let body = |usual: &str| keys.body.clone().unwrap_or_else(|| usual.to_owned());
        Ok(match name {
            "cut" => Self::Cut(start),
            "reset" => Self::Reset(start),
            "stall" => Self::Stall(start, limit),
            "html" => Self::Html(body(HTML)),
            "bad_json" => Self::BadJson(after_role),
            "missing_done" => Self::MissingDone,
            "error_event" => Self::ErrorEvent(after_role, body(error)),
            "empty" => Self::Empty,
            "empty_body" => Self::EmptyBody,
            "length" => Self::Length,
            "server_gone" => Self::ServerGone,
            other => {
                let known = "cut, reset, stall, html, bad_json, missing_done, error_event, empty, \
                             empty_body, length, server_gone";
                return Err(format!("`fault = \"{other}\"` is not known; faults are {known}"));
            }
        })
    }

    /// A status with headers and a body; without a body an error object is sent.
    ///
    /// # Errors
    /// The status or a header is not one of HTTP.
    pub fn status(
        status: u16,
        headers: &BTreeMap<String, String>,
        body: Option<String>,
    ) -> Result<Self, String> {
        let code = StatusCode::from_u16(status).ok().filter(|code| code.as_u16() >= 200);
        let code = code.ok_or_else(|| format!("`status = {status}` is no status of a response"))?;
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let header = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(value).ok());
            let (name, value) = header.ok_or_else(|| format!("`{name}: {value}` is no header"))?;
            map.append(name, value);
        }
        let error = serde_json::json!({"message": format!("scripted status {status}")});
        let body = body.unwrap_or_else(|| serde_json::json!({"error": error}).to_string());
        Ok(Self::Status { status: code, headers: map, body })
    }
}

impl Keys {
    fn place(&self) -> Result<Option<At>, String> {
        let name = match (&self.at, self.at_byte) {
            (Some(_), Some(_)) => return Err("`at` and `at_byte` exclude each other".to_owned()),
            (None, at_byte) => return Ok(at_byte.map(At::Bytes)),
            (Some(AtKey::Events(count)), None) => return Ok(Some(At::Events(*count))),
            (Some(AtKey::Name(name)), None) => name,
        };
        Ok(Some(match name.as_str() {
            "head" => At::Head,
            "start" => At::Start,
            "text" => At::Text,
            "after_text" => At::AfterText,
            "arguments" => At::Arguments,
            other => {
                let known = "head, start, text, after_text, arguments, or a number of events";
                return Err(format!("`at = \"{other}\"` is not known; places are {known}"));
            }
        }))
    }
}

fn halve(text: &mut String) {
    text.truncate(text.floor_char_boundary(text.len() / 2));
}

/// How many events come before the place.
fn kept(events: &[WireEvent], at: At) -> usize {
    let first = |place: Place| events.iter().position(|event| event.place == place);
    let last = |place: Place| events.iter().rposition(|event| event.place == place);
    match at {
        At::Head | At::Start => 0,
        At::Text => first(Place::Text).map_or(0, |index| index + 1),
        At::AfterText => last(Place::Text).map_or(0, |index| index + 1),
        At::Arguments => first(Place::Arguments).map_or(0, |index| index + 1),
        At::Events(count) => count.min(events.len()),
        At::Bytes(limit) => {
            let ends = events.iter().scan(0, |end, event| {
                *end += event.bytes.len();
                Some(*end)
            });
            ends.take_while(|end| *end <= limit).count()
        }
    }
}

/// The answer up to the place, then `last` and nothing more.
fn stopped(played: &Played, mut events: Vec<WireEvent>, at: At, last: Step) -> Reply {
    let count = kept(&events, at);
    let rest = events.split_off(count);
    if let (At::Bytes(limit), Some(next)) = (at, rest.first()) {
        let sent: usize = events.iter().map(|event| event.bytes.len()).sum();
        let bytes = next.bytes.slice(..limit.saturating_sub(sent).min(next.bytes.len()));
        if !bytes.is_empty() {
            events.push(WireEvent { place: next.place, bytes });
        }
    }
    let mut reply = played.reply(events);
    if at == At::Head {
        reply.before.push(last)
    } else {
        reply.body.push(last)
    }
    reply
}

fn without_done(played: &Played, mut events: Vec<WireEvent>) -> Reply {
    events.retain(|event| event.place != Place::Done);
    played.reply(events)
}
