//! A file that appears complete or not at all.

use std::cell::OnceCell;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{CWD, RenameFlags, renameat, renameat_with};
use rustix::io::Errno;

use crate::StoreError;

/// The file while it is written under another name. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Target {
    path: PathBuf,
    temp: PathBuf,
    may_replace: bool,
    is_there: bool,
}

impl Target {
    /// Makes the file, for its owner only.
    pub(super) fn begin(path: &Path, may_replace: bool) -> Result<(Self, Sink), StoreError> {
        if !may_replace && fs::symlink_metadata(path).is_ok() {
            return Err(StoreError::FileExists { path: path.to_path_buf() });
        }
        let Some(name) = path.file_name() else {
            return Err(StoreError::unreadable(path, "it names no file", "name one to write"));
        };
        let name = format!(".{}.{}.tmp", name.to_string_lossy(), uuid::Uuid::now_v7().simple());
        let temp = path.with_file_name(name);
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temp);
        let file = made.map_err(|e| StoreError::io(path, e))?;
        let target = Self { path: path.to_path_buf(), temp, may_replace, is_there: true };
        let file = BufWriter::with_capacity(SINK_BYTES, file);
        Ok((target, Sink { file, at: 0, length: 0, failed: Rc::default() }))
    }

    /// Gives the file its name, durably.
    pub(super) fn publish(mut self, sink: Sink) -> Result<u64, StoreError> {
        let file =
            sink.file.into_inner().map_err(|e| StoreError::io(&self.path, e.into_error()))?;
        let synced = file.sync_all().and_then(|()| Ok(file.metadata()?.len()));
        let bytes = synced.map_err(|e| StoreError::io(&self.path, e))?;
        self.rename().map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => StoreError::FileExists { path: self.path.clone() },
            _ => StoreError::io(&self.path, e),
        })?;
        self.is_there = false;
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|e| StoreError::io(folder, e))?;
        Ok(bytes)
    }

    fn rename(&self) -> io::Result<()> {
        if self.may_replace {
            return Ok(renameat(CWD, &self.temp, CWD, &self.path)?);
        }
        match renameat_with(CWD, &self.temp, CWD, &self.path, RenameFlags::NOREPLACE) {
            // The file system cannot; a link never replaces anything, either.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                fs::hard_link(&self.temp, &self.path)?;
                fs::remove_file(&self.temp)
            }
            renamed => Ok(renamed?),
        }
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if self.is_there
            && let Err(error) = fs::remove_file(&self.temp)
        {
            log::warn!("{} was left behind: {error}", self.temp.display());
        }
    }
}

const SINK_BYTES: usize = 256 << 10;

/// What a zip file is written to. After an error it pretends to go on: a zip writer that is dropped
/// still tries to end its file, and would complain on standard error.
#[derive(Debug)]
pub(super) struct Sink {
    file: BufWriter<File>,
    /// Where it is or, after an error, would be; and how far it got.
    at: u64,
    length: u64,
    failed: Rc<OnceCell<io::Error>>,
}

impl Sink {
    /// Where the first error will be.
    pub(super) fn failed(&self) -> Rc<OnceCell<io::Error>> {
        Rc::clone(&self.failed)
    }

    /// Does something unless it failed before; then the outcome is `pretended`.
    fn unless_failed<T>(
        &mut self,
        pretended: T,
        work: impl FnOnce(&mut BufWriter<File>) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.failed.get().is_some() {
            return Ok(pretended);
        }
        work(&mut self.file).map_err(|error| {
            let told = error.kind().into();
            // It is empty: this is the first error.
            drop(self.failed.set(error));
            told
        })
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.unless_failed(bytes.len(), |file| file.write(bytes))?;
        self.at += written as u64;
        self.length = self.length.max(self.at);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_failed((), |file| file.flush())
    }
}

impl Seek for Sink {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let would_be = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::Current(by) => self.at.saturating_add_signed(by),
            SeekFrom::End(by) => self.length.saturating_add_signed(by),
        };
        self.at = self.unless_failed(would_be, |file| file.seek(to))?;
        Ok(self.at)
    }
}
