//! A strict chat checker over the surface, as a provider would apply it.

use std::collections::HashSet;

use reins_schema::{Block, Role};
use reins_session::{Fold, NodeKind};

/// Whether the surface could be sent now.
pub(crate) fn strict_chat(fold: &Fold) -> Result<(), String> {
    let mut owed: Vec<String> = Vec::new();
    let mut seen = HashSet::new();
    for node in fold.surface().nodes() {
        let message = &node.message;
        if message.content.is_empty() {
            return Err(format!("event {} is empty", node.seq));
        }
        let result = match message.content.as_slice() {
            [Block::ToolResult(result)] => Some(result.tool_call_id.to_string()),
            _ => None,
        };
        match (node.kind, result) {
            (NodeKind::ToolResult, Some(id)) => {
                if owed.first() != Some(&id) {
                    return Err(format!("result of {id} at {}, owed {owed:?}", node.seq));
                }
                owed.remove(0);
                continue;
            }
            (NodeKind::ToolResult, None) => return Err("a result without block".to_owned()),
            (_, _) if !owed.is_empty() => return Err(format!("{owed:?} have no result")),
            _ => {}
        }
        let role = if node.kind == NodeKind::Assistant { Role::Assistant } else { Role::User };
        if message.role != role || !seen.insert(message.id.clone()) {
            return Err(format!("event {}: wrong role, or a message twice", node.seq));
        }
        owed = message.calls().map(|call| call.id.to_string()).collect();
        let distinct: HashSet<_> = owed.iter().collect();
        if distinct.len() != owed.len() {
            return Err(format!("event {} repeats a call id", node.seq));
        }
    }
    if !owed.is_empty() {
        return Err(format!("{owed:?} have no result"));
    }
    match fold.surface().nodes().last().map(|node| node.kind) {
        None | Some(NodeKind::Assistant) => Err("nothing asks the model".to_owned()),
        Some(NodeKind::User | NodeKind::ToolResult) => Ok(()),
    }
}
