pub use reins_session::{Fold, KnownTypes};
