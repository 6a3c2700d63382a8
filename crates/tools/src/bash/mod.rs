//! `bash`: one command in a fresh shell.

mod output;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};

use reins_agent::{AnyTool, Tool, ToolContext, ToolFailure, ToolReply, ToolSuccess, erase};
use reins_kernel::{BoxFuture, Mount, MountError, Places, Plugin, PluginDef, Reload, ServiceKey};
use reins_world::{CommandEnd, CommandSpec, Process, ProcessError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::failure::{ABORTED, INVALID_ARGS};
use output::Report;

/// The tool's plugin.
pub(crate) const PLUGIN: PluginDef = PluginDef::of::<BashPlugin>();

/// Limits of `bash`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct BashConfig {
    /// Milliseconds a command may take when the call says nothing; at most `max_timeout_ms`.
    #[schemars(range(min = 1))]
    timeout_ms: u64,
    /// Milliseconds a call may ask for at most.
    max_timeout_ms: u64,
    /// Bytes of each stream that are kept while a command runs, first and last half each.
    keep_bytes: usize,
    /// Bytes of output in one answer at most.
    max_output_bytes: usize,
    /// Milliseconds between the polite and the final signal.
    grace_ms: u64,
}

impl Default for BashConfig {
    fn default() -> Self {
        Self {
            timeout_ms: 120_000,
            max_timeout_ms: 600_000,
            keep_bytes: 64_000,
            max_output_bytes: 48_000,
            grace_ms: 3_000,
        }
    }
}

/// One argument is at most this long on Linux, which leaves room for its end.
const MAX_COMMAND_BYTES: usize = 131_071;
const TOO_LONG: &str = "`command` is longer than a command line can be (131071 bytes); put the \
                        data or the script into a file with `write` and use that";

struct BashPlugin;

impl Plugin for BashPlugin {
    const NAME: &'static str = "tool-bash";
    const SUMMARY: &'static str = "The tool `bash`: runs shell commands.";
    const RELOAD: Reload = Reload::Live;
    const PLACES: Places = Places::Both;
    type Config = BashConfig;

    fn needs() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Process>("process")]
    }

    fn mount(config: BashConfig, mount: &mut Mount<'_>) -> Result<(), MountError> {
        if config.timeout_ms == 0 || config.timeout_ms > config.max_timeout_ms {
            let problem = "must be at least 1 and at most `max_timeout_ms`";
            return Err(MountError::new(problem).at("timeout_ms"));
        }
        let process = mount.need::<dyn Process>()?;
        mount.add::<dyn AnyTool>(BashTool::NAME, erase(BashTool { process, config }))
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct BashInput {
    /// The command.
    command: String,
    /// What it does, for people, in 5 to 10 words.
    #[expect(dead_code, reason = "read from the logged arguments by those who show the call")]
    description: String,
    /// Time limit in milliseconds.
    #[schemars(range(min = 1))]
    timeout_ms: Option<u64>,
    /// Where to run it; default: the working directory.
    #[serde(rename = "workdir")]
    cwd: Option<String>,
}

struct BashTool {
    process: Arc<dyn Process>,
    config: BashConfig,
}

impl Tool for BashTool {
    type Input = BashInput;
    const NAME: &'static str = "bash";

    fn description(&self) -> String {
        include_str!("description.md")
            .replace("{limit}", &seconds(self.config.timeout_ms))
            .replace("{most}", &seconds(self.config.max_timeout_ms))
    }

    fn run(&self, input: BashInput, ctx: ToolContext) -> BoxFuture<'_, ToolReply> {
        Box::pin(async move {
            let limit_ms = self.check(&input)?;
            let spec = self.spec(&input, &ctx, limit_ms);
            let begun = Instant::now();
            let run = self.process.run(spec, ctx.cancel.clone());
            let end =
                run.await.map_err(|error| did_not_run(error, self.config.max_output_bytes))?;
            let taken = begun.elapsed();
            let report = Report::new(&end, limit_ms, self.config.max_output_bytes);
            if end.cancelled {
                let message = format!("the call was cancelled; until then:\n{}", report.text);
                return Err(ToolFailure::new(ABORTED, message));
            }
            Ok(ToolSuccess::text(report.text).with_meta(&json!({
                "exitCode": end.code,
                "signal": end.signal,
                "timedOut": end.timed_out,
                "durationMs": u64::try_from(taken.as_millis()).unwrap_or(u64::MAX),
                "truncated": report.truncated,
            })))
        })
    }
}

