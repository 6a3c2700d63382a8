//! Building, and stopping what was built.

use std::any::TypeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use super::changes::{MOVED, RowChange, changes};
use super::compose::{Composition, Row};
use super::error::{RowError, RowWarning};
use super::plan::{check_places, mount_order, split, start_order};
use crate::plugin::{Mount, MountError, Mounted, PluginDef};
use crate::scope::panic_text;
use crate::{Catalog, Conflict, ContainedWhere, Origin, Places, Registration, Reload, Scope};

/// All enabled rows, mounted: those that stay for the life of the process in the scope `process`,
/// those that reload in the scope `global` below it. It is never rebuilt in place; the next
/// generation stands beside it and shares the scope of the process.
///
/// Dropping it withdraws every contribution but awaits nothing; [`Generation::stop`] does both.
pub struct Generation {
    // Before the scope, so that what is dropped goes row by row, the last one first.
    live: Mutex<Stack>,
    /// Its number.
    pub number: u64,
    /// The scope `global`, in which the rows that reload are mounted.
    pub scope: Scope,
    /// What it was built from, the disabled rows too.
    pub rows: Vec<Row>,
    /// Changes of rows that wait until the process starts again.
    pub waiting: Vec<RowWarning>,
    // After the rows that reload: they may use it to their end. `None` = stopped.
    standing: Mutex<Option<Arc<Standing>>>,
}

/// What lives as long as the process.
struct Standing {
    // In this order, so that what is dropped goes row by row, and what was given last.
    mounted: Mutex<Stack>,
    rows: Vec<Row>,
    given: Given,
    scope: Scope,
}

/// What the process itself provides.
#[derive(Default)]
struct Given(Vec<(TypeId, Registration)>);

impl Given {
    fn has(&self, service: TypeId) -> bool {
        self.0.iter().any(|(given, _)| *given == service)
    }
}

impl std::fmt::Debug for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Generation({}, {} rows)", self.number, self.rows.len())
    }
}

/// Rows that are mounted in a scope of their own below a generation, for those who use it. Stop it
/// before the generation.
///
/// Dropping it withdraws every contribution but awaits nothing; [`RowScope::stop`] does both.
pub struct RowScope {
    // Before the scope, so that what is dropped goes row by row, the last one first.
    mounted: Mutex<Stack>,
    /// The scope.
    pub scope: Scope,
    /// What it was built from, the disabled rows too.
    pub rows: Vec<Row>,
}

impl std::fmt::Debug for RowScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RowScope({:?}, {} rows)", self.scope, self.rows.len())
    }
}

/// A scope before any row is mounted, with what only the process itself can provide.
pub struct Root {
    given: Given,
    scope: Scope,
}

