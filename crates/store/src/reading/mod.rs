//! Reads logs: bytes of a medium become events with their places, and stretches that are damaged.
//! Reading never writes; what opening would change is a [`Plan`].

mod branches;
mod fold;
mod header;
mod lines;
mod moved;
mod plan;
mod reader;
mod recent;
mod salvage;
mod seek;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use reins_schema::SessionId;

use crate::StoreError;
use crate::medium::Medium;

pub(crate) use fold::{Folded, Start, fold_log};
pub(crate) use header::{StoredHeader, mend_header, read_header};
pub(crate) use moved::last_move;
pub(crate) use reader::{Found, Reader};
pub(crate) use recent::last_events;

/// A session's log on its medium.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) id: SessionId,
    /// For each segment that a fork has in common with its parent, the last number that counts.
    pub(crate) bounds: Vec<u64>,
}

impl Source {
    /// The last number that counts in a segment; `None` when all of it does.
    fn bound(&self, segment: u32) -> Option<u64> {
        self.bounds.get(usize::try_from(segment).unwrap_or(usize::MAX)).copied()
    }

    /// Opens a segment that was listed. `None` when it is not there any more.
    fn segment(&self, number: u32) -> Result<Option<Box<dyn crate::medium::Segment>>, StoreError> {
        // Sealing changes the form of a segment between the list and this call, once.
        let again = |_| self.medium.segment(&self.id, number);
        match self.medium.segment(&self.id, number).or_else(again) {
            Ok(segment) => Ok(Some(segment)),
            Err(error) => {
                let listed = self.medium.segments(&self.id)?;
                if listed.iter().any(|info| info.number == number) { Err(error) } else { Ok(None) }
            }
        }
    }
}

/// Where a record, or a damaged stretch, is in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) segment: u32,
    /// In the segment's plain content.
    pub(crate) offset: u64,
    /// With the line feed, when there is one.
    pub(crate) bytes: u64,
    /// 1-based in the segment; `None` when reading began in the middle.
    pub(crate) line: Option<u64>,
}

impl Place {
    /// The first offset after it.
    fn end(&self) -> u64 {
        self.offset + self.bytes
    }
}
