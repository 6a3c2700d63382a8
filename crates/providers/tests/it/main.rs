//! The crate from outside: providers over a scripted end point.

mod provider;
mod rows;
mod send;
mod surface;
mod world;