impl Default for Root {
    fn default() -> Self {
        Self { given: Given::default(), scope: Scope::root() }
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
        let registration = self.scope.provide::<S>(service, &Origin::runtime("process"))?;
        self.given.0.push((TypeId::of::<S>(), registration));
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

/// Takes out what is there and leaves nothing.
fn take<T: Default>(of: &Mutex<T>) -> T {
    std::mem::take(&mut *of.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Standing {
    /// Gives up a share; the last one to do so stops the rows.
    async fn leave(standing: Arc<Self>) {
        if let Some(standing) = Arc::into_inner(standing) {
            take(&standing.mounted).stop(&standing.scope).await;
        }
    }
}

impl Generation {
    /// Stops the rows in reverse mount order; of each the contributions are withdrawn first, then
    /// its `on_stop` work is awaited, last registered first. A panic there is contained. The last
    /// generation of a process stops the rows that all of them shared, too. Whoever still holds the
    /// generation holds an empty one; another stop does nothing.
    pub fn stop(&self) -> BoxFuture<'static, ()> {
        let (live, standing, scope) = (take(&self.live), take(&self.standing), self.scope.clone());
        Box::pin(async move {
            live.stop(&scope).await;
            drop(scope);
            if let Some(standing) = standing {
                Standing::leave(standing).await;
            }
        })
    }

    fn standing(&self) -> Option<Arc<Standing>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Builds what follows this generation from `composition`, beside it. Changed rows that stay
    /// for the life of the process go on as they are and are listed in
    /// [`waiting`](Generation::waiting).
    ///
    /// # Errors
    /// As [`Composition::build`], for the rows that wait, too: what could not start is refused now.
    /// And a row that reloads needs a service of a row that waits. Or this generation was stopped.
    /// It is not touched; when it is stopped meanwhile, the rows that all generations shared are
    /// stopped, too.
    pub fn next(
        &self,
        composition: Composition,
        catalog: &Catalog,
    ) -> BoxFuture<'static, Result<Self, Vec<RowError>>> {
        let Some(standing) = self.standing() else {
            let problem = format!("generation {} was stopped; nothing follows it", self.number);
            return Box::pin(std::future::ready(Err(vec![RowError::new(problem)])));
        };
        let given = |key| standing.given.has(key);
        let checked = start_order(&composition.rows, catalog, &given).map(drop);
        let (number, catalog) = (self.number + 1, catalog.clone());
        Box::pin(async move {
            let built = match checked {
                Ok(()) => Self::beside(composition, &catalog, number, standing.clone()).await,
                Err(errors) => Err(errors),
            };
            if built.is_err() {
                Standing::leave(standing).await;
            }
            built
        })
    }

    async fn beside(
        composition: Composition,
        catalog: &Catalog,
        number: u64,
        standing: Arc<Standing>,
    ) -> Result<Self, Vec<RowError>> {
        let rows = composition.rows;
        let (_, live) = split(&rows, catalog);
        let order = mount_order(&rows, &live, catalog, Places::Global, &standing.scope)?;
        let scope = standing.scope.child("global");
        let mounted = mount_all(&rows, &order, catalog, &scope).await?;
        let waiting = changes(&standing.rows, &rows, catalog, Some(Reload::Restart));
        let doubles = doubles(&rows, &scope, &standing, &waiting);
        if !doubles.is_empty() {
            mounted.stop(&scope).await;
            return Err(doubles);
        }
        let waiting = waiting.iter().map(waits).collect();
        let (live, standing) = (Mutex::new(mounted), Mutex::new(Some(standing)));
        Ok(Self { number, scope, rows, waiting, live, standing })
    }

    /// Mounts rows of a layer of their own in a scope `name` below this generation.
    ///
    /// # Errors
    /// As [`Composition::build`], and rows of plugins that may only stand in the layers of the
    /// process.
    pub fn nested(
        &self,
        name: &str,
        composition: Composition,
        catalog: &Catalog,
    ) -> BoxFuture<'static, Result<RowScope, Vec<RowError>>> {
        let (scope, catalog) = (self.scope.child(name), catalog.clone());
        Box::pin(async move {
            let rows = composition.rows;
            check_places(&rows, &catalog, Places::Nested)?;
            let all: Vec<usize> = (0..rows.len()).collect();
            let order = mount_order(&rows, &all, &catalog, Places::Nested, &scope)?;
            let mounted = mount_all(&rows, &order, &catalog, &scope).await?;
            Ok(RowScope { scope, rows, mounted: Mutex::new(mounted) })
        })
    }

    /// Whether another composition would give anything else, also what would have to wait.
    pub fn differs(&self, composition: &Composition, catalog: &Catalog) -> bool {
        !changes(&self.rows, &composition.rows, catalog, None).is_empty()
    }

    /// The rows that reload and differ from those of an earlier generation.
    pub fn changes_since(&self, earlier: &Self, catalog: &Catalog) -> Vec<RowChange> {
        changes(&earlier.rows, &self.rows, catalog, Some(Reload::Live))
    }
}

impl RowScope {
    /// Stops the rows as [`Generation::stop`] does.
    pub fn stop(&self) -> BoxFuture<'static, ()> {
        let (mounted, scope) = (take(&self.mounted), self.scope.clone());
        Box::pin(async move { mounted.stop(&scope).await })
    }

