use reins_agent::{Provider as _, Rendered};
use reins_schema::{
    CallConfig, Draft, Event, Header, HeaderReason, Purpose, RequestHeader, RequestSent, SessionId,
    SourceRange, SurfaceOp,
};
use reins_session::{Fold, KnownTypes};
use serde_json::value::RawValue;

use crate::world::EndPoint;

/// Every event so far, so that the log can be opened again.
struct Log {
    events: Vec<Event>,
    fold: Fold,
}

impl Log {
    fn new() -> Self {
        let mut log = Self { events: Vec::new(), fold: empty() };
        log.add("turn/start", r#"{"turn":1}"#, None);
        log.add("step/start", r#"{"turn":1,"step":1}"#, None);
        log
    }

    fn add(&mut self, kind: &str, data: &str, surface: Option<SurfaceOp>) {
        let sources = match surface {
            Some(SurfaceOp::Replace(first, last)) => vec![SourceRange::Range(first, last)],
            _ => Vec::new(),
        };
        let data = RawValue::from_string(data.to_owned()).unwrap();
        let kind = kind.to_owned();
        let body = Draft { kind, v: None, data, surface, sources, ignorable: false };
        let event = Event { seq: self.events.len() as u64, time: 0, body };
        self.fold.apply(&event).unwrap();
        self.events.push(event);
    }

    fn say(&mut self, words: &str, surface: SurfaceOp) {
        let seq = self.events.len();
        let data = format!(
            "{{\"message\":{{\"id\":\"m{seq}\",\"role\":\"user\",\"content\":[{{\"type\":\"text\",\
             \"text\":\"{words}\"}}],\"source\":{{\"kind\":\"user\"}}}}}}"
        );
        self.add("user/message", &data, Some(surface));
    }

    fn reopened(&self) -> Fold {
        let mut fold = empty();
        self.events.iter().for_each(|event| fold.apply(event).unwrap());
        fold
    }
}

fn empty() -> Fold {
    let header = Header {
        format: reins_schema::FORMAT,
        id: SessionId::new("s"),
        created_at: 0,
        cwd: "/w".into(),
        parent: None,
        origin: None,
        delegation_depth: 0,
        agent_preset: None,
    };
    Fold::new(header, KnownTypes::default())
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

#[test]
fn rolling_and_reopened_requests_are_equal() {
    let provider = EndPoint::new([]).provider("vendor = \"deepseek\"");
    let config = CallConfig { model: "deepseek-v4-pro".to_owned(), ..CallConfig::default() };
    let header = RequestHeader {
        config: provider.resolve(config).unwrap().config,
        adapter_defaults: reins_schema::AdapterDefaults::default(),
        system: "Be good.".to_owned(),
        tools: Vec::new(),
        reason: HeaderReason::Initial,
    };
    let mut log = Log::new();
    let mut rolling = provider.renderer();
    let mut last: Option<Rendered> = None;
    let mut check = |log: &Log, shared: u64, cause: Option<&str>| {
        let previous = last.as_ref().map(sent);
        let next = rolling.render(&header, log.fold.surface(), previous.as_ref()).unwrap();
        assert_eq!((next.facts.shared, next.facts.cause.as_deref()), (shared, cause));
        let fold = log.reopened();
        let fresh = provider.renderer().render(&header, fold.surface(), None).unwrap();
        assert_eq!(next.body, fresh.body);
        assert_eq!(next.facts.hash, fresh.facts.hash);
        // The same renderer, given the same log read again, starts anew and says the same.
        let moved = rolling.render(&header, fold.surface(), Some(&sent(&next))).unwrap();
        assert_eq!((&moved.body, moved.facts.shared), (&next.body, next.facts.items));
        last = Some(rolling.render(&header, log.fold.surface(), Some(&sent(&next))).unwrap());
    };
    log.say("one", SurfaceOp::Append);
    check(&log, 0, None);
    log.say("two", SurfaceOp::Append);
    log.say("three", SurfaceOp::Append);
    check(&log, 2, None);
    log.say("both", SurfaceOp::Replace(3, 4));
    check(&log, 2, Some("surface"));
    log.say("four", SurfaceOp::Append);
    check(&log, 3, None);
}
