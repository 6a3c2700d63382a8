//! placeholder
pub use futures_util::future::BoxFuture;
