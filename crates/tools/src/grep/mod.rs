//! `grep`: lines by regular expression.

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reins_agent::{
    AnyTool, Tool, ToolContext, ToolEffect, ToolFailure, ToolReply, ToolSuccess, erase,
};
use reins_kernel::{BoxFuture, Mount, MountError, Places, Plugin, PluginDef, Reload, ServiceKey};
use reins_world::{Fs, Incomplete, SearchHits, SearchQuery};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::cap::{count, head_and_tail};
use crate::failure::{INVALID_ARGS, of_fs, until_cancelled};
use crate::paths::{Start, shown, start};

/// The tool's plugin.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<GrepPlugin>();

/// Skipped files that an answer names.
const MAX_SKIPPED_NAMED: usize = 3;

/// Limits of `grep`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct GrepConfig {
    /// Matching lines of one answer at most.
    #[schemars(range(min = 1))]
    max_matches: usize,
    /// Bytes shown of one line at most.
    max_line_bytes: usize,
    /// Milliseconds after which the search stops with what it has.
    time_limit_ms: u64,
    /// Bytes of one answer at most.
    max_output_bytes: usize,
}

impl Default for GrepConfig {
    fn default() -> Self {
        Self {
            max_matches: 250,
            max_line_bytes: 2000,
            time_limit_ms: 20_000,
            max_output_bytes: 48_000,
        }
    }
}

struct GrepPlugin;

impl Plugin for GrepPlugin {
    const NAME: &'static str = "tool-grep";
    const SUMMARY: &'static str = "The tool `grep`: searches file contents.";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Both;
    type Config = GrepConfig;

    fn needs() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Fs>("fs")]
    }

    fn mount(config: GrepConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        if config.max_matches == 0 {
            return Err(MountError::new("must be at least 1").at("max_matches"));
        }
        let fs = mount.need::<dyn Fs>()?;
        mount.add::<dyn AnyTool>(GrepTool::NAME, erase(GrepTool { fs, config }))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct GrepInput {
    /// The regular expression; `(?i)` in front ignores case.
    pattern: String,
    /// A folder or one file; default: the working directory.
    path: Option<String>,
    /// Only files that match this glob, for example `*.{ts,tsx}`.
    include: Option<String>,
}

struct GrepTool {
    fs: Arc<dyn Fs>,
    config: GrepConfig,
}

impl Tool for GrepTool {
    type Input = GrepInput;
    const NAME: &'static str = "grep";

    fn description(&self) -> String {
        include_str!("description.md").to_owned()
    }

    fn effect(&self, _input: &GrepInput) -> ToolEffect {
        ToolEffect::ReadOnly
    }

    fn run(&self, input: GrepInput, ctx: ToolContext) -> BoxFuture<'_, ToolReply> {
        Box::pin(async move {
            check(&input)?;
            let Start { root, base } = start(&*self.fs, &ctx, input.path.as_deref()).await?;
            let work = self.fs.search(SearchQuery {
                pattern: input.pattern,
                root,
                include: input.include,
                max_matches: self.config.max_matches,
                max_line_bytes: self.config.max_line_bytes,
                time_limit: Duration::from_millis(self.config.time_limit_ms),
            });
            let hits = until_cancelled(&ctx.cancel, work).await?.map_err(|e| of_fs(&e))?;
            let text = report(&hits, &base, &self.config);
            Ok(ToolSuccess::text(text).with_meta(&json!({
                "matches": hits.hits.len(),
                "filesSearched": hits.files,
                "skipped": hits.skipped_total,
                "incomplete": hits.incomplete.is_some(),
            })))
        })
    }
}

fn check(input: &GrepInput) -> Result<(), ToolFailure> {
    let include = input.include.as_deref();
    let problem = if input.pattern.is_empty() {
        "`pattern` is empty; give a regular expression"
    } else if include.is_some_and(|include| include.trim().is_empty()) {
        "`include` is empty; leave it out to search all files"
    } else if include.is_some_and(|include| include.starts_with('!')) {
        "`include` cannot exclude; give a glob of the files to search"
    } else {
        return Ok(());
    };
    Err(ToolFailure::new(INVALID_ARGS, problem))
}

fn report(hits: &SearchHits, base: &Path, config: &GrepConfig) -> String {
    let found = hits.hits.len();
    let mut text = match (hits.incomplete, found) {
        (None, 0) => "No matches found".to_owned(),
        (Some(_), 0) => "No match found so far".to_owned(),
        (Some(Incomplete::CountLimit), _) => {
            format!("Showing the first {}; there may be more", matches(found))
        }
        _ => format!("Found {}", matches(found)),
    };
    text.push('\n');
    text.push_str(&head_and_tail(&groups(hits, base), config.max_output_bytes));
    for note in notes(hits, base, config) {
        let _infallible = write!(text, "\n{note}");
    }
    text.truncate(text.trim_end().len());
    text
}

fn groups(hits: &SearchHits, base: &Path) -> String {
    let mut text = String::new();
    let mut previous = None;
    for hit in &hits.hits {
        if previous != Some(&hit.path) {
            let _infallible = writeln!(text, "\n{}", shown(&hit.path, base));
            previous = Some(&hit.path);
        }
        let _infallible = writeln!(text, "Line {}: {}", hit.line, hit.text);
    }
    text
}

fn notes(hits: &SearchHits, base: &Path, config: &GrepConfig) -> Vec<String> {
    let mut notes = Vec::new();
    match hits.incomplete {
        Some(Incomplete::TimeLimit) => notes.push(format!(
            "(Incomplete: the time limit of {} ms passed after {}. Give a narrower path or \
             include.)",
            config.time_limit_ms,
            count(usize::try_from(hits.files).unwrap_or(usize::MAX), "file", "files"),
        )),
        Some(Incomplete::CountLimit) => {
            notes.push("(Give a narrower pattern, path or include to see the rest.)".into());
        }
        None => {}
    }
    if hits.skipped_total > 0 {
        let named: Vec<String> = hits
            .skipped
            .iter()
            .take(MAX_SKIPPED_NAMED)
            .map(|(path, reason)| format!("{} ({reason})", shown(path, base)))
            .collect();
        let total = usize::try_from(hits.skipped_total).unwrap_or(usize::MAX);
        let more = if total > named.len() { ", …" } else { "" };
        notes.push(format!("(Not searched: {total}: {}{more})", named.join(", ")));
    }
    notes
}

fn matches(number: usize) -> String {
    count(number, "match", "matches")
}
