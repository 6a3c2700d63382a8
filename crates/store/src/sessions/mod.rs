//! The store over any medium: what sessions are, independent of where their bytes are.

mod archive;
mod blobs;
mod check;
mod fork;
mod list;
mod open;
mod read;
pub(crate) mod snapshot;
mod tell;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use futures_util::future::BoxFuture;
use reins_schema::{Event, Header, SessionId};
use reins_session::KnownTypes;

pub use open::Prepared;

use crate::export;
use crate::index::Index;
use crate::medium::Medium;
use crate::reading::{Source, StoredHeader, read_header};
use crate::{
    ExportOrder, Exported, ImportOrder, Imported, Inspected, ListFilter, Listing, OpenSession,
    Progress, Repaired, Store, StoreConfig, StoreError, Verified, check_id,
};

/// Sessions on a medium. What the public stores are made of.
#[derive(Clone, Debug)]
pub struct Sessions {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    medium: Arc<dyn Medium>,
    index: Index,
    config: StoreConfig,
}

impl Sessions {
    /// `index` is the file of the index; without one it is in memory.
    pub(crate) fn new(
        medium: Arc<dyn Medium>,
        index: Option<PathBuf>,
        config: StoreConfig,
    ) -> Self {
        Self { shared: Arc::new(Shared { medium, index: Index::new(index), config }) }
    }

    pub(crate) fn config(&self) -> &StoreConfig {
        &self.shared.config
    }

    pub(crate) fn medium(&self) -> &Arc<dyn Medium> {
        &self.shared.medium
    }

    fn index(&self) -> &Index {
        &self.shared.index
    }

    /// A session's log, whose header is still to be read.
    fn unbounded(&self, id: &SessionId) -> Source {
        Source { medium: Arc::clone(&self.shared.medium), id: id.clone(), bounds: Vec::new() }
    }

    /// A session's header and log.
    pub(crate) fn facts(&self, id: &SessionId) -> Result<(StoredHeader, Source), StoreError> {
        check_id(id)?;
        let mut source = self.unbounded(id);
        let remembered = || {
            let stored = self.medium().snapshot(id).and_then(|text| snapshot::header(&text));
            stored.or_else(|| self.index().header(id))
        };
        let stored = read_header(&source, remembered)?;
        source.bounds = bounds(&stored.header);
        if let Some(damage) = stored.damage.as_ref().filter(|_| stored.header.created_at == 0)
            && self.medium().segments(id)?.is_empty()
        {
            let advice = "restore it from a backup, or move the folder away";
            return Err(StoreError::unreadable(&damage.path, damage.problem.clone(), advice));
        }
        Ok((stored, source))
    }

    /// Runs work on the blocking pool.
    fn run<'a, T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        let sessions = self.clone();
        Box::pin(blocking(move || work(&sessions)))
    }
}

/// What counts of the segments that a fork shares.
fn bounds(header: &Header) -> Vec<u64> {
    header.parent.as_ref().map(|parent| parent.segments.clone()).unwrap_or_default()
}

/// Runs work that blocks on the blocking pool; a panic there goes on here.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only at the end of the runtime.
            Err(_) => Err(StoreError::Closed),
        },
    }
}

/// Nobody hears of the progress.
fn silent() -> Progress {
    Arc::new(|_, _| {})
}

