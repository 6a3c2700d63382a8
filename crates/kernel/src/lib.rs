//! placeholder
pub use futures_util::future::BoxFuture;
pub struct Scope;
impl Clone for Scope {
    fn clone(&self) -> Self {
        Scope
    }
}
