//! `glob`: files by name.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reins_agent::{
    AnyTool, Tool, ToolContext, ToolEffect, ToolFailure, ToolReply, ToolSuccess, erase,
};
use reins_kernel::{BoxFuture, Mount, MountError, Places, Plugin, PluginDef, Reload, ServiceKey};
use reins_world::{Fs, GlobHits, GlobQuery, Incomplete};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::cap::{count, head_and_tail};
use crate::failure::{INVALID_ARGS, of_fs, until_cancelled};
use crate::paths::{Start, shown, start};

/// The tool's plugin.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<GlobPlugin>();

const NARROWER: &str = "Give a narrower pattern or path.";

/// Limits of `glob`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct GlobConfig {
    /// Files of one answer at most.
    #[schemars(range(min = 1))]
    max_files: usize,
    /// Milliseconds after which the search stops with what it has.
    time_limit_ms: u64,
    /// Bytes of one answer at most.
    max_output_bytes: usize,
}

impl Default for GlobConfig {
    fn default() -> Self {
        Self { max_files: 100, time_limit_ms: 20_000, max_output_bytes: 48_000 }
    }
}

struct GlobPlugin;

impl Plugin for GlobPlugin {
    const NAME: &'static str = "tool-glob";
    const SUMMARY: &'static str = "The tool `glob`: finds files by name.";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Both;
    type Config = GlobConfig;

    fn needs() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Fs>("fs")]
    }

    fn mount(config: GlobConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        if config.max_files == 0 {
            return Err(MountError::new("must be at least 1").at("max_files"));
        }
        let fs = mount.need::<dyn Fs>()?;
        mount.add::<dyn AnyTool>(GlobTool::NAME, erase(GlobTool { fs, config }))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GlobInput {
    /// For example `**/*.rs` or `src/**/test_*.py`.
    pattern: String,
    /// The folder to search; default: the working directory.
    path: Option<String>,
}

struct GlobTool {
    fs: Arc<dyn Fs>,
    config: GlobConfig,
}

impl Tool for GlobTool {
    type Input = GlobInput;
    const NAME: &'static str = "glob";

    fn description(&self) -> String {
        include_str!("description.md").to_owned()
    }

    fn effect(&self, _input: &GlobInput) -> ToolEffect {
        ToolEffect::ReadOnly
    }

    fn run(&self, input: GlobInput, ctx: ToolContext) -> BoxFuture<'_, ToolReply> {
        Box::pin(async move {
            if input.pattern.trim().is_empty() {
                return Err(ToolFailure::new(INVALID_ARGS, "`pattern` is empty; try `**/*`"));
            }
            let Start { root, base } = start(&*self.fs, &ctx, input.path.as_deref()).await?;
            let work = self.fs.glob(GlobQuery {
                pattern: input.pattern,
                root,
                max_files: self.config.max_files,
                time_limit: Duration::from_millis(self.config.time_limit_ms),
            });
            let hits = until_cancelled(&ctx.cancel, work).await?.map_err(|e| of_fs(&e))?;
            let text = report(&hits, &base, &self.config);
            Ok(ToolSuccess::text(text).with_meta(&json!({
                "files": hits.files.len(),
                "total": hits.total,
                "incomplete": hits.incomplete.is_some(),
            })))
        })
    }
}

fn report(hits: &GlobHits, base: &Path, config: &GlobConfig) -> String {
    let timed_out = hits.incomplete == Some(Incomplete::TimeLimit);
    let mut notes = Vec::new();
    if timed_out {
        notes.push(format!(
            "(Incomplete: the time limit of {} ms passed. Give a narrower path.)",
            config.time_limit_ms
        ));
    }
    if hits.unreadable > 0 {
        let number = usize::try_from(hits.unreadable).unwrap_or(usize::MAX);
        notes.push(format!("({} could not be read.)", count(number, "folder", "folders")));
    }
    if hits.files.is_empty() {
        let nothing = if timed_out { "No file found so far" } else { "No files found" };
        notes.insert(0, nothing.into());
        return notes.join("\n");
    }
    let shown_count = hits.files.len() as u64;
    if hits.total > shown_count {
        let total = hits.total;
        notes.insert(0, format!("(Showing the newest {shown_count} of {total} files. {NARROWER})"));
    } else if hits.incomplete == Some(Incomplete::CountLimit) {
        notes.insert(0, format!("(Stopped at {shown_count} files. {NARROWER})"));
    }
    let files: Vec<String> = hits.files.iter().map(|file| shown(file, base)).collect();
    let list = head_and_tail(&files.join("\n"), config.max_output_bytes);
    if notes.is_empty() { list } else { format!("{list}\n\n{}", notes.join("\n")) }
}
