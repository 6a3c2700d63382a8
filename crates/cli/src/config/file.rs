//! The file `<home>/settings.toml`: one writer at a time, all or nothing.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reins_kernel::MAX_LAYER_BYTES;
use reins_world::{ContentHash, Expect, Fs as _, FsError, LocalFs};
use tokio::time::Instant;

use crate::exit::CliError;

/// The file's name in the home.
const NAME: &str = "settings.toml";
/// Beside it; whoever holds the lock on it may write.
const LOCK: &str = "settings.lock";
/// How long another writer is waited for.
const WAIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The lock; dropping it gives it back.
pub(super) struct Held(File);

impl Drop for Held {
    fn drop(&mut self) {
        // Closing alone is not enough while a process that is just being started has a copy.
        drop(self.0.unlock());
    }
}

/// The file as it is.
pub(super) struct Content {
    /// Empty when there is no file.
    pub(super) text: String,
    hash: Option<ContentHash>,
}

impl Content {
    pub(super) fn is_absent(&self) -> bool {
        self.hash.is_none()
    }
}

/// Makes the home when there is none.
pub(super) fn make_home(home: &Path) -> Result<(), CliError> {
    let missing: Vec<&Path> = home.ancestors().take_while(|path| !path.exists()).collect();
    let refused = |error: std::io::Error| {
        CliError::config(format!("the home cannot be made at {}: {error}", home.display()))
            .with_hint("set REINS_HOME to a place where you can write")
    };
    DirBuilder::new().recursive(true).mode(0o700).create(home).map_err(refused)?;
    missing.iter().filter_map(|path| path.parent()).try_for_each(sync_folder).map_err(refused)
}

/// Waits for other writers, but not for ever.
pub(super) async fn lock(home: &Path) -> Result<Held, CliError> {
    let path = home.join(LOCK);
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits();
    let opened = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.cast_signed())
        .open(&path);
    let file = opened.map_err(|error| refused(&path, &error))?;
    let until = Instant::now() + WAIT;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Held(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < until => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            Err(TryLockError::WouldBlock) => {
                let (path, seconds) = (path.display(), WAIT.as_secs());
                let message = format!(
                    "{path}: another process has been changing the settings for {seconds} s"
                );
                return Err(CliError::config(message).with_hint("try again when it is done"));
            }
            Err(TryLockError::Error(error)) => return Err(refused(&path, &error)),
        }
    }
}

/// The file's text; a link to nothing is no file.
pub(super) async fn read(home: &Path) -> Result<Content, CliError> {
    let read = LocalFs::new(1).read(home, NAME, MAX_LAYER_BYTES as u64).await;
    let read = match read {
        Ok(read) => read,
        Err(FsError::NotFound { .. }) => return Ok(Content { text: String::new(), hash: None }),
        Err(error) => return Err(unusable(&error)),
    };
    let text = String::from_utf8(read.bytes).map_err(|error| {
        let line = bytes_before(&error).matches('\n').count() + 1;
        CliError::config(format!("{}:{line}: not UTF-8", home.join(NAME).display()))
            .with_hint("mend the file with an editor")
    })?;
    Ok(Content { text, hash: Some(read.hash) })
}

fn bytes_before(error: &std::string::FromUtf8Error) -> String {
    let valid = error.utf8_error().valid_up_to();
    String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned()
}

/// Writes the file when it still is as it was read: a link stays one and its target is written, a
/// file keeps its mode, a new one is for its owner only.
pub(super) async fn write(home: &Path, old: &Content, text: &str) -> Result<(), CliError> {
    let files = LocalFs::new(1);
    let Some(hash) = old.hash else {
        let place = files.resolve(home, NAME).await.map_err(|error| unusable(&error))?;
        return create(&place.real, text);
    };
    let content = text.as_bytes().to_vec();
    let written = files.replace(home, NAME, content, Expect::Hash(hash)).await;
    written.map(drop).map_err(|error| unusable(&error))
}

fn create(path: &Path, text: &str) -> Result<(), CliError> {
    let folder = path.parent().unwrap_or(path);
    let written =
        tempfile::Builder::new().prefix(".settings-").tempfile_in(folder).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.as_file().sync_all()?;
            file.persist_noclobber(path).map_err(|error| error.error)?;
            sync_folder(folder)
        });
    written.map_err(|error| refused(path, &error))
}

fn sync_folder(folder: &Path) -> std::io::Result<()> {
    File::open(folder)?.sync_all()
}

/// The place that an editor shall open: behind links.
pub(super) async fn target(home: &Path) -> Result<PathBuf, CliError> {
    let place = LocalFs::new(1).resolve(home, NAME).await.map_err(|error| unusable(&error))?;
    Ok(place.real)
}

fn refused(path: &Path, error: &std::io::Error) -> CliError {
    CliError::config(format!("{}: {error}", path.display()))
        .with_hint("the settings are as they were")
}

fn unusable(error: &FsError) -> CliError {
    CliError::config(error.to_string()).with_hint("the settings are as they were")
}
