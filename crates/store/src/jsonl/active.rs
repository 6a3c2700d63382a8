//! The segment that is written to, as its one writer sees it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::durable::{Durable, Form};
use super::files;
use crate::StoreError;
use crate::medium::Active;

/// An open log file whose length is known.
#[derive(Debug)]
pub(crate) struct JsonlActive {
    durable: Durable,
    file: File,
    path: PathBuf,
    length: u64,
    synced: u64,
}

impl JsonlActive {
    /// Opens a file for appending whose length must be `length`.
    pub(crate) fn open(durable: &Durable, path: &Path, length: u64) -> Result<Self, StoreError> {
        own(durable, path)?;
        let file = files::open(files::private().append(true), path)?;
        let (durable, path) = (durable.clone(), path.to_path_buf());
        let active = Self { durable, file, path, length, synced: length };
        active.check()?;
        Ok(active)
    }

    fn undo(&mut self, error: io::Error, length: u64) -> StoreError {
        let write = StoreError::io(&self.path, error);
        match self.durable.cut(&self.file, length) {
            Ok(()) => {
                self.length = length;
                write
            }
            Err(undo) => StoreError::NotUndone { write: Box::new(write), undo: Arc::new(undo) },
        }
    }

    /// Somebody else wrote, cut, replaced or removed the file.
    fn check(&self) -> Result<(), StoreError> {
        let meta = self.file.metadata().map_err(|e| StoreError::io(&self.path, e))?;
        if meta.len() == self.length && meta.nlink() > 0 {
            return Ok(());
        }
        let change = if meta.nlink() > 0 {
            format!("has {} bytes instead of {}", meta.len(), self.length)
        } else if self.path.symlink_metadata().is_ok() {
            "was replaced".to_owned()
        } else {
            "was removed".to_owned()
        };
        Err(StoreError::Lost { path: self.path.clone(), change })
    }
}

/// A file that has another name, in a copy made with links, gives way to a copy of its own before
/// it is changed.
pub(crate) fn own(durable: &Durable, path: &Path) -> Result<(), StoreError> {
    let mut file = files::open_to_read(path)?;
    let meta = file.metadata().map_err(|e| StoreError::io(path, e))?;
    if meta.nlink() > 1 { durable.publish(path, &mut file, Form::Plain) } else { Ok(()) }
}

impl Active for JsonlActive {
    fn length(&self) -> u64 {
        self.length
    }

    fn append(&mut self, lines: &[u8]) -> Result<(), StoreError> {
        self.check()?;
        match self.durable.write_all(&self.file, lines) {
            Ok(()) => {
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(error) => Err(self.undo(error, self.length)),
        }
    }

    /// When the system cannot, what was appended since the last success may be half on disk, so
    /// it is taken back.
    fn sync(&mut self) -> Result<(), StoreError> {
        match self.durable.sync_file(&self.file) {
            Ok(()) => {
                self.synced = self.length;
                Ok(())
            }
            Err(error) => Err(self.undo(error, self.synced)),
        }
    }
}
