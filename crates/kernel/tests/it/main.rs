//! Tests of the kernel through its public face.

mod chains;
mod plugins;
mod scopes;
