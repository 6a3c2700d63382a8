//! Model back ends: dialects, vendors as data, the script server. See README.md for the map.

pub mod script;
