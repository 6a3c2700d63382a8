//! Local files. All work is done on blocking threads, a bounded number at once. A dropped future
//! sets a flag that long work looks at between pieces. What then still holds a thread and its place
//! among the operations is a single call of the operating system that does not return, such as one
//! about a network folder whose server is gone.

mod dir;
mod errors;
mod glob;
mod hash;
mod ignores;
mod lines;
mod pattern;
mod place;
mod read;
mod replace;
mod search;
mod stop;
#[cfg(test)]
mod tests;
mod xattrs;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use reins_kernel::BoxFuture;
use tokio::sync::Semaphore;

use self::replace::Locks;
use self::stop::Stop;
use crate::fs::{
    Expect, FileBytes, Fs, FsError, GlobHits, GlobQuery, Incomplete, LineWindow, Lines, Place,
    Replaced, SearchHits, SearchQuery,
};

/// Operations that run at once unless the row says otherwise.
pub(crate) const DEFAULT_CONCURRENT: usize = 16;

/// How much later than its time limit a walk is given up that does not look at the clock.
const LATE: Duration = Duration::from_secs(1);

/// The files of this machine.
pub struct LocalFs {
    permits: Arc<Semaphore>,
    locks: Arc<Locks>,
}

impl LocalFs {
    /// At most `concurrent` operations run at once; further ones wait.
    pub fn new(concurrent: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(concurrent.max(1))),
            locks: Arc::new(Locks::default()),
        }
    }

    /// As [`Fs::replace`], for content of which a half would do harm. The old file is never written
    /// in place, and who is killed leaves the old content or the new one.
    ///
    /// # Errors
    /// Those of [`Fs::replace`], and [`FsError::NotReplaceable`]: the old file has several names,
    /// is a mount point, has an owner who cannot be kept, or its folder takes no new files.
    pub fn replace_whole(
        &self,
        cwd: &Path,
        path: &str,
        content: Vec<u8>,
        expect: Expect,
    ) -> BoxFuture<'static, Result<Replaced, FsError>> {
        let (cwd, path, locks) = (cwd.to_path_buf(), path.to_owned(), Arc::clone(&self.locks));
        self.run(PathBuf::from(&path), move |stop| {
            let wanted = replace::Wanted::new(content, expect).never_in_place();
            replace::replace(&locks, &cwd, &path, &wanted, stop)
        })
    }

    /// Whether this is the name of a file that [`Fs::replace`] makes beside another one, and leaves
    /// there when its process is killed.
    pub fn is_temporary(name: &OsStr) -> bool {
        replace::is_temporary(name)
    }

    fn run<T: Send + 'static>(
        &self,
        subject: PathBuf,
        work: impl FnOnce(&Stop) -> Result<T, FsError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, FsError>> {
        let permits = Arc::clone(&self.permits);
        Box::pin(async move {
            // The semaphore is never closed, so this always holds a permit.
            let permit = permits.acquire_owned().await.ok();
            let stop = Stop::default();
            let on_drop = stop.set_on_drop();
            let job = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                work(&stop)
            });
            let result = job.await.unwrap_or_else(|failure| {
                let problem = format!("the file operation ended early: {failure}");
                Err(FsError::Io { path: subject, problem })
            });
            drop(on_drop);
            result
        })
    }
}

impl Default for LocalFs {
    fn default() -> Self {
        Self::new(DEFAULT_CONCURRENT)
    }
}

impl Fs for LocalFs {
    fn resolve(&self, cwd: &Path, path: &str) -> BoxFuture<'static, Result<Place, FsError>> {
        let (cwd, path) = (cwd.to_path_buf(), path.to_owned());
        self.run(PathBuf::from(&path), move |_| place::resolve(&cwd, &path).map(|at| at.place))
    }

    fn read(
        &self,
        cwd: &Path,
        path: &str,
        limit: u64,
    ) -> BoxFuture<'static, Result<FileBytes, FsError>> {
        let (cwd, path) = (cwd.to_path_buf(), path.to_owned());
        self.run(PathBuf::from(&path), move |stop| read::read(&cwd, &path, limit, stop))
    }

    fn read_lines(
        &self,
        cwd: &Path,
        path: &str,
        window: LineWindow,
    ) -> BoxFuture<'static, Result<Lines, FsError>> {
        let (cwd, path) = (cwd.to_path_buf(), path.to_owned());
        self.run(PathBuf::from(&path), move |stop| read::read_lines(&cwd, &path, window, stop))
    }

    fn replace(
        &self,
        cwd: &Path,
        path: &str,
        content: Vec<u8>,
        expect: Expect,
    ) -> BoxFuture<'static, Result<Replaced, FsError>> {
        let (cwd, path, locks) = (cwd.to_path_buf(), path.to_owned(), Arc::clone(&self.locks));
        self.run(PathBuf::from(&path), move |stop| {
            replace::replace(&locks, &cwd, &path, &replace::Wanted::new(content, expect), stop)
        })
    }

    fn replace_at(
        &self,
        real: &Path,
        content: Vec<u8>,
        expect: Expect,
    ) -> BoxFuture<'static, Result<Replaced, FsError>> {
        let (real, locks) = (real.to_path_buf(), Arc::clone(&self.locks));
        self.run(real.clone(), move |stop| {
            replace::replace_at(&locks, &real, &replace::Wanted::new(content, expect), stop)
        })
    }

    fn search(&self, query: SearchQuery) -> BoxFuture<'static, Result<SearchHits, FsError>> {
        let limit = query.time_limit.saturating_add(LATE);
        let work = self.run(query.root.clone(), move |stop| search::search(&query, stop));
        Box::pin(async move {
            let nothing =
                SearchHits { incomplete: Some(Incomplete::TimeLimit), ..SearchHits::default() };
            tokio::time::timeout(limit, work).await.unwrap_or(Ok(nothing))
        })
    }

    fn glob(&self, query: GlobQuery) -> BoxFuture<'static, Result<GlobHits, FsError>> {
        let limit = query.time_limit.saturating_add(LATE);
        let work = self.run(query.root.clone(), move |stop| glob::glob(&query, stop));
        Box::pin(async move {
            let nothing =
                GlobHits { incomplete: Some(Incomplete::TimeLimit), ..GlobHits::default() };
            tokio::time::timeout(limit, work).await.unwrap_or(Ok(nothing))
        })
    }
}
