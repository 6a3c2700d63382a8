//! What the medium asks of the file system. Everything that changes something goes through
//! [`Disk`], so that a test can refuse, shorten or stop any of it. Reading does not, and neither
//! does the lease, which holds no data.

use std::fmt;
use std::fs::{self, DirBuilder, File, FileTimes, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::time::SystemTime;

/// The operations that change files and folders: for tests, and for file systems that need
/// another way. Each is one call of the system and gives its errors; what was not synced may be
/// lost with the power.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// Makes a file that must not exist, for its owner only, open for writing.
    ///
    /// # Errors
    /// The system's.
    fn create_new(&self, path: &Path) -> io::Result<File>;

    /// Writes at the file's own position and returns how many bytes were taken.
    ///
    /// # Errors
    /// The system's.
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize>;

    /// Makes the content and length of a file durable.
    ///
    /// # Errors
    /// The system's.
    fn sync_file(&self, file: &File) -> io::Result<()>;

    /// Makes the entries of a folder durable.
    ///
    /// # Errors
    /// The system's.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Cuts a file, or makes it longer.
    ///
    /// # Errors
    /// The system's.
    fn set_len(&self, file: &File, length: u64) -> io::Result<()>;

    /// Dates a file's content.
    ///
    /// # Errors
    /// The system's.
    fn set_modified(&self, file: &File, time: SystemTime) -> io::Result<()>;

    /// Gives a file or folder another name; what had that name is replaced.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file one more name, which must be free.
    ///
    /// # Errors
    /// The system's; among them that the file system has no such links.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes a folder for its owner only.
    ///
    /// # Errors
    /// The system's.
    fn make_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes a file's name.
    ///
    /// # Errors
    /// The system's.
    fn unlink(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    ///
    /// # Errors
    /// The system's.
    fn remove_dir(&self, path: &Path) -> io::Result<()>;
}

/// The file system as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn create_new(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
    }

    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        // The time of the last change may be lost; content and length are not.
        file.sync_data()
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn set_len(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }

    fn set_modified(&self, file: &File, time: SystemTime) -> io::Result<()> {
        file.set_times(FileTimes::new().set_modified(time))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }
}

/// A file that is written through a disk.
pub(crate) struct Through<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) file: &'a File,
}

impl Write for Through<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.write(self.file, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
