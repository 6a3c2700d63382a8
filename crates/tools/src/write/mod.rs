//! `write`: the whole content of a file.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use reins_agent::{AnyTool, Tool, ToolContext, ToolFailure, ToolReply, ToolSuccess, erase};
use reins_kernel::{BoxFuture, Mount, MountError, Places, Plugin, PluginDef, Reload, ServiceKey};
use reins_world::{FileBytes, FileKind, Fs, Place};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::cap::count;
use crate::diff::unified;
use crate::failure::of_fs;

/// The tool's plugin.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<WritePlugin>();

/// Larger old contents are not compared with the new one.
const MAX_BEFORE_BYTES: u64 = 10 << 20;

/// Limits of `write`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct WriteConfig {
    /// Bytes of the difference that is kept for people at most.
    max_diff_bytes: usize,
}

impl Default for WriteConfig {
    fn default() -> Self {
        Self { max_diff_bytes: 65_536 }
    }
}

struct WritePlugin;

impl Plugin for WritePlugin {
    const NAME: &'static str = "tool-write";
    const SUMMARY: &'static str = "The tool `write`: creates and overwrites files.";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Both;
    type Config = WriteConfig;

    fn needs() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Fs>("fs")]
    }

    fn mount(config: WriteConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let fs = mount.need::<dyn Fs>()?;
        mount.add::<dyn AnyTool>(WriteTool::NAME, erase(WriteTool { fs, config }))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteInput {
    /// The file: absolute, or relative to the working directory.
    file_path: String,
    /// The whole new content; may be empty.
    content: String,
}

struct WriteTool {
    fs: Arc<dyn Fs>,
    config: WriteConfig,
}

impl Tool for WriteTool {
    type Input = WriteInput;
    const NAME: &'static str = "write";

    fn description(&self) -> String {
        include_str!("description.md").to_owned()
    }

    fn run(&self, input: WriteInput, ctx: ToolContext) -> BoxFuture<'_, ToolReply> {
        Box::pin(async move {
            let path = input.file_path;
            let place = self.fs.resolve(&ctx.cwd, &path).await.map_err(|e| of_fs(&e))?;
            let before = self.before(&place, &path, &ctx).await?;
            let content = input.content.into_bytes();
            let lines = count_lines(&content);
            if let Some(before) = &before
                && before.bytes == content
            {
                ctx.observations.saw(&before.real, before.hash);
                let text = format!("`{path}` already has exactly this content ({lines}).");
                return Ok(ToolSuccess::text(text).with_meta(&json!({
                    "path": before.real.to_string_lossy(), "operation": "none",
                })));
            }
            let expect = ctx.observations.expect_for_write(&place.real);
            let diff = before_bytes(before.as_ref(), &place)
                .and_then(|old| unified(old, &content, self.config.max_diff_bytes));
            let work = self.fs.replace_at(&place.real, content, expect);
            let replaced = work.await.map_err(|error| of_fs(&error))?;
            ctx.observations.saw(&replaced.real, replaced.hash);
            let (verb, operation) =
                if replaced.created { ("Created", "create") } else { ("Updated", "update") };
            let text = format!("{verb} file `{path}` ({lines}).");
            Ok(ToolSuccess::text(text).with_meta(&json!({
                "path": replaced.real.to_string_lossy(),
                "operation": operation,
                "diff": diff,
            })))
        })
    }
}

impl WriteTool {
    /// The present content, when it is there and small enough to compare.
    async fn before(
        &self,
        place: &Place,
        path: &str,
        ctx: &ToolContext,
    ) -> Result<Option<FileBytes>, ToolFailure> {
        match place.kind {
            None => return Ok(None),
            Some(FileKind::File) if place.size > MAX_BEFORE_BYTES => return Ok(None),
            Some(FileKind::File) => {}
            Some(FileKind::Directory | FileKind::Special) => {
                // The refusal names what is there.
                let read = self.fs.read(&ctx.cwd, path, MAX_BEFORE_BYTES).await;
                return read.map(Some).map_err(|error| of_fs(&error));
            }
        }
        // What cannot be read may still be written: the basis of a difference is not needed.
        Ok(self.fs.read(&ctx.cwd, path, MAX_BEFORE_BYTES).await.ok())
    }
}

fn before_bytes<'a>(before: Option<&'a FileBytes>, place: &Place) -> Option<&'a [u8]> {
    match (before, place.kind) {
        (Some(file), _) => Some(&file.bytes),
        (None, None) => Some(&[]),
        (None, Some(_)) => None,
    }
}

fn count_lines(content: &[u8]) -> String {
    let ends = memchr::memchr_iter(b'\n', content).count();
    let open = usize::from(content.last().is_some_and(|last| *last != b'\n'));
    format!("{}, {}", count(ends + open, "line", "lines"), count(content.len(), "byte", "bytes"))
}
