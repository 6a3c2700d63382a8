//! Model back ends: dialects, vendors as data, the script server. See README.md for the map.

mod sse;

pub use sse::{MAX_EVENT_BYTES, SseDecoder, SseError, SseEvent};
