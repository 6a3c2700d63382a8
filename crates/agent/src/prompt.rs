//! What stands in front of the conversation, and the facts that go into it.

use std::path::PathBuf;
use std::sync::Arc;

use reins_kernel::{BoxFuture, Origin, Scope};
use reins_schema::{Failure, FailureCode, Message, MessageId, SessionId, Source};
use reins_session::Fold;

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

/// A section of the system prompt as it reads now, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptPart {
    /// The section's name.
    pub name: Arc<str>,
    /// The row that put it there.
    pub origin: Origin,
    /// Name of the scope that holds it.
    pub scope: Arc<str>,
    /// Its place among the others.
    pub order: i32,
    /// The text; an empty one is left out of the prompt.
    pub text: String,
}

/// Every visible section in the order in which they stand, the empty ones, too.
pub fn prompt_parts(of: &PromptContext) -> Vec<PromptPart> {
    let entries = of.scope.entries::<dyn PromptSection>().into_iter();
    let mut parts: Vec<PromptPart> = entries
        .map(|entry| PromptPart {
            order: entry.value.order(),
            text: entry.value.text(of).trim().to_owned(),
            name: entry.name,
            origin: entry.origin,
            scope: entry.scope,
        })
        .collect();
    // Entries come by name, which decides between equal ones.
    parts.sort_by_key(|part| part.order);
    parts
}

/// The system prompt of sections with these texts, byte for byte as the model gets it.
pub fn system_prompt<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.join("\n\n")
}

/// A rendered section and the row it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SectionText {
    pub(crate) name: Arc<str>,
    pub(crate) row: Arc<str>,
    pub(crate) text: String,
}

/// The sections in order, empty ones left out.
pub(crate) fn sections(of: &PromptContext) -> Vec<SectionText> {
    let parts = prompt_parts(of).into_iter().filter(|part| !part.text.is_empty());
    parts
        .map(|part| SectionText { name: part.name, row: part.origin.row, text: part.text })
        .collect()
}

/// A fact as it reads now, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FactPart {
    /// The fact's name.
    pub name: Arc<str>,
    /// The row that put it there.
    pub origin: Origin,
    /// Name of the scope that holds it.
    pub scope: Arc<str>,
    /// The text; `None` when there is nothing to say now.
    pub text: Option<String>,
}

/// Every visible fact in the order in which they stand, the silent ones, too.
pub async fn fact_parts(of: &PromptContext) -> Vec<FactPart> {
    let mut parts = Vec::new();
    for entry in of.scope.entries::<dyn RuntimeFact>() {
        let text = entry.value.text(of).await;
        let (name, origin, scope) = (entry.name, entry.origin, entry.scope);
        parts.push(FactPart { name, origin, scope, text });
    }
    parts
}

/// The snapshot text of facts with these texts; empty when there are none.
pub fn facts_text<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let lines: Vec<String> = texts.into_iter().map(|text| format!("- {text}")).collect();
    if lines.is_empty() {
        return String::new();
    }
    format!("Facts about the environment, as of now:\n{}", lines.join("\n"))
}

/// The snapshot text of all facts; empty when there are none.
pub(crate) async fn facts(of: &PromptContext) -> String {
    let parts = fact_parts(of).await;
    facts_text(parts.iter().filter_map(|part| part.text.as_deref()))
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

/// The facts that the model was told last.
pub(crate) fn last_facts(fold: &Fold) -> Option<String> {
    fold.last_told(SNAPSHOT_PLUGIN).map(Message::text)
}

const SNAPSHOT_PLUGIN: &str = "runtime-facts";

/// The failure of a turn whose prompt cannot be assembled.
pub(crate) fn assembly_failure(problem: impl Into<String>) -> Failure {
    Failure::new(FailureCode::InvalidRequest, problem)
}
