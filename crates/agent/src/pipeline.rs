//! What happens to one call between the model's words and the result it reads.

use std::sync::Arc;
use std::time::Duration;

use reins_kernel::Scope;
use reins_schema::{Block, SessionId, ToolCallBlock};
use reins_session::{Op, Prepared, ToolOutcome};
use reins_world::{CancelToken, Clock};
use serde_json::Value;

use crate::approvals::{self, Committer};
use crate::chains::{Execute, Guard, Permission, PostExecute, PreExecute};
use crate::contain::contain;
use crate::content::cap_content;
use crate::tool::{AnyTool, ToolContext, ToolEffect, ToolFailure, ToolReply};

/// The tools that an agent took at the start of its turn.
#[derive(Clone, Default)]
pub(crate) struct ToolSet {
    /// Sorted by name.
    pub(crate) tools: Arc<Vec<VisibleTool>>,
}

/// A visible tool and the row that put it there.
#[derive(Clone)]
pub(crate) struct VisibleTool {
    pub(crate) name: String,
    pub(crate) row: String,
    pub(crate) tool: Arc<dyn AnyTool>,
}

impl ToolSet {
    /// What is visible from `scope` now.
    pub(crate) fn take(scope: &Scope) -> Self {
        let entries = scope.entries::<dyn AnyTool>().into_iter();
        let tools = entries.map(|entry| VisibleTool {
            name: entry.name.to_string(),
            row: entry.origin.row.to_string(),
            tool: entry.value,
        });
        Self { tools: Arc::new(tools.collect()) }
    }

    fn find(&self, name: &str) -> Option<&Arc<dyn AnyTool>> {
        let at = self.tools.binary_search_by(|tool| tool.name.as_str().cmp(name)).ok()?;
        self.tools.get(at).map(|visible| &visible.tool)
    }
}

/// A call that may start.
pub(crate) struct ReadyCall {
    pub(crate) tool: Arc<dyn AnyTool>,
    pub(crate) arguments: Value,
}

/// What preparation needs.
pub(crate) struct Preparation {
    pub(crate) op: Op,
    pub(crate) scope: Scope,
    pub(crate) tools: ToolSet,
    pub(crate) session: SessionId,
    pub(crate) cwd: std::path::PathBuf,
    pub(crate) call: ToolCallBlock,
    pub(crate) alone: bool,
    pub(crate) committer: Committer,
}

/// Validates a call and asks chain, people and guards.
pub(crate) async fn prepare(of: Preparation) -> (Prepared, Option<ReadyCall>) {
    match judge(&of).await {
        Ok(Judged::NeedsAlone) => (Prepared::NeedsAlone, None),
        Ok(Judged::Ready(ready, effect)) => {
            let run = Prepared::Run {
                parallel: effect != ToolEffect::Exclusive,
                read_only: effect == ToolEffect::ReadOnly,
            };
            (run, Some(ready))
        }
        Err(failure) => (Prepared::Refused(Box::new(failed(&failure))), None),
    }
}

enum Judged {
    NeedsAlone,
    Ready(ReadyCall, ToolEffect),
}

async fn judge(of: &Preparation) -> Result<Judged, ToolFailure> {
    let arguments = parse_arguments(&of.call.arguments)?;
    let tool = of.tools.find(&of.call.name).ok_or_else(|| unknown(&of.tools, &of.call.name))?;
    let effect = tool.check(&arguments)?;
    if effect == ToolEffect::Exclusive && !of.alone {
        return Ok(Judged::NeedsAlone);
    }
    let question = PreExecute {
        session: of.session.clone(),
        call_id: of.call.id.clone(),
        tool: of.call.name.clone(),
        arguments: arguments.clone(),
        effect,
        cwd: of.cwd.clone(),
    };
    let chain = of.scope.run(question.clone(), |_| Box::pin(async { Permission::Allow }));
    match contained("a pre-execute layer", chain).await? {
        Permission::Allow => {}
        Permission::Deny { reason } => return Err(ToolFailure::new("DENIED", reason)),
        Permission::Ask { reason } => {
            approvals::ask(of, question.clone(), reason).await?;
        }
    }
    for guard in of.scope.entries::<dyn Guard>() {
        if let Some(reason) = guard.value.refuses(&question) {
            return Err(ToolFailure::new("DENIED", reason));
        }
    }
    Ok(Judged::Ready(ReadyCall { tool: tool.clone(), arguments }, effect))
}

