//! Tools.

use std::sync::Arc;

use reins_agent::{AgentFactory, AnyTool, TurnLimits};
use reins_kernel::Origin;
use reins_schema::ToolSchema;

use super::{Explain, FieldFacts, RowFacts};

/// Fields of the row that drives agents which hold for every call.
const CAPS: [&str; 3] = ["parallel_tools", "cancel_grace_ms", "max_result_bytes"];

/// A tool that some scope holds.
#[derive(Clone, Debug)]
pub struct ToolFacts {
    /// What the model calls it by.
    pub name: Arc<str>,
    /// Where it stands.
    pub place: ToolPlace,
    /// What it takes the place of, the nearest first.
    pub shadows: Vec<ToolPlace>,
    /// Who hides it from agents of this preset.
    pub hidden_by: Option<Origin>,
}

/// One tool of a name.
#[derive(Clone, Debug)]
pub struct ToolPlace {
    /// The row that put it there.
    pub origin: Origin,
    /// Name of the scope that holds it.
    pub scope: Arc<str>,
    /// What the model is told of it.
    pub schema: ToolSchema,
}

impl Explain {
    /// Every tool by name, the hidden ones, too.
    pub fn tools(&self) -> Vec<ToolFacts> {
        self.names::<dyn AnyTool>().iter().filter_map(|name| self.tool(name)).collect()
    }

    /// The tool of this name; one that is hidden, too.
    pub fn tool(&self, name: &str) -> Option<ToolFacts> {
        let mut places = self.held::<dyn AnyTool>(name).into_iter().map(|entry| {
            let place = ToolPlace {
                origin: entry.origin,
                scope: entry.scope,
                schema: entry.value.schema().clone(),
            };
            (entry.name, place)
        });
        let (name, place) = places.next()?;
        let hidden_by = self.scope().hidden_by::<dyn AnyTool>(&name);
        let shadows = places.map(|(_, place)| place).collect();
        Some(ToolFacts { name, place, shadows, hidden_by })
    }

    /// What holds for the calls of a turn: the limits of the turn, and the caps of a call.
    pub fn limits(&self) -> Vec<(RowFacts, Vec<FieldFacts>)> {
        let of_turn = self.scope().service_origin::<TurnLimits>();
        let of_turn = of_turn.and_then(|origin| self.row_of(&origin));
        let of_turn = of_turn.map(|row| (self.fields(&row), row));
        let of_call = self.scope().service_origin::<dyn AgentFactory>();
        let of_call = of_call.and_then(|origin| self.row_of(&origin)).map(|row| {
            let mut fields = self.fields(&row);
            fields.retain(|field| CAPS.contains(&field.path.as_str()));
            (fields, row)
        });
        of_turn.into_iter().chain(of_call).map(|(fields, row)| (row, fields)).collect()
    }
}
