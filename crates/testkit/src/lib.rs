//! What tests need and the product does not: a strict model server with faults, a runner of the
//! binary, readable transcripts. See README.md for the map.

mod act;
mod bin;
mod conformance;
mod fault;
mod needs;
mod processes;
mod rebuild;
mod strict;
mod transcript;

pub use act::{Acts, script};
pub use bin::{Bin, BinError, Finished, Running};
pub use conformance::{Keeps, store_conformance};
pub use fault::{At, FAULT_KEYS, Fault};
pub use needs::{NeedsError, have, needs, needs_condition};
pub use processes::processes_with_marker;
pub use rebuild::{RebuildError, RebuiltRequest, rebuild_requests};
pub use strict::{StrictOptions, StrictServer, Violation, Watch};
pub use transcript::{Transcript, TranscriptError, read_events};
