//! `read`: a window of a text file as numbered lines.

mod bytes;
mod page;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::sync::Arc;

use reins_agent::{
    AnyTool, Tool, ToolContext, ToolEffect, ToolFailure, ToolReply, ToolSuccess, erase,
};
use reins_kernel::{BoxFuture, Mount, MountError, Places, Plugin, PluginDef, Reload, ServiceKey};
use reins_world::{Fs, FsError, LineWindow, Lines};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::failure::{INVALID_ARGS, of_fs, until_cancelled};
use page::Page;

/// The tool's plugin.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<ReadPlugin>();

/// Larger files that are not UTF-8 are refused.
const MAX_OTHER_ENCODING_BYTES: u64 = 10 << 20;

/// Limits of `read`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct ReadConfig {
    /// Lines of one answer at most.
    #[schemars(range(min = 1))]
    max_lines: u64,
    /// Bytes of one answer at most, with line numbers; at least `max_line_bytes`.
    max_bytes: usize,
    /// Bytes shown of one line at most, unless the call asks for a column.
    #[schemars(range(min = 16))]
    max_line_bytes: usize,
}

impl Default for ReadConfig {
    fn default() -> Self {
        Self { max_lines: 2000, max_bytes: 48_000, max_line_bytes: 2000 }
    }
}

struct ReadPlugin;

impl Plugin for ReadPlugin {
    const NAME: &'static str = "tool-read";
    const SUMMARY: &'static str = "The tool `read`: shows text files.";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Both;
    type Config = ReadConfig;

    fn needs() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Fs>("fs")]
    }

    fn mount(config: ReadConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        if config.max_lines == 0 {
            return Err(MountError::new("must be at least 1").at("max_lines"));
        }
        // A window always has room for one line, or reading would never get on.
        if config.max_line_bytes < 16 || config.max_bytes < config.max_line_bytes {
            let problem = "must be at least 16 and at most `max_bytes`";
            return Err(MountError::new(problem).at("max_line_bytes"));
        }
        let fs = mount.need::<dyn Fs>()?;
        mount.add::<dyn AnyTool>(ReadTool::NAME, erase(ReadTool { fs, config }))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadInput {
    /// The file: absolute, or relative to the working directory.
    file_path: String,
    /// First line to show, from 1.
    offset: Option<NonZeroU64>,
    /// How many lines.
    limit: Option<NonZeroU64>,
    /// For a line that was cut: the column that the cut names. Shows only that line.
    column: Option<u64>,
}

struct ReadTool {
    fs: Arc<dyn Fs>,
    config: ReadConfig,
}

impl Tool for ReadTool {
    type Input = ReadInput;
    const NAME: &'static str = "read";

    fn description(&self) -> String {
        include_str!("description.md").replace("{most}", &self.config.max_lines.to_string())
    }

    fn effect(&self, _input: &ReadInput) -> ToolEffect {
        ToolEffect::ReadOnly
    }

    fn run(&self, input: ReadInput, ctx: ToolContext) -> BoxFuture<'_, ToolReply> {
        Box::pin(async move {
            let page = self.page(&input)?;
            let window = page.window;
            let work = self.fs.read_lines(&ctx.cwd, &input.file_path, window);
            let (mut lines, replaced) = match until_cancelled(&ctx.cancel, work).await? {
                Ok(lines) => (lines, 0),
                Err(error @ FsError::NotText { .. }) => {
                    let work = self.other_encoding(&input.file_path, &ctx, window, error);
                    until_cancelled(&ctx.cancel, work).await??
                }
                Err(error) => return Err(self.missing(&input.file_path, &ctx, &error).await),
            };
            page.fit(&mut lines);
            let text = page.text(&input.file_path, &lines, replaced)?;
            ctx.observations.saw(&lines.real, lines.hash);
            Ok(ToolSuccess::text(text).with_meta(&json!({
                "path": lines.real.to_string_lossy(),
                "offset": window.first,
                "lines": lines.lines.len(),
                "totalLines": lines.total,
            })))
        })
    }
}

impl ReadTool {
    fn page(&self, input: &ReadInput) -> Result<Page, ToolFailure> {
        let config = &self.config;
        let limit = input.limit.map_or(config.max_lines, NonZeroU64::get);
        if limit > config.max_lines {
            let message = format!(
                "`limit` is {limit}, but one call shows {} lines at most; leave \
                 it out and continue with `offset`",
                config.max_lines
            );
            return Err(ToolFailure::new(INVALID_ARGS, message));
        }
        let skip_bytes = input.column.unwrap_or(0);
        let one_line = input.column.is_some();
        Ok(Page {
            window: LineWindow {
                first: input.offset.map_or(1, NonZeroU64::get),
                count: if one_line { 1 } else { limit },
                max_bytes: config.max_bytes,
                max_line_bytes: if one_line { config.max_bytes } else { config.max_line_bytes },
                skip_bytes,
            },
        })
    }

    /// Text in an older encoding is shown as far as it is ASCII, so that it can be edited.
    async fn other_encoding(
        &self,
        path: &str,
        ctx: &ToolContext,
        window: LineWindow,
        refusal: FsError,
    ) -> Result<(Lines, usize), ToolFailure> {
        let file = match self.fs.read(&ctx.cwd, path, MAX_OTHER_ENCODING_BYTES).await {
            Ok(file) if memchr::memchr(0, &file.bytes).is_none() => file,
            Ok(_) => {
                let failure = of_fs(&refusal);
                let message = format!("{failure}; it is binary, look at it with `bash`");
                return Err(ToolFailure::new(failure.code, message));
            }
            Err(error) => return Err(of_fs(&error)),
        };
        Ok(bytes::lines(file, window))
    }

    async fn missing(&self, path: &str, ctx: &ToolContext, error: &FsError) -> ToolFailure {
        if matches!(error, FsError::NotFound { .. })
            && let Ok(place) = self.fs.resolve(&ctx.cwd, path).await
            && place.kind.is_none()
        {
            ctx.observations.saw_absent(&place.real);
        }
        of_fs(error)
    }
}
