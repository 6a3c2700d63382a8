//! The active log file, as its one writer sees it.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::StoreError;

/// An open log file whose length is known.
#[derive(Debug)]
pub(crate) struct ActiveFile {
    file: File,
    path: PathBuf,
    length: u64,
    synced: u64,
}

impl ActiveFile {
    /// Takes over a file opened for appending whose length must be `length`.
    pub(crate) fn new(file: File, path: &Path, length: u64) -> Result<Self, StoreError> {
        let active = Self { file, path: path.to_path_buf(), length, synced: length };
        active.check()?;
        Ok(active)
    }

    /// Appends whole lines with one write. Afterwards they are in the file, or nothing of them is.
    pub(crate) fn append(&mut self, lines: &[u8]) -> Result<(), StoreError> {
        self.check()?;
        match self.file.write_all(lines) {
            Ok(()) => {
                self.length += lines.len() as u64;
                Ok(())
            }
            Err(error) => Err(self.undo(error, self.length)),
        }
    }

    /// Makes everything appended durable. When the system cannot, what was appended since the
    /// last success may be half on disk, so it is taken back.
    pub(crate) fn sync(&mut self) -> Result<(), StoreError> {
        match self.file.sync_data() {
            Ok(()) => {
                self.synced = self.length;
                Ok(())
            }
            Err(error) => Err(self.undo(error, self.synced)),
        }
    }

    fn undo(&mut self, error: io::Error, length: u64) -> StoreError {
        let write = StoreError::io(&self.path, error);
        match self.file.set_len(length).and_then(|()| self.file.sync_all()) {
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

#[cfg(test)]
mod tests;
