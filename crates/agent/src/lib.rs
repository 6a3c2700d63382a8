//! The driver of the pure core, and what a tool, a provider and a prompt part are.

mod approvals;
mod attempt;
mod barriers;
mod chains;
mod commands;
mod contain;
mod content;
mod driver;
mod erase;
mod events;
mod factory;
mod handle;
mod held;
mod limits;
mod observations;
mod pipeline;
mod place;
mod prompt;
mod provider;
mod size;
mod tool;

pub use barriers::Barriers;
pub use chains::{
    Approval, ApprovalRequest, CHAINS, ChainInfo, Execute, Guard, LimitQuestion, Permission,
    PostExecute, PreExecute, PreStep, RequestConfig, RequestError, TurnStopping,
};
pub use commands::{
    Arguments, Command, CommandCaller, CommandError, CommandInfo, CommandList, CommandRun,
    CommandSource, OpenQuote, find_command, is_command_name, list_commands,
};
pub use erase::erase;
pub use events::{
    ApprovalAsked, ApprovalDecided, ChangedRow, CompositionChanged, EVENT_TYPES, EventType,
    PresetSelected, SandboxMode, draft,
};
pub use factory::{AgentError, AgentFactory, AgentOrder, PLUGINS, SessionOrder, known_types};
pub use handle::Agent;
pub use limits::turn_limits;
pub use observations::Observations;
pub use place::{Generations, Newer, PresetScope, Setup};
pub use prompt::{
    FactPart, PromptContext, PromptPart, PromptSection, RuntimeFact, fact_parts, facts_text,
    prompt_parts, system_prompt,
};
pub use provider::{
    ModelInfo, Provider, ProviderName, Rendered, Renderer, ResolvedCall, RetryPolicy, StreamPart,
    WireCall, find_provider,
};
pub use reins_session::TurnLimits;
pub use tool::{AnyTool, Tool, ToolContext, ToolEffect, ToolFailure, ToolReply, ToolSuccess};
