//! The driver of the pure core, and what a tool, a provider and a prompt part are.

mod observations;
mod provider;
mod tool;

pub use observations::Observations;
pub use provider::{
    ModelInfo, Provider, Rendered, Renderer, ResolvedCall, RetryPolicy, StreamPart, WireCall,
};
pub use tool::{AnyTool, Tool, ToolContext, ToolEffect, ToolFailure, ToolReply, ToolSuccess};