#[expect(clippy::disallowed_methods, reason = "stamps what it writes; the store is below `world`")]
fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Every public store is the sessions that it gives a medium to.
impl<S: AsRef<Sessions> + Send + Sync> Store for S {
    fn create(
        &self,
        header: Header,
        known: KnownTypes,
    ) -> BoxFuture<'_, Result<OpenSession, StoreError>> {
        self.as_ref().run(move |sessions| sessions.create_new(header, known))
    }

    fn prepare<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
    ) -> BoxFuture<'a, Result<Prepared, StoreError>> {
        let id = id.clone();
        self.as_ref().run(move |sessions| sessions.prepare_now(&id, known))
    }

    fn inspect<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
    ) -> BoxFuture<'a, Result<Inspected, StoreError>> {
        let id = id.clone();
        self.as_ref().run(move |sessions| sessions.look(&id, known))
    }

    fn read<'a>(
        &'a self,
        id: &'a SessionId,
        from: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Event>, StoreError>> {
        let id = id.clone();
        self.as_ref().run(move |sessions| sessions.events(&id, from, limit))
    }

    fn list(&self, wanted: ListFilter) -> BoxFuture<'_, Result<Listing, StoreError>> {
        self.as_ref().run(move |sessions| sessions.listed(&wanted))
    }

    fn find<'a>(&'a self, begins: &'a str) -> BoxFuture<'a, Result<SessionId, StoreError>> {
        let begins = begins.to_owned();
        self.as_ref().run(move |sessions| crate::index::find(&**sessions.medium(), &begins))
    }

    fn fork<'a>(
        &'a self,
        parent: &'a SessionId,
        at: Option<u64>,
    ) -> BoxFuture<'a, Result<Header, StoreError>> {
        let parent = parent.clone();
        self.as_ref().run(move |sessions| sessions.fork_now(&parent, at))
    }

    fn verify<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
        progress: Progress,
    ) -> BoxFuture<'a, Result<Verified, StoreError>> {
        let id = id.clone();
        self.as_ref().run(move |sessions| sessions.check(&id, known, &progress))
    }

    fn repair<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
        dry_run: bool,
        progress: Progress,
    ) -> BoxFuture<'a, Result<Repaired, StoreError>> {
        Box::pin(self.as_ref().mend(id, known, dry_run, progress))
    }

    fn move_to<'a>(
        &'a self,
        id: &'a SessionId,
        dir: &'a Path,
        known: KnownTypes,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.as_ref().moved(id, dir, known))
    }

    fn remove<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<(), StoreError>> {
        let id = id.clone();
        self.as_ref().run(move |sessions| {
            check_id(&id)?;
            sessions.medium().take(&id)?.remove()?;
            sessions.index().forget(&id);
            Ok(())
        })
    }

    fn archive<'a>(
        &'a self,
        id: &'a SessionId,
        archived: bool,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(self.as_ref().archived(id, archived))
    }

    fn export<'a>(
        &'a self,
        order: ExportOrder,
        progress: Progress,
    ) -> BoxFuture<'a, Result<Exported, StoreError>> {
        self.as_ref().run(move |sessions| {
            let header = |id: &SessionId| Ok(sessions.facts(id)?.0);
            export::export(sessions.medium(), &order, &header, &progress)
        })
    }

    fn import<'a>(
        &'a self,
        order: ImportOrder,
        progress: Progress,
    ) -> BoxFuture<'a, Result<Imported, StoreError>> {
        self.as_ref().run(move |sessions| {
            let header = |id: &SessionId| Ok(sessions.facts(id)?.0);
            let config = sessions.config();
            let limits = export::Limits {
                bytes: config.import_bytes_max,
                blob: config.blob_bytes_max as u64,
                segment: config.segment_bytes,
            };
            export::import(sessions.medium(), &order, &limits, &header, &progress)
        })
    }

    fn path<'a>(&'a self, id: &'a SessionId) -> BoxFuture<'a, Result<PathBuf, StoreError>> {
        let id = id.clone();
        self.as_ref().run(move |sessions| {
            check_id(&id)?;
            sessions.medium().segments(&id)?;
            Ok(sessions.medium().path(&id))
        })
    }

    fn put_blob<'a>(
        &'a self,
        id: &'a SessionId,
        bytes: Vec<u8>,
    ) -> BoxFuture<'a, Result<String, StoreError>> {
        let id = id.clone();
        self.as_ref().run(move |sessions| sessions.keep_blob(&id, &bytes))
    }

    fn get_blob<'a>(
        &'a self,
        id: &'a SessionId,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Vec<u8>, StoreError>> {
        let (id, name) = (id.clone(), name.to_owned());
        self.as_ref().run(move |sessions| sessions.blob(&id, &name))
    }

    fn blobs<'a>(
        &'a self,
        id: &'a SessionId,
    ) -> BoxFuture<'a, Result<Vec<(String, u64)>, StoreError>> {
        let id = id.clone();
        self.as_ref().run(move |sessions| {
            check_id(&id)?;
            sessions.medium().blobs(&id)
        })
    }
}
