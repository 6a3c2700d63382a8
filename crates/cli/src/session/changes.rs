//! What a session changed in files, as its log tells it.

use std::collections::HashMap;

use reins_schema::{Block, CallId, Event, Payload, ToolResult};
use serde::{Deserialize, Serialize};

/// What tools that change files leave beside their result.
#[derive(Deserialize)]
struct Meta {
    path: Option<String>,
    #[serde(default, deserialize_with = "some")]
    diff: Option<Option<String>>,
    operation: Option<String>,
    #[serde(default, rename = "exitCode", deserialize_with = "some")]
    exit_code: Option<Option<i64>>,
}

/// A key that is there with `null` is not the same as one that is not there.
fn some<'de, D, T>(from: D) -> Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<T>::deserialize(from).map(Some)
}

/// One change of a file.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Change {
    /// The result that tells it.
    pub(super) seq: u64,
    pub(super) tool: String,
    /// The file was made by it.
    pub(super) created: bool,
    /// A unified diff without its head; none when the contents were not compared.
    pub(super) diff: Option<String>,
}

/// All changes of one file, in order.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct FileChanges {
    pub(super) path: String,
    pub(super) changes: Vec<Change>,
}

/// A call whose effect the log does not know.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Unknown {
    pub(super) seq: u64,
    pub(super) tool: String,
}

/// Collects what events tell.
#[derive(Default)]
pub(super) struct Changes {
    /// In the order of their first change.
    pub(super) files: Vec<FileChanges>,
    /// Commands that ran; what they did to files is not in the log.
    pub(super) commands: u64,
    /// Calls that were interrupted.
    pub(super) unknown: Vec<Unknown>,
    tools: HashMap<CallId, String>,
}

impl Changes {
    pub(super) fn see(&mut self, event: &Event) {
        match Payload::read(&event.body) {
            Ok(Payload::ToolCall(call)) => drop(self.tools.insert(call.call_id, call.name)),
            Ok(Payload::ToolResult(result)) => self.see_result(event.seq, &result),
            _ => {}
        }
    }

    fn see_result(&mut self, seq: u64, result: &ToolResult) {
        let answers = result.message.content.iter().filter_map(|block| match block {
            Block::ToolResult(answer) => Some(answer),
            _ => None,
        });
        let tools: Vec<String> =
            answers.filter_map(|answer| self.tools.remove(&answer.tool_call_id)).collect();
        let tool = tools.into_iter().next().unwrap_or_else(|| "?".to_owned());
        if let Some(error) = &result.error {
            if ["TOOL_OUTCOME_UNKNOWN", "ABORTED"].contains(&error.code.as_str()) {
                self.unknown.push(Unknown { seq, tool });
            }
            return;
        }
        let meta = result.meta.as_ref().map(|meta| serde_json::from_str::<Meta>(meta.get()));
        let Some(Ok(meta)) = meta else { return };
        self.commands += u64::from(meta.exit_code.is_some());
        if let (Some(path), Some(diff)) = (meta.path, meta.diff) {
            let created = meta.operation.as_deref() == Some("create");
            self.add(path, Change { seq, tool, created, diff });
        }
    }

    fn add(&mut self, path: String, change: Change) {
        match self.files.iter_mut().find(|file| file.path == path) {
            Some(file) => file.changes.push(change),
            None => self.files.push(FileChanges { path, changes: vec![change] }),
        }
    }
}