impl BashTool {
    /// The time limit that holds, in milliseconds.
    fn check(&self, input: &BashInput) -> Result<u64, ToolFailure> {
        let problem = if input.command.trim().is_empty() {
            "`command` is empty; give a shell command"
        } else if input.command.contains('\0') {
            "`command` holds a NUL character, which no command line can"
        } else if input.command.len() > MAX_COMMAND_BYTES {
            TOO_LONG
        } else if input.timeout_ms == Some(0) {
            "`timeoutMs` is 0; give at least 1, or leave it out"
        } else {
            let asked = input.timeout_ms.unwrap_or(self.config.timeout_ms);
            return Ok(asked.min(self.config.max_timeout_ms));
        };
        Err(ToolFailure::new(INVALID_ARGS, problem))
    }

    fn spec(&self, input: &BashInput, ctx: &ToolContext, limit_ms: u64) -> CommandSpec {
        // Nothing that waits for a key or paints: there is no terminal.
        let own = [
            ("NO_COLOR", "1"),
            ("TERM", "dumb"),
            ("PAGER", "cat"),
            ("GIT_PAGER", "cat"),
            ("REINS_SESSION_ID", ctx.session.as_str()),
        ];
        let mut env = self.process.child_env();
        env.retain(|(name, _)| own.iter().all(|(key, _)| name != key));
        env.extend(own.map(|(key, value)| (OsString::from(key), OsString::from(value))));
        let cwd = input.cwd.as_deref().filter(|cwd| !cwd.trim().is_empty());
        CommandSpec {
            argv: ["bash", "-c", &input.command].map(OsString::from).to_vec(),
            cwd: cwd.map_or_else(|| ctx.cwd.clone(), |cwd| ctx.cwd.join(cwd)),
            env,
            time_limit: Duration::from_millis(limit_ms),
            grace: Duration::from_millis(self.config.grace_ms),
            keep_bytes: self.config.keep_bytes,
        }
    }
}

fn seconds(ms: u64) -> String {
    Duration::from_millis(ms).as_secs_f64().to_string()
}

fn did_not_run(error: ProcessError, max_bytes: usize) -> ToolFailure {
    let (code, remedy) = match &error {
        // Of the environment, for the command itself was measured before.
        ProcessError::Program { problem, .. } if problem.contains("exceed") => {
            ("PROCESS_FAILED", "; most of it is the environment of the harness")
        }
        ProcessError::Program { .. } => {
            ("SHELL_NOT_FOUND", "; commands need `bash` on the PATH, so none can run here")
        }
        ProcessError::Cwd { problem, .. } if problem == "Permission denied" => {
            ("FS_PERMISSION_DENIED", "; give a folder that may be entered as `workdir`")
        }
        ProcessError::Cwd { .. } => ("FS_NOT_DIRECTORY", "; give an existing folder as `workdir`"),
        _ => ("PROCESS_FAILED", ""),
    };
    let mut message = format!("{error}{remedy}");
    if let ProcessError::Lost { stdout, stderr, .. } = error {
        let end = CommandEnd {
            code: None,
            signal: None,
            timed_out: false,
            cancelled: false,
            stdout: *stdout,
            stderr: *stderr,
            survivors: 0,
        };
        message.push_str("; until then:\n");
        message.push_str(&Report::new(&end, 0, max_bytes).text);
    }
    ToolFailure::new(code, message)
}
