//! The default back end: a folder per session, a log of JSON lines.

mod active;
mod blobs;
mod disk;
mod durable;
pub(crate) mod files;
mod folder;
mod held;
pub(crate) mod lease;
mod list;
mod medium;
mod recover;
mod scan;
mod seek;
mod segment;

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use reins_schema::{Event, Header, SessionId};
use reins_session::{Fold, KnownTypes};

pub use disk::{Disk, RealDisk};
pub use files::check_home;
pub(crate) use folder::Folder;
pub(crate) use lease::Lease;
#[expect(unused_imports, reason = "what the back end is moving to")]
pub(crate) use medium::JsonlMedium;
pub(crate) use scan::Scanner;

use crate::log::{ActiveFile, Start};
use crate::{
    Damage, Inspected, ListFilter, Listing, Log, OpenSession, Store, StoreConfig, StoreError,
};
use scan::Stop;

/// How the folder of a session begins while it is being made or removed; its id and our process id
/// follow.
const HIDDEN: &str = ".new-";

/// One step of reading: small enough to yield often, large enough to cost nothing.
const BATCH_EVENTS: usize = 4096;
const BATCH_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 8 << 20;

/// Sessions as folders below `<home>/sessions`.
#[derive(Clone, Debug)]
pub struct JsonlStore {
    config: Arc<StoreConfig>,
    sessions: Arc<Path>,
}

impl JsonlStore {
    /// Touches nothing; the home is made by the first create.
    pub fn new(config: StoreConfig) -> Self {
        let sessions = config.home.join("sessions").into();
        Self { config: Arc::new(config), sessions }
    }

    /// The home that it was configured with.
    pub fn home(&self) -> &Path {
        &self.config.home
    }

    fn create_blocking(&self, header: &Header) -> Result<(Folder, ActiveFile, Lease), StoreError> {
        folder::check_new(header)?;
        let folder = Folder::of(&self.sessions, &header.id)?;
        files::check_home(&self.config.home)?;
        files::make_dirs(&self.sessions)?;
        // Everything is made under a hidden name and renamed; a crash leaves no half session.
        let temp = folder.hidden();
        files::make_dir(&temp.path).map_err(|e| taken(&temp, e))?;
        let made = fill(&temp, header).and_then(|lease| {
            std::fs::rename(&temp.path, &folder.path).map_err(|e| taken(&folder, e))?;
            Ok(lease)
        });
        let lease = match made {
            Ok(lease) => lease,
            Err(error) => {
                // The first error is the one to tell; the hidden folder is ours and never listed.
                drop(std::fs::remove_dir_all(&temp.path));
                return Err(error);
            }
        };
        files::sync_dir(&self.sessions)?;
        let file = open_active(&folder.segment_path(0), 0)?;
        Ok((folder, file, lease))
    }

    fn begin_open(&self, id: &SessionId) -> Result<Opening, StoreError> {
        let folder = Folder::existing(&self.sessions, id)?;
        files::check_home(&self.config.home)?;
        let header = folder.header()?;
        folder.segments()?;
        let lease = Lease::take(&folder.lease_path(), id)?;
        // Again under the lease: nobody else adds files now.
        let scanner = Scanner::whole(folder.segments()?);
        Ok(Opening { folder, header, lease, scanner })
    }

    fn begin_inspect(&self, id: &SessionId) -> Result<(Folder, Header, Scanner), StoreError> {
        let folder = Folder::existing(&self.sessions, id)?;
        let header = folder.header()?;
        let scanner = Scanner::whole(folder.segments()?);
        Ok((folder, header, scanner))
    }

