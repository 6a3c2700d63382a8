//! From a typed tool to one that registries hold.

mod check;
mod schema;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use reins_kernel::BoxFuture;
use reins_schema::ToolSchema;
use serde_json::Value;

use crate::tool::{AnyTool, Tool, ToolContext, ToolEffect, ToolFailure, ToolReply};

/// Erases a tool's types. Its parameters become a JSON Schema that every provider takes, and
/// arguments are checked against it: unknown keys are refused at every depth.
pub fn erase<T: Tool>(tool: T) -> Arc<dyn AnyTool> {
    let (parameters, text) = schema::of::<T::Input>();
    let schema = ToolSchema {
        name: T::NAME.to_owned(),
        description: tool.description().trim().to_owned(),
        parameters: text,
    };
    Arc::new(Erased { tool, schema, parameters })
}

struct Erased<T> {
    tool: T,
    schema: ToolSchema,
    parameters: Value,
}

impl<T: Tool> Erased<T> {
    fn read(&self, arguments: &Value) -> Result<T::Input, ToolFailure> {
        check::read(arguments, &self.parameters).map_err(|problem| {
            ToolFailure::new("INVALID_ARGS", format!("`{}`: {problem}", T::NAME))
        })
    }
}

impl<T: Tool> AnyTool for Erased<T> {
    fn schema(&self) -> &ToolSchema {
        &self.schema
    }

    fn check(&self, arguments: &Value) -> Result<ToolEffect, ToolFailure> {
        Ok(self.tool.effect(&self.read(arguments)?))
    }

    fn call(self: Arc<Self>, arguments: Value, ctx: ToolContext) -> BoxFuture<'static, ToolReply> {
        Box::pin(async move {
            let input = self.read(&arguments)?;
            self.tool.run(input, ctx).await
        })
    }
}
