//! What a plugin does its contributing through.

use std::any::TypeId;
use std::error::Error;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{PluginDef, ServiceKey};
use crate::{Chain, Next, Notice, Origin, Registration, Scope};

type StopFn = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

/// What one row has contributed.
#[derive(Default)]
pub(crate) struct Mounted {
    registrations: Vec<Registration>,
    stops: Vec<StopFn>,
}

impl Mounted {
    /// Takes the contributions out, last first.
    pub(crate) fn withdraw(&mut self) {
        while let Some(registration) = self.registrations.pop() {
            drop(registration);
        }
    }

    /// The work to await after `withdraw`, last registered first.
    pub(crate) fn take_stops(&mut self) -> impl Iterator<Item = StopFn> + Send + use<> {
        std::mem::take(&mut self.stops).into_iter().rev()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.withdraw();
    }
}

/// The hands of a row while it mounts. Its contributions live in the scope of its kind of row as
/// long as the row is mounted.
pub struct Mount<'a> {
    scope: &'a Scope,
    origin: &'a Origin,
    plugin: &'a PluginDef,
    mounted: &'a mut Mounted,
}

impl<'a> Mount<'a> {
    pub(crate) fn new(
        scope: &'a Scope,
        origin: &'a Origin,
        plugin: &'a PluginDef,
        mounted: &'a mut Mounted,
    ) -> Self {
        Self { scope, origin, plugin, mounted }
    }

    /// The scope in which the row mounts. Entries of other rows are read from it later, at use:
    /// while mounting, only the declared services are sure to be there.
    pub fn scope(&self) -> &Scope {
        self.scope
    }

    /// The row's id.
    pub fn row(&self) -> &str {
        &self.origin.row
    }

    /// The row's origin, for contributions that come later, from running code.
    pub fn origin(&self) -> &Origin {
        self.origin
    }

    /// Provides a service.
    ///
    /// # Errors
    /// Another row provides it, or the plugin does not list it in `provides`.
    pub fn provide<S: ?Sized + Send + Sync + 'static>(
        &mut self,
        service: Arc<S>,
    ) -> Result<(), MountError> {
        self.declared::<S>((self.plugin.provides)(), "provides")?;
        let registration = self.scope.provide(service, self.origin)?;
        self.mounted.registrations.push(registration);
        Ok(())
    }

    /// A service that the plugin lists in `needs`.
    ///
    /// # Errors
    /// It is not there, or not listed.
    pub fn need<S: ?Sized + Send + Sync + 'static>(&self) -> Result<Arc<S>, MountError> {
        self.declared::<S>((self.plugin.needs)(), "needs")?;
        Ok(self.scope.need()?)
    }

    /// A service that the plugin lists in `wants`, when a row provides it.
    ///
    /// # Errors
    /// It is not listed.
    pub fn want<S: ?Sized + Send + Sync + 'static>(&self) -> Result<Option<Arc<S>>, MountError> {
        self.declared::<S>((self.plugin.wants)(), "wants")?;
        Ok(self.scope.service())
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// Another row added an entry of this type and name.
    pub fn add<E: ?Sized + Send + Sync + 'static>(
        &mut self,
        name: &str,
        entry: Arc<E>,
    ) -> Result<(), MountError> {
        let added = self.scope.add(name, entry, self.origin);
        let registration = added.map_err(|conflict| MountError::new(conflict.of_rows()))?;
        self.mounted.registrations.push(registration);
        Ok(())
    }

    /// Observes a notice. See [`Scope::observe`].
    pub fn observe<N: Notice>(&mut self, observer: impl Fn(&N) + Send + Sync + 'static) {
        let registration = self.scope.observe(observer, self.origin);
        self.mounted.registrations.push(registration);
    }

    /// Wraps a chain. See [`Scope::wrap`].
    pub fn wrap<C: Chain>(
        &mut self,
        order: i32,
        layer: impl Fn(C, Next<C>) -> BoxFuture<'static, C::Out> + Send + Sync + 'static,
    ) {
        let registration = self.scope.wrap(order, layer, self.origin);
        self.mounted.registrations.push(registration);
    }

    /// Filters the entries of a type that the scope of this row inherits. See [`Scope::restrict`].
    pub fn restrict<E: ?Sized + Send + Sync + 'static>(
        &mut self,
        admits: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) {
        let registration = self.scope.restrict::<E>(admits, self.origin);
        self.mounted.registrations.push(registration);
    }

    /// Awaited when the row stops, after all its contributions were withdrawn: the place to end
    /// the work in flight. Bound the wait yourself.
    pub fn on_stop(&mut self, stop: impl FnOnce() -> BoxFuture<'static, ()> + Send + 'static) {
        self.mounted.stops.push(Box::new(stop));
    }

    /// Mount order is made from the declarations, so using what is not declared would work or
    /// not by luck.
    fn declared<S: ?Sized + 'static>(
        &self,
        keys: Vec<ServiceKey>,
        list: &'static str,
    ) -> Result<(), MountError> {
        if keys.iter().any(|key| key.type_id() == TypeId::of::<S>()) {
            return Ok(());
        }
        let (plugin, service) = (self.plugin.name, std::any::type_name::<S>());
        Err(MountError::new(format!(
            "plugin `{plugin}` does not list `{service}` in `{list}()`; add it there"
        )))
    }
}

/// Why a row cannot be mounted. Every error converts into it with `?`.
#[derive(Debug)]
pub struct MountError {
    pub(crate) field: Option<String>,
    pub(crate) message: String,
}

impl MountError {
    /// An error with this text.
    pub fn new(message: impl fmt::Display) -> Self {
        Self { field: None, message: message.to_string() }
    }

    /// Names the field of `config` that is to blame, as a path such as `retry.codes[2]`.
    #[must_use]
    pub fn at(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into()).filter(|field| !field.is_empty());
        self
    }
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

// `MountError` itself is no `Error`, so that this can cover all errors.
impl<E: Error + Send + Sync + 'static> From<E> for MountError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            source = cause.source();
        }
        Self::new(message)
    }
}
