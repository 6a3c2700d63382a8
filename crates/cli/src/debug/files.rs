//! The files of the log: one set for all processes of a home, so that its limit is one, too.
//! `reins.log` is written to; `reins.1.log` is the one before it, up to `reins.4.log`.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};

/// All files together. The help of `--debug` says it.
pub(super) const TOTAL_BYTES: u64 = 20_000_000;
const FILES: u64 = 5;
const FILE_BYTES: u64 = TOTAL_BYTES / FILES;
/// The most that is written at once, unless a single line has more.
pub(super) const BATCH_BYTES: usize = 64 * 1024;
/// How long another process may keep the folder, and how often that is looked at.
const LOCK_WITHIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The folder of the log.
pub(super) struct Files {
    path: PathBuf,
    /// Locked while something is written or renamed.
    folder: File,
}

impl Files {
    /// Makes the folder when it is not there; nobody else may look into it.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let folder = File::open(path)?;
        if folder.metadata()?.permissions().mode() & 0o077 != 0 {
            folder.set_permissions(Permissions::from_mode(0o700))?;
        }
        Ok(Self { path: path.to_owned(), folder })
    }

    /// Appends whole lines, to a new file when the newest has no room for them.
    pub(super) fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        self.lock()?;
        let appended = self.append_locked(lines);
        flock(&self.folder, FlockOperation::Unlock)?;
        appended
    }

    fn append_locked(&self, lines: &[u8]) -> io::Result<()> {
        let newest = self.numbered(0);
        let mut file = open(&newest)?;
        let length = file.metadata()?.len();
        if length > 0 && length + lines.len() as u64 > FILE_BYTES {
            for number in (0..FILES - 1).rev() {
                match std::fs::rename(self.numbered(number), self.numbered(number + 1)) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
            file = open(&newest)?;
        }
        file.write_all(lines)
    }

    fn numbered(&self, number: u64) -> PathBuf {
        match number {
            0 => self.path.join("reins.log"),
            number => self.path.join(format!("reins.{number}.log")),
        }
    }

    fn lock(&self) -> io::Result<()> {
        let end = Instant::now() + LOCK_WITHIN;
        loop {
            match flock(&self.folder, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) if Instant::now() < end => {
                    std::thread::park_timeout(LOOK_AGAIN);
                }
                Err(rustix::io::Errno::AGAIN) => {
                    let words = "another process does not let go of the folder";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, words));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whatever link somebody put there is not followed.
fn open(path: &Path) -> io::Result<File> {
    let no_links = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(no_links).open(path)
}
