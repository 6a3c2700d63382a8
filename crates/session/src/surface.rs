//! The ordered messages that the model sees now.

use std::sync::Arc;

use reins_schema::Message;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// From `user/message`.
    User,
    /// From `assistant/message`.
    Assistant,
    /// From `tool/result`.
    ToolResult,
}

/// One message of the surface.
#[derive(Clone, Debug)]
pub struct Node {
    /// The event that put it there.
    pub seq: u64,
    /// What it is.
    pub kind: NodeKind,
    /// The message.
    pub message: Arc<Message>,
}

/// The surface.
#[derive(Clone, Debug, Default)]
pub struct Surface {
    nodes: Vec<Node>,
    generation: u64,
}

impl Surface {
    /// In order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Counts replaces: equal generations mean that the older surface is a prefix of the newer.
    pub fn generation(&self) -> u64 {
        self.generation
    }
}
