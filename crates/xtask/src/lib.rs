//! Tidy: the structure of this repository, checked by `cargo test` and by `cargo xtask tidy`.
//!
//! Every rule reads the sources as data: nothing here is compiled or run. What a rule allows is
//! written where people read it: layers in ARCHITECTURE.md, refused words in GLOSSARY.md.

mod finding;
mod layers;
mod leaves;
mod leftovers;
mod limits;
mod paths;
mod reach;
mod source;
mod tidy;
mod words;
mod workspace;

pub use finding::Finding;
pub use tidy::{Report, TidyError, tidy};