    async fn open_session(
        &self,
        id: &SessionId,
        known: KnownTypes,
        seen: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<OpenSession, StoreError> {
        let (store, wanted) = (self.clone(), id.clone());
        let opening = blocking(move || store.begin_open(&wanted)).await?;
        let Opening { folder, header, lease, mut scanner } = opening;
        let mut fold = Fold::new(header.clone(), known);
        let mut sink = |event: &Event| {
            fold.apply(event).map_err(|e| e.to_string())?;
            seen(event);
            Ok(())
        };
        scanner = match feed(scanner, &folder, &mut sink).await? {
            (scanner, None) => scanner,
            (_, Some(damage)) => return Err(StoreError::Damaged(damage)),
        };
        if let Some(tail) = scanner.tail().filter(|tail| !tail.may_be_cut) {
            return Err(StoreError::Damaged(tail.damage()));
        }
        let events = scanner.next_seq();
        let place = folder.clone();
        let (file, recovered) = blocking(move || finish_open(&place, &scanner)).await?;
        let log = Log::start(folder, file, lease, Start::Opened { events }, &self.config)?;
        let recovered = recovered.into_iter().collect();
        Ok(OpenSession { header, fold, log, recovered })
    }

    async fn inspect_session(
        &self,
        id: &SessionId,
        known: KnownTypes,
        seen: &mut (dyn FnMut(&Event) + Send),
    ) -> Result<Inspected, StoreError> {
        let (store, wanted) = (self.clone(), id.clone());
        let (folder, header, scanner) = blocking(move || store.begin_inspect(&wanted)).await?;
        let mut fold = Fold::new(header.clone(), known);
        let mut sink = |event: &Event| {
            fold.apply(event).map_err(|e| e.to_string())?;
            seen(event);
            Ok(())
        };
        let before = lease::holder(&folder.lease_path());
        let (scanner, mut damage) = feed(scanner, &folder, &mut sink).await?;
        let lease = lease::holder(&folder.lease_path());
        // Whoever wrote at either moment may have been in the middle of a line.
        if damage.is_none() && before.is_none() && lease.is_none() {
            damage = scanner.tail().map(scan::Tail::damage);
        }
        let damage = damage.into_iter().collect();
        Ok(Inspected { header, fold, damage, lease })
    }
}

/// What is known of a session before its events are read.
struct Opening {
    folder: Folder,
    header: Header,
    lease: Lease,
    scanner: Scanner,
}

/// Makes everything a new session's folder holds.
fn fill(folder: &Folder, header: &Header) -> Result<Lease, StoreError> {
    // First, so that nobody takes what is being made for left over.
    let lease = Lease::take(&folder.lease_path(), &folder.id)?;
    let path = folder.header_path();
    let mut text =
        serde_json::to_vec_pretty(header).map_err(|e| StoreError::io(&path, e.into()))?;
    text.push(b'\n');
    files::write_new(&path, text.as_slice())?;
    make_log(&folder.segment_path(0))?;
    files::sync_dir(&folder.path)?;
    Ok(lease)
}

/// Nothing to sync: an empty log that is lost is an empty log.
fn make_log(path: &Path) -> Result<(), StoreError> {
    let made = files::private().write(true).create_new(true).open(path);
    made.map(drop).map_err(|e| StoreError::io(path, e))
}

fn taken(folder: &Folder, error: std::io::Error) -> StoreError {
    use std::io::ErrorKind::{AlreadyExists, DirectoryNotEmpty, NotADirectory};
    match error.kind() {
        AlreadyExists | DirectoryNotEmpty | NotADirectory => {
            StoreError::AlreadyExists { id: folder.id.clone(), path: folder.path.clone() }
        }
        _ => StoreError::io(&folder.path, error),
    }
}

fn open_active(path: &Path, length: u64) -> Result<ActiveFile, StoreError> {
    let file = files::open(files::private().append(true), path)?;
    ActiveFile::new(file, path, length)
}

/// After the last event: cuts the torn tail and opens the file for appending.
fn finish_open(
    folder: &Folder,
    scanner: &Scanner,
) -> Result<(ActiveFile, Option<reins_schema::SessionRecovered>), StoreError> {
    let recovered = scanner.tail().map(|tail| recover::cut(folder, tail)).transpose()?;
    let Some((path, length)) = scanner.end() else {
        // The process died between header and log, or the log was removed: an empty session.
        let path = folder.segment_path(0);
        make_log(&path)?;
        files::sync_dir(&folder.path)?;
        return Ok((open_active(&path, 0)?, recovered));
    };
    Ok((open_active(path, *length)?, recovered))
}

/// Gives every event to `sink`, reading on the blocking pool batch by batch. Returns the scanner
/// at its end, or the damage that stopped it.
async fn feed(
    mut scanner: Scanner,
    folder: &Folder,
    sink: &mut (dyn FnMut(&Event) -> Result<(), String> + Send),
) -> Result<(Scanner, Option<Damage>), StoreError> {
    loop {
        let (back, batch) = blocking(move || {
            let batch = scanner.batch(BATCH_EVENTS, BATCH_BYTES);
            Ok((scanner, batch))
        })
        .await?;
        scanner = back;
        let events = match batch {
            Ok(events) => events,
            Err(Stop::Damage(damage)) => return Ok((scanner, Some(damage))),
            Err(Stop::Store(error)) => return Err(error),
        };
        if events.is_empty() {
            return Ok((scanner, None));
        }
        for event in &events {
            if let Err(problem) = sink(event) {
                let damage = refused(folder, event.seq, problem).await?;
                return Ok((scanner, Some(damage)));
            }
        }
    }
}

/// The place of an event whose line is right and whose content is not.
async fn refused(folder: &Folder, seq: u64, problem: String) -> Result<Damage, StoreError> {
    let place = folder.clone();
    let found = blocking(move || Scanner::from(place.segments()?, seq)?.place_of_next()).await?;
    let (path, offset) = found.unwrap_or_else(|| (folder.path.clone(), 0));
    let problem = format!("event {seq} does not fit what precedes it: {problem}");
    let kind = crate::DamageKind::Refused { seq };
    Ok(Damage { path, offset, bytes: 0, line: None, problem, kind })
}

/// Runs file work on the blocking pool; a panic there goes on here.
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

impl Store for JsonlStore {
    fn create(
        &self,
        header: Header,
        known: KnownTypes,
    ) -> BoxFuture<'_, Result<OpenSession, StoreError>> {
        Box::pin(async move {
            let (store, copy) = (self.clone(), header.clone());
            let (folder, file, lease) = blocking(move || store.create_blocking(&copy)).await?;
            let log = Log::start(folder, file, lease, Start::Created, &self.config)?;
            let fold = Fold::new(header.clone(), known);
            Ok(OpenSession { header, fold, log, recovered: Vec::new() })
        })
    }

