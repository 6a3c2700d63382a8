//! The crate from outside: providers over a scripted end point.

mod provider;
mod send;
mod world;
