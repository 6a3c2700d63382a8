//! Rows: from layer texts to a mounted generation.

mod changes;
mod check;
mod compose;
mod dump;
mod error;
mod fields;
mod generation;
mod layer;
mod nearest;
mod parts;
mod plan;
mod reference;
mod schema;
mod syntax;
mod withheld;
mod written;

pub use changes::RowChange;
pub use compose::{Composition, Row, as_written, compose, compose_nested};
pub use error::{RowError, RowErrorKind, RowWarning};
pub use fields::FieldDoc;
pub use generation::{Generation, Root, RowScope};
pub use layer::{HeadValue, Layer, MAX_LAYER_BYTES};
pub use nearest::nearest;
pub use reference::References;
pub use written::Written;
