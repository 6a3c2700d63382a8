//! The command line of Reins: arguments, profiles, process roles, exit codes. A binary with plugins
//! of its own calls [`main`] with [`Additions`].

mod args;
mod catalog;
mod config;
mod debug;
mod demo;
mod entry;
mod exit;
mod explain;
mod home;
mod layers;
mod reference;
mod run;
mod scripted;
mod session;
mod signals;
mod start;
mod terminal;
mod workspace;

pub use entry::{Additions, main};
pub use layers::Files;
