//! Live agents of a process, and the one API that every front end uses.

mod default_model;
mod open;
mod run;
mod view;

pub use default_model::{DefaultModel, PLUGIN};
pub use open::{Host, HostError, OpenOrder, Opened, SessionChoice};
pub use run::{Denied, RunEnd, RunOrder, RunOutcome, run};
pub use view::{SessionView, ViewError};
