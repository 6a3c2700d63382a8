//! Building, and stopping what was built.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::check::redact;
use super::compose::{Composition, Row};
use super::error::RowError;
use super::plan::mount_order;
use crate::plugin::{Mount, MountError, Mounted, PluginDef};
use crate::scope::panic_text;
use crate::{Catalog, Conflict, ContainedWhere, Origin, Registration, Scope};

/// A built root scope. It is never rebuilt in place.
///
/// Dropping it withdraws every contribution but awaits nothing; [`Generation::stop`] does both.
pub struct Generation {
    /// Its number.
    pub number: u64,
    /// The root scope, in which all rows are mounted.
    pub scope: Scope,
    /// What it was built from, the disabled rows too.
    pub rows: Vec<Row>,
    mounted: Stack,
    // After the rows: they may use it to their end.
    _given: Vec<Registration>,
}

impl std::fmt::Debug for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Generation({}, {} rows)", self.number, self.rows.len())
    }
}

/// A root scope before any row is mounted, with what only the process itself can provide.
pub struct Root {
    scope: Scope,
    given: Vec<Registration>,
}

impl Default for Root {
    fn default() -> Self {
        Self { scope: Scope::root(), given: Vec::new() }
    }
}

impl Root {
    /// Provides a service that no row could provide: the environment, say.
    ///
    /// # Errors
    /// The service was given before.
    pub fn give<S: ?Sized + Send + Sync + 'static>(
        &mut self,
        service: Arc<S>,
    ) -> Result<(), Conflict> {
        self.given.push(self.scope.provide::<S>(service, &Origin::runtime("process"))?);
        Ok(())
    }
}

/// The mounted rows; the last one mounted goes first.
#[derive(Default)]
struct Stack(Vec<(Origin, Mounted)>);

impl Drop for Stack {
    fn drop(&mut self) {
        while let Some((_, mounted)) = self.0.pop() {
            drop(mounted);
        }
    }
}

impl Stack {
    async fn stop(mut self, scope: &Scope) {
        while let Some((origin, mut mounted)) = self.0.pop() {
            mounted.withdraw();
            for stop in mounted.take_stops() {
                let work = AssertUnwindSafe(async move { stop().await });
                if let Err(panic) = work.catch_unwind().await {
                    scope.contain(ContainedWhere::Stop, &origin, panic.as_ref());
                }
            }
        }
    }
}

impl Generation {
    /// Stops the rows in reverse mount order; of each the contributions are withdrawn first, then
    /// its `on_stop` work is awaited, last registered first. A panic there is contained.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.mounted.stop(&self.scope).await })
    }
}

impl Composition {
    /// Checks what only the rows together show: that every needed service is provided, by one row
    /// or by `root`, and that no rows wait for each other.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn check(&self, catalog: &Catalog, root: &Root) -> Result<(), Vec<RowError>> {
        mount_order(&self.rows, catalog, &root.scope).map(drop)
    }

    /// Checks, then mounts the enabled rows into the root scope: providers first, ties in row
    /// order. The mounting happens when the future is polled.
    ///
    /// # Errors
    /// Everything that the check finds, or the first row that cannot be mounted; what was
    /// mounted before it is stopped as in [`Generation::stop`].
    pub fn build(
        self,
        catalog: &Catalog,
        number: u64,
        root: Root,
    ) -> BoxFuture<'static, Result<Generation, Vec<RowError>>> {
        let order = mount_order(&self.rows, catalog, &root.scope);
        let catalog = catalog.clone();
        Box::pin(async move {
            let Root { scope, given } = root;
            let mut mounted = Stack::default();
            for at in order? {
                let row = &self.rows[at];
                let Some(plugin) = catalog.get(&row.plugin) else { continue };
                let mut contributions = Mounted::default();
                let result = mount(row, plugin, &scope, &mut contributions);
                mounted.0.push((row.origin.clone(), contributions));
                if let Err(error) = result {
                    let error = mount_error(row, error);
                    mounted.stop(&scope).await;
                    return Err(vec![error]);
                }
            }
            Ok(Generation { number, scope, rows: self.rows, mounted, _given: given })
        })
    }
}

fn mount(
    row: &Row,
    plugin: &PluginDef,
    scope: &Scope,
    mounted: &mut Mounted,
) -> Result<(), MountError> {
    let mut mount = Mount::new(scope, &row.origin, plugin, mounted);
    let work = AssertUnwindSafe(|| (plugin.mount)(&row.ready.value, &mut mount));
    catch_unwind(work).unwrap_or_else(|panic| {
        Err(MountError::new(format!("the plugin panicked: {}", panic_text(panic.as_ref()))))
    })?;
    let forgotten = (plugin.provides)().into_iter().find(|key| !scope.holds(key.type_id()));
    match forgotten {
        None => Ok(()),
        Some(key) => Err(MountError::new(format!(
            "plugin `{}` lists service `{}` in `provides()` but did not provide it",
            plugin.name(),
            key.name()
        ))),
    }
}

fn mount_error(row: &Row, error: MountError) -> RowError {
    let problem = redact(error.message, &row.ready.secrets);
    match error.field {
        Some(field) => row.config_error(&field, problem),
        None => row.error(problem),
    }
}
