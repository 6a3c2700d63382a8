//! Sessions as folders: a log of JSON lines in plain and sealed segments, and what belongs to it.

mod active;
mod disk;
mod durable;
pub(crate) mod files;
mod folder;
mod held;
pub(crate) mod lease;
mod medium;
mod segment;

pub use disk::{Disk, RealDisk};
pub use files::check_home;
pub(crate) use medium::JsonlMedium;

/// How the folder of a session begins while it is being made; its id and our process id follow.
const HIDDEN: &str = ".new-";
