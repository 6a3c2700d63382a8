//! Made values that both the transcripts and the simulator use.

use reins_schema::{
    AdapterDefaults, Block, CallConfig, ChunkRun, Failure, FailureCode, Header, HeaderReason,
    Message, MessageId, PartKind, RequestContext, RequestHeader, SessionId, ToolError,
};
use reins_session::{EventType, Fold, KnownTypes, RenderedFacts, RequestPlan, ToolOutcome};

/// The registered type of a plugin.
pub(crate) const NOTE: &str = "test/note";

pub(crate) fn header() -> Header {
    Header {
        format: reins_schema::FORMAT,
        id: SessionId::new("s"),
        created_at: 0,
        cwd: "/w".into(),
        parent: None,
        origin: None,
        delegation_depth: 0,
        agent_preset: None,
    }
}

pub(crate) fn empty_fold() -> Fold {
    Fold::new(header(), known())
}

pub(crate) fn known() -> KnownTypes {
    let note = EventType { version: 1, ignorable: true, keep_last: true };
    KnownTypes::from_iter([(NOTE.to_owned(), note)])
}

pub(crate) fn message(id: &str, text: &str) -> Message {
    Message::user(MessageId::new(id), text)
}

pub(crate) fn plan(model: &str) -> Box<RequestPlan> {
    let config =
        CallConfig { provider: "p".to_owned(), model: model.to_owned(), ..CallConfig::default() };
    let header = RequestHeader {
        config,
        adapter_defaults: AdapterDefaults::default(),
        system: String::new(),
        tools: Vec::new(),
        reason: HeaderReason::Change { cause: "model".to_owned() },
    };
    let context = RequestContext {
        provider: "p".to_owned(),
        model: model.to_owned(),
        context_window: Some(1000),
    };
    Box::new(RequestPlan { header, context })
}

pub(crate) fn facts(items: u64) -> RenderedFacts {
    RenderedFacts {
        dialect: "chat".to_owned(),
        renderer: 1,
        items,
        bytes: items * 10,
        hash: "00".to_owned(),
        shared: 0,
        cause: None,
    }
}

pub(crate) fn failure(code: FailureCode) -> Failure {
    Failure::new(code, "as the test wants it")
}

pub(crate) fn run(index: u32, kind: PartKind, text: &str) -> ChunkRun {
    ChunkRun { index, kind, id: None, name: None, dt: vec![0], text: vec![text.to_owned()] }
}

pub(crate) fn call_run(index: u32, id: &str, name: &str, arguments: &str) -> ChunkRun {
    let mut run = run(index, PartKind::Call, arguments);
    run.id = Some(id.to_owned()).filter(|id| !id.is_empty());
    run.name = Some(name.to_owned());
    run
}

pub(crate) fn outcome(text: &str, error: Option<&str>) -> ToolOutcome {
    ToolOutcome {
        content: vec![Block::Text(text.to_owned())],
        is_error: error.is_some(),
        error: error.map(|code| ToolError { code: code.to_owned() }),
        meta: None,
        contexts: Vec::new(),
        concludes: false,
    }
}
