//! `edit`: replaces text in a file. See `find` for how text is found and `splice` for what changes.

mod find;
mod nearest;
mod plan;
mod splice;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use reins_agent::{AnyTool, Tool, ToolContext, ToolFailure, ToolReply, ToolSuccess, erase};
use reins_kernel::{BoxFuture, Mount, MountError, Places, Plugin, PluginDef, Reload, ServiceKey};
use reins_world::{Expect, FileBytes, Fs, FsError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::cap::count;
use crate::diff::unified;
use crate::failure::{of_fs, until_cancelled};
use find::Rule;
use plan::{Beside, Plan, Wanted, check_strings, name_lines, plan};

/// The tool's plugin.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<EditPlugin>();

/// Limits of `edit`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct EditConfig {
    /// Larger files are refused, in bytes.
    max_file_bytes: u64,
    /// Bytes of the difference that is kept for people at most.
    max_diff_bytes: usize,
    /// Refuse to change a file that the session has not read with `read`. Without it the replaced
    /// text alone must show that the model knows the file.
    require_read: bool,
}

impl Default for EditConfig {
    fn default() -> Self {
        Self { max_file_bytes: 64 << 20, max_diff_bytes: 65_536, require_read: true }
    }
}

struct EditPlugin;

impl Plugin for EditPlugin {
    const NAME: &'static str = "tool-edit";
    const SUMMARY: &'static str = "The tool `edit`: replaces text in files.";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Both;
    type Config = EditConfig;

    fn needs() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Fs>("fs")]
    }

    fn mount(config: EditConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        let fs = mount.need::<dyn Fs>()?;
        mount.add::<dyn AnyTool>(EditTool::NAME, erase(EditTool { fs, config }))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditInput {
    /// The file: absolute, or relative to the working directory.
    file_path: String,
    /// The text to replace, exactly as in the file.
    old_string: String,
    /// The text to put in its place; empty to delete.
    new_string: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
}

struct EditTool {
    fs: Arc<dyn Fs>,
    config: EditConfig,
}

impl Tool for EditTool {
    type Input = EditInput;
    const NAME: &'static str = "edit";

    fn description(&self) -> String {
        let text = match self.beside() {
            Beside::FileTools => include_str!("description.md"),
            Beside::NoFileTools => include_str!("description_alone.md"),
        };
        text.to_owned()
    }

    fn run(&self, input: EditInput, ctx: ToolContext) -> BoxFuture<'_, ToolReply> {
        Box::pin(async move {
            let beside = self.beside();
            check_strings(wanted(&input, beside))?;
            let file =
                until_cancelled(&ctx.cancel, self.observed(&input.file_path, &ctx)).await??;
            let (real, hash) = (file.real.clone(), file.hash);
            let EditConfig { max_file_bytes, max_diff_bytes, .. } = self.config;
            let path = input.file_path.clone();
            // Large files take a while: not on the caller's thread, and nobody waits for the rest
            // after a cancel.
            let cancel = ctx.cancel.clone();
            let work = tokio::task::spawn_blocking(move || {
                let plan =
                    plan(&input.file_path, &file.bytes, wanted(&input, beside), max_file_bytes)?;
                let wanted_still = !cancel.is_cancelled();
                let diff = wanted_still.then(|| unified(&file.bytes, &plan.bytes, max_diff_bytes));
                Ok::<_, ToolFailure>((plan, diff.flatten()))
            });
            let (plan, diff) = until_cancelled(&ctx.cancel, work).await?.map_err(|error| {
                ToolFailure::new("TOOL_FAILED", format!("comparing the text ended early: {error}"))
            })??;
            let text = report(&path, &plan);
            let meta = json!({
                "path": real.to_string_lossy(),
                "replacements": plan.lines.len(),
                "rule": plan.rule.name(),
                "firstLine": plan.lines.first(),
                "diff": diff,
            });
            let replaced = self.fs.replace_at(&real, plan.bytes, Expect::Hash(hash)).await;
            let replaced = replaced.map_err(|error| failure(&error, beside))?;
            ctx.observations.saw(&replaced.real, replaced.hash);
            Ok(ToolSuccess::text(text).with_meta(&meta))
        })
    }
}

impl EditTool {
    /// Who need not read a file has nothing to read it with.
    fn beside(&self) -> Beside {
        if self.config.require_read { Beside::FileTools } else { Beside::NoFileTools }
    }

    /// The file; where reading is required, it must be what the session has read.
    async fn observed(&self, path: &str, ctx: &ToolContext) -> Result<FileBytes, ToolFailure> {
        let file = match self.fs.read(&ctx.cwd, path, self.config.max_file_bytes).await {
            Ok(file) => file,
            Err(error) => return Err(self.unreadable(path, ctx, &error).await),
        };
        if !self.config.require_read {
            return Ok(file);
        }
        match ctx.observations.seen_content(&file.real) {
            Some(hash) if hash == file.hash => Ok(file),
            Some(_) => Err(of_fs(&FsError::Stale { path: path.into() })),
            None => {
                let message = format!("`{path}` has not been read; read it first, then edit");
                Err(ToolFailure::new("FS_NOT_OBSERVED", message))
            }
        }
    }

    async fn unreadable(&self, path: &str, ctx: &ToolContext, error: &FsError) -> ToolFailure {
        let absent = matches!(error, FsError::NotFound { .. });
        if !absent || self.beside() == Beside::NoFileTools {
            return failure(error, self.beside());
        }
        let place = self.fs.resolve(&ctx.cwd, path).await;
        let known = place.is_ok_and(|place| ctx.observations.seen_content(&place.real).is_some());
        let message = if known {
            format!("`{path}` was deleted since it was read; to create it again use `write`")
        } else {
            format!("`{path}` does not exist; check the path with `glob`, or use `write`")
        };
        ToolFailure::new(if known { "FS_STALE_VERSION" } else { error.code() }, message)
    }
}

fn wanted(input: &EditInput, beside: Beside) -> Wanted<'_> {
    Wanted { old: &input.old_string, new: &input.new_string, all: input.replace_all, beside }
}

/// [`of_fs`] with a remedy that can be followed.
fn failure(error: &FsError, beside: Beside) -> ToolFailure {
    let remedy = match error {
        _ if beside == Beside::FileTools => return of_fs(error),
        FsError::NotFound { .. } => "check the path",
        FsError::NotRegular { kind, .. } if kind == "directory" => "give the path of a file",
        FsError::Stale { .. } => "look at it again, then repeat the change on its present content",
        _ => return of_fs(error),
    };
    ToolFailure::new(error.code(), format!("{error}; {remedy}"))
}

fn report(path: &str, plan: &Plan) -> String {
    let places = count(plan.lines.len(), "replacement", "replacements");
    let mut text = format!("Edited `{path}`: {places}, {}.", name_lines(&plan.lines));
    if plan.rule != Rule::Exact {
        text.push_str(&format!(
            " No exact match: found by ignoring differences in {}.",
            plan.rule.name()
        ));
    }
    if plan.wrote_crlf {
        text.push_str(" New line ends were written as CRLF, like those of the file.");
    }
    text
}
