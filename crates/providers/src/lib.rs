//! Model back ends: dialects, vendors as data, the script server. See README.md for the map.

mod chat;
mod config;
mod redact;
pub mod script;
mod sse;
mod vendor;

pub use chat::{
    ChatDecoder, ChatProvider, ChatRenderer, DIALECT, EnvLookup, Fault, ProviderServices,
    RENDERER_VERSION, Rules, check_body,
};
use reins_kernel::PluginDef;

pub use config::{ConfigError, ProviderConfig, RetryConfig};
pub use sse::{MAX_EVENT_BYTES, SseDecoder, SseError, SseEvent};
pub use vendor::{
    DoneMark, EffortStyle, Model, Quirks, ReasoningEcho, Unlisted, Vendor, VendorError,
};

/// The plugins of this crate.
pub const PLUGINS: &[PluginDef] = &[chat::PLUGIN];