    /// Whether another composition would give anything else.
    pub fn differs(&self, composition: &Composition, catalog: &Catalog) -> bool {
        !changes(&self.rows, &composition.rows, catalog, None).is_empty()
    }

    /// The rows that differ from those of an earlier scope of the same kind.
    pub fn changes_since(&self, earlier: &Self, catalog: &Catalog) -> Vec<RowChange> {
        changes(&earlier.rows, &self.rows, catalog, None)
    }
}

impl Composition {
    /// Checks what only the rows together show: that every needed service is provided, by one row
    /// or by `root`, that no row that stays for the life of the process needs one that reloads, and
    /// that no rows wait for each other.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn check(&self, catalog: &Catalog, root: &Root) -> Result<(), Vec<RowError>> {
        start_order(&self.rows, catalog, &|key| root.given.has(key)).map(drop)
    }

    /// Checks, then mounts the enabled rows, first those that stay for the life of the process,
    /// then those that reload; in each of the two providers first, ties in row order. The mounting
    /// happens when the future is polled.
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
        let checked = start_order(&self.rows, catalog, &|key| root.given.has(key));
        let catalog = catalog.clone();
        Box::pin(async move {
            let (order, _) = checked?;
            let Root { given, scope } = root;
            let mounted = Mutex::new(mount_all(&self.rows, &order, &catalog, &scope).await?);
            let rows = self.rows.clone();
            let standing = Arc::new(Standing { mounted, rows, given, scope });
            let built = Generation::beside(self, &catalog, number, Arc::clone(&standing)).await;
            if built.is_err() {
                Standing::leave(standing).await;
            }
            built
        })
    }
}

/// Mounts these rows in this order; the first error stops what was mounted before it.
async fn mount_all(
    rows: &[Row],
    order: &[usize],
    catalog: &Catalog,
    scope: &Scope,
) -> Result<Stack, Vec<RowError>> {
    let mut mounted = Stack::default();
    for row in order.iter().map(|at| &rows[*at]) {
        let Some(plugin) = catalog.get(&row.plugin) else { continue };
        let mut contributions = Mounted::default();
        let result = mount(row, plugin, scope, &mut contributions);
        mounted.0.push((row.origin.clone(), contributions));
        if let Err(error) = result {
            let error = mount_error(row, error);
            mounted.stop(scope).await;
            return Err(vec![error]);
        }
    }
    Ok(mounted)
}

/// Entries of rows that reload that would hide one of a row that stays. Only a row that waits for a
/// change may be hidden.
fn doubles(
    rows: &[Row],
    scope: &Scope,
    standing: &Standing,
    waiting: &[RowChange],
) -> Vec<RowError> {
    let goes_on = |origin: &Origin| {
        standing.rows.iter().any(|row| *row.id == *origin.row)
            && !waiting.iter().any(|change| *change.row == *origin.row && change.what != MOVED)
    };
    let shadows = scope.shadows(&standing.scope).into_iter();
    let mut conflicts: Vec<Conflict> = shadows.filter(|one| goes_on(&one.first)).collect();
    conflicts.sort_by(|a, b| (a.second.rank, &a.name).cmp(&(b.second.rank, &b.name)));
    let of = |conflict: &Conflict| rows.iter().find(|row| *row.id == *conflict.second.row);
    conflicts.iter().filter_map(|one| Some(of(one)?.error(one.of_rows()))).collect()
}

fn waits(change: &RowChange) -> RowWarning {
    let problem = format!("{}, which takes effect when Reins starts again", change.what);
    RowWarning(RowError::at(&change.origin, problem))
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
    let problem = row.ready.redact(error.message, error.field.as_deref().unwrap_or_default());
    match error.field {
        Some(field) => row.config_error(&field, problem),
        None => row.error(problem),
    }
}
