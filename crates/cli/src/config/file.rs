//! The file `<home>/settings.toml`: one writer at a time, all or nothing.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata, TryLockError};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use reins_kernel::MAX_LAYER_BYTES;
use reins_store::StoreError;
use reins_world::{ContentHash, Expect, Fs as _, FsError, LocalFs};
use tokio::time::Instant;

use crate::exit::CliError;
use crate::terminal;

/// The file's name in the home.
const NAME: &str = "settings.toml";
/// Beside it; whoever holds the lock on it may write.
const LOCK: &str = "settings.lock";
/// How long another writer is waited for.
const WAIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A first file on its way has a name between these two.
const NEW_START: &str = ".settings-";
const NEW_END: &str = ".tmp";
/// Names of a folder that are looked at for copies that were left.
const MAX_NAMES: usize = 10_000;

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

/// Refuses a home as a run does. The administrator is refused another user's home, too: whose home
/// it is could not use the files that appear there.
pub(super) fn check_home(home: &Path) -> Result<(), CliError> {
    reins_store::check_home(home)?;
    let nearest = home.ancestors().find_map(|path| Some((path, path.metadata().ok()?)));
    let user = rustix::process::geteuid().as_raw();
    match nearest {
        Some((path, found)) if found.uid() != user && rustix::process::geteuid().is_root() => {
            Err(StoreError::NotOurs { path: path.to_owned(), owner: found.uid() }.into())
        }
        _ => Ok(()),
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

/// Waits for other writers, but not for ever, and removes what killed ones left.
pub(super) async fn lock(home: &Path) -> Result<Held, CliError> {
    let held = wait_for_lock(&home.join(LOCK)).await?;
    remove_left(home).await;
    Ok(held)
}

/// Copies of settings hold keys. What cannot be removed is said and hinders nothing.
async fn remove_left(home: &Path) {
    // Where the settings lead nowhere, no writer left anything; reading them says what is wrong.
    let Ok(target) = target(home).await else { return };
    let folder = target.parent().unwrap_or(home);
    if let Err(error) = remove_copies(folder)
        && error.kind() != ErrorKind::NotFound
    {
        terminal::note(&format!(
            "warning: {}: whether a killed process left copies of the settings here cannot be \
             seen: {error}",
            folder.display()
        ));
    }
}

fn remove_copies(folder: &Path) -> std::io::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    for entry in folder.read_dir()?.take(MAX_NAMES) {
        let entry = entry?;
        let is_own = |found: Metadata| found.is_file() && found.uid() == user;
        if !is_copy(&entry.file_name()) || !entry.metadata().is_ok_and(is_own) {
            continue;
        }
        let path = entry.path();
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => terminal::note(&format!(
                "warning: {}: a copy of the settings that a killed process left; it cannot be \
                 removed: {error}",
                path.display()
            )),
            _ => {}
        }
    }
    Ok(())
}

fn is_copy(name: &OsStr) -> bool {
    let is_new = |name: &str| name.starts_with(NEW_START) && name.ends_with(NEW_END);
    LocalFs::is_temporary(name) || name.to_str().is_some_and(is_new)
}

async fn wait_for_lock(path: &Path) -> Result<Held, CliError> {
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits();
    let opened = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.cast_signed())
        .open(path);
    let file = opened.map_err(|error| refused(path, &error))?;
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
            Err(TryLockError::Error(error)) => return Err(refused(path, &error)),
        }
    }
}

/// The file's text; a link to nothing is no file.
pub(super) async fn read(home: &Path) -> Result<Content, CliError> {
    let read = LocalFs::new(1).read(home, &asked(home), MAX_LAYER_BYTES as u64).await;
    let read = match read {
        Ok(read) => read,
        Err(FsError::NotFound { .. }) => return Ok(Content { text: String::new(), hash: None }),
        Err(error) => return Err(unusable(&error)),
    };
    let path = home.join(NAME);
    if read.bytes.starts_with(b"\xff\xfe") || read.bytes.starts_with(b"\xfe\xff") {
        let message = format!("{}: saved as UTF-16; save it as UTF-8", path.display());
        return Err(CliError::config(message).with_hint(AS_IT_WAS));
    }
    let text = String::from_utf8(read.bytes).map_err(|error| {
        let line = bytes_before(&error).matches('\n').count() + 1;
        let place = format!("{}:{line}", path.display());
        CliError::config(format!("{place}: not UTF-8; save the file as UTF-8")).with_hint(AS_IT_WAS)
    })?;
    Ok(Content { text, hash: Some(read.hash) })
}

/// The file's whole path, so that errors name it; where it cannot be said, its name in the home.
fn asked(home: &Path) -> String {
    home.join(NAME).to_str().unwrap_or(NAME).to_owned()
}

fn bytes_before(error: &std::string::FromUtf8Error) -> String {
    let valid = error.utf8_error().valid_up_to();
    String::from_utf8_lossy(&error.as_bytes()[..valid]).into_owned()
}

/// Writes the file when it still is as it was read: a link stays one and its target is written, a
/// file keeps its mode, a new one is for its owner only. Nothing is written in place, so whoever is
/// killed leaves a whole file.
pub(super) async fn write(home: &Path, old: &Content, text: &str) -> Result<(), CliError> {
    let files = LocalFs::new(1);
    let Some(hash) = old.hash else {
        let place = files.resolve(home, &asked(home)).await.map_err(|e| unusable(&e))?;
        return create(&place.real, text);
    };
    let content = text.as_bytes().to_vec();
    let written = files.replace_whole(home, &asked(home), content, Expect::Hash(hash)).await;
    written.map(drop).map_err(|error| match error {
        FsError::NotReplaceable { .. } => {
            CliError::config(error.to_string()).with_hints([NEVER_HALF, AS_IT_WAS])
        }
        other => unusable(&other),
    })
}

fn create(path: &Path, text: &str) -> Result<(), CliError> {
    let folder = path.parent().unwrap_or(path);
    let written = new_file().tempfile_in(folder).and_then(|mut file| {
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
    let place = LocalFs::new(1).resolve(home, &asked(home)).await.map_err(|e| unusable(&e))?;
    Ok(place.real)
}

const AS_IT_WAS: &str = "the settings are as they were";
const NEVER_HALF: &str = "writing into the old file could leave half of it; make it a file of its \
                          own, or change it with `reins config edit`";

fn new_file() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(NEW_START).suffix(NEW_END);
    builder
}

fn refused(path: &Path, error: &std::io::Error) -> CliError {
    CliError::config(format!("{}: {error}", path.display())).with_hint(AS_IT_WAS)
}

fn unusable(error: &FsError) -> CliError {
    CliError::config(error.to_string()).with_hint(AS_IT_WAS)
}