/// Empty text counts as no arguments; everything else must be JSON.
fn parse_arguments(text: &str) -> Result<Value, ToolFailure> {
    if text.trim().is_empty() {
        return Ok(Value::Object(serde_json::Map::new()));
    }
    serde_json::from_str(text).map_err(|e| {
        let near = text.lines().nth(e.line().saturating_sub(1)).unwrap_or_default();
        // The column counts bytes.
        let from = near.floor_char_boundary(e.column().saturating_sub(20));
        let near: String = near[from..].chars().take(40).collect();
        ToolFailure::new(
            "INVALID_ARGS",
            format!(
                "the arguments are not valid JSON ({e}), near `{near}`. Nothing was run. Send the \
                 call again with complete, valid JSON."
            ),
        )
    })
}

fn unknown(tools: &ToolSet, name: &str) -> ToolFailure {
    let names: Vec<&str> = tools.tools.iter().map(|tool| tool.name.as_str()).collect();
    let message = if names.is_empty() {
        format!("there is no tool `{name}`; no tools are available")
    } else {
        format!("there is no tool `{name}`. The tools are: {}.", names.join(", "))
    };
    ToolFailure::new("UNKNOWN_TOOL", message)
}

/// What a body needs besides its context.
pub(crate) struct Execution {
    pub(crate) name: String,
    pub(crate) ready: ReadyCall,
    pub(crate) ctx: ToolContext,
    pub(crate) clock: Arc<dyn Clock>,
    /// How long a cancelled body may take to end.
    pub(crate) grace: Duration,
    /// Text that enters the context, in bytes.
    pub(crate) max_bytes: usize,
}

/// Runs a body through its chains and caps what it says.
pub(crate) async fn execute(of: Execution) -> ToolOutcome {
    let (ctx, name) = (of.ctx.clone(), of.name.clone());
    let scope = ctx.scope.clone();
    let event = Execute { tool: of.name, arguments: of.ready.arguments, ctx: of.ctx };
    let tool = of.ready.tool;
    let body = scope.run(event, move |event: Execute| tool.call(event.arguments, event.ctx));
    let reply = tokio::select! {
        reply = contained("the tool", body) => reply.and_then(|reply| reply),
        () = grace_over(&ctx.cancel, of.clock, of.grace) => Err(ToolFailure::new(
            "ABORTED",
            "the call was cancelled and did not end in time; its effects are unknown",
        )),
    };
    let event = PostExecute {
        session: ctx.session.clone(),
        call_id: ctx.call_id.clone(),
        tool: name,
        reply,
    };
    let chain = scope.run(event, |event: PostExecute| Box::pin(async move { event.reply }));
    let reply = contained("a post-execute layer", chain).await.and_then(|reply| reply);
    let reply = if ctx.cancel.is_cancelled() { aborted(reply) } else { reply };
    match reply {
        Ok(success) => ToolOutcome {
            content: cap_content(success.content, of.max_bytes),
            is_error: false,
            error: None,
            meta: success.meta,
            contexts: success.contexts,
            concludes: success.concludes,
        },
        Err(failure) => {
            let mut outcome = failed(&failure);
            outcome.content = cap_content(outcome.content, of.max_bytes);
            outcome
        }
    }
}

/// A success that arrives after a cancel is no success for the model; failures keep their words.
fn aborted(reply: ToolReply) -> ToolReply {
    let success = reply?;
    let text: String = success
        .content
        .iter()
        .filter_map(|block| match block {
            Block::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    Err(ToolFailure::new("ABORTED", format!("the call was cancelled. It had said:\n{text}")))
}

async fn grace_over(cancel: &CancelToken, clock: Arc<dyn Clock>, grace: Duration) {
    cancel.cancelled().await;
    clock.sleep(grace).await;
}

/// A panic in foreign code becomes a failed result; the turn goes on.
async fn contained<T>(who: &str, work: impl Future<Output = T> + Send) -> Result<T, ToolFailure> {
    let contained = contain(work).await;
    contained.map_err(|words| ToolFailure::new("INTERNAL", format!("{who} panicked: {words}")))
}

pub(crate) fn failed(failure: &ToolFailure) -> ToolOutcome {
    ToolOutcome {
        content: vec![Block::Text(format!("Error: {}", failure.message))],
        is_error: true,
        error: Some(failure.error()),
        meta: None,
        contexts: Vec::new(),
        concludes: false,
    }
}

#[cfg(test)]
mod tests {
    use super::parse_arguments;

    #[test]
    fn the_place_of_a_mistake_is_shown_behind_long_characters() {
        let text =
            format!("{{\"a\": \"{}\",\n\"读\": \"{}\", wrong}}", "x".repeat(50), "读".repeat(50));
        let message = parse_arguments(&text).unwrap_err().message;
        assert!(message.contains("读读\", wrong}`"), "{message}");
        let message = parse_arguments("{\"a\": nul").unwrap_err().message;
        assert!(message.contains("near `{\"a\": nul`"), "{message}");
    }
}
