//! Stands in until `reins-session` exports its fold.

use reins_schema::{Event, Header};

/// Event types.
#[derive(Clone, Debug, Default)]
pub struct KnownTypes;

/// Checks the order.
#[derive(Debug)]
pub struct Fold {
    next_seq: u64,
}

impl Fold {
    /// Empty.
    pub fn new(_: Header, _: KnownTypes) -> Self {
        Self { next_seq: 0 }
    }

    /// Next event.
    pub fn apply(&mut self, event: &Event) -> Result<(), String> {
        if event.seq != self.next_seq {
            return Err(format!("event {} is due", self.next_seq));
        }
        self.next_seq += 1;
        Ok(())
    }

    /// The next number.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }
}
