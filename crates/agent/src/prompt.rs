//! What stands in front of the conversation, and the facts that go into it.

use std::path::PathBuf;

use reins_kernel::{BoxFuture, Scope};
use reins_schema::{Failure, FailureCode, Message, MessageId, SessionId, Source};

/// One section of the system prompt; an entry under its name. The text must be the same for the
/// same rows: what changes with time, mode or directory state is a [`RuntimeFact`].
pub trait PromptSection: Send + Sync {
    /// Sections stand in ascending order, equal ones by name. Guidance for tools is 100–199.
    fn order(&self) -> i32;

    /// The text; empty = left out.
    fn text(&self, of: &PromptContext) -> String;
}

/// Something that is true now and may change; an entry under its name. Appended to history when
/// the text differs from what the model was told last.
pub trait RuntimeFact: Send + Sync {
    /// One line, or `None` when there is nothing to say.
    fn text(&self, of: &PromptContext) -> BoxFuture<'static, Option<String>>;
}

/// For whom a prompt is assembled.
#[derive(Clone)]
pub struct PromptContext {
    /// The session.
    pub session: SessionId,
    /// Its directory.
    pub cwd: PathBuf,
    /// The agent's scope.
    pub scope: Scope,
}

/// A rendered section and the row it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SectionText {
    pub(crate) name: String,
    pub(crate) row: String,
    pub(crate) text: String,
}

/// The sections in order, empty ones left out.
pub(crate) fn sections(of: &PromptContext) -> Vec<SectionText> {
    let mut entries = of.scope.entries::<dyn PromptSection>();
    entries.sort_by_key(|entry| (entry.value.order(), entry.name.clone()));
    let texts = entries.into_iter().map(|entry| SectionText {
        name: entry.name.to_string(),
        row: entry.origin.row.to_string(),
        text: entry.value.text(of).trim().to_owned(),
    });
    texts.filter(|section| !section.text.is_empty()).collect()
}

/// The system prompt of these sections.
pub(crate) fn system_prompt(sections: &[SectionText]) -> String {
    let texts: Vec<&str> = sections.iter().map(|section| section.text.as_str()).collect();
    texts.join("\n\n")
}

/// The snapshot text of all facts; empty when there are none.
pub(crate) async fn facts(of: &PromptContext) -> String {
    let mut lines = Vec::new();
    for entry in of.scope.entries::<dyn RuntimeFact>() {
        if let Some(text) = entry.value.text(of).await {
            lines.push(format!("- {text}"));
        }
    }
    if lines.is_empty() {
        return String::new();
    }
    format!("Facts about the environment, as of now:\n{}", lines.join("\n"))
}

/// The message that tells the model the facts.
pub(crate) fn facts_message(id: MessageId, text: String) -> Message {
    let mut message = Message::notice(id, SNAPSHOT_PLUGIN, text);
    message.source =
        Source::Plugin { plugin: SNAPSHOT_PLUGIN.to_owned(), form: Some("snapshot".to_owned()) };
    message
}

/// The text of a snapshot message, when this is one.
pub(crate) fn snapshot_text(message: &Message) -> Option<String> {
    match &message.source {
        Source::Plugin { plugin, form } if plugin == SNAPSHOT_PLUGIN => {
            (form.as_deref() == Some("snapshot")).then(|| message.text())
        }
        _ => None,
    }
}

const SNAPSHOT_PLUGIN: &str = "runtime-facts";

/// The failure of a turn whose prompt cannot be assembled.
pub(crate) fn assembly_failure(problem: impl Into<String>) -> Failure {
    Failure::new(FailureCode::InvalidRequest, problem)
}