    fn open<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
        seen: &'a mut (dyn FnMut(&Event) + Send),
    ) -> BoxFuture<'a, Result<OpenSession, StoreError>> {
        Box::pin(self.open_session(id, known, seen))
    }

    fn inspect<'a>(
        &'a self,
        id: &'a SessionId,
        known: KnownTypes,
        seen: &'a mut (dyn FnMut(&Event) + Send),
    ) -> BoxFuture<'a, Result<Inspected, StoreError>> {
        Box::pin(self.inspect_session(id, known, seen))
    }

    fn read<'a>(
        &'a self,
        id: &'a SessionId,
        from: u64,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Event>, StoreError>> {
        let (sessions, id) = (Arc::clone(&self.sessions), id.clone());
        Box::pin(blocking(move || {
            let folder = Folder::existing(&sessions, &id)?;
            Ok(Scanner::from(folder.segments()?, from)?.batch(limit, READ_BYTES)?)
        }))
    }

    fn list(&self, wanted: ListFilter) -> BoxFuture<'_, Result<Listing, StoreError>> {
        let sessions = Arc::clone(&self.sessions);
        Box::pin(blocking(move || {
            let mut listing = list::list(&sessions)?;
            listing.sessions.retain(|s| wanted.cwd.as_ref().is_none_or(|cwd| *cwd == s.cwd));
            listing.total = listing.sessions.len();
            listing.sessions.truncate(wanted.limit.unwrap_or(usize::MAX));
            Ok(listing)
        }))
    }

    fn put_blob<'a>(
        &'a self,
        id: &'a SessionId,
        bytes: Vec<u8>,
    ) -> BoxFuture<'a, Result<String, StoreError>> {
        let (sessions, id) = (Arc::clone(&self.sessions), id.clone());
        let limit = self.config.blob_bytes_max;
        Box::pin(blocking(move || blobs::put(&Folder::existing(&sessions, &id)?, &bytes, limit)))
    }

    fn get_blob<'a>(
        &'a self,
        id: &'a SessionId,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Vec<u8>, StoreError>> {
        let (sessions, id, name) = (Arc::clone(&self.sessions), id.clone(), name.to_owned());
        let limit = self.config.blob_bytes_max;
        Box::pin(blocking(move || blobs::get(&Folder::existing(&sessions, &id)?, &name, limit)))
    }
}
