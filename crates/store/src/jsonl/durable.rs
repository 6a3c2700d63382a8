//! Changes to files that are durable when they return, and whole or absent after a crash.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::{Disk, Through};
use super::files;
use crate::{StoreError, zst};

const COPY_BYTES: usize = 128 << 10;

/// How many names are tried for one thing that is kept.
const KEPT_MAX: u32 = 1000;

/// How often a call that a signal interrupted is made again.
const INTERRUPTED_MAX: u32 = 100;

/// A disk, and what is built from its single operations.
#[derive(Clone, Debug)]
pub(crate) struct Durable {
    disk: Arc<dyn Disk>,
}

/// How the content of a file is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Plain,
    Sealed,
    /// Plain, and made anew when it is lost: nothing is synced.
    Derived,
}

impl Durable {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }

    pub(crate) fn sync_dir(&self, path: &Path) -> Result<(), StoreError> {
        again(|| self.disk.sync_dir(path)).map_err(|e| StoreError::io(path, e))
    }

    pub(crate) fn sync_file(&self, file: &File) -> io::Result<()> {
        again(|| self.disk.sync_file(file))
    }

    pub(crate) fn write_all(&self, file: &File, bytes: &[u8]) -> io::Result<()> {
        Through { disk: &*self.disk, file }.write_all(bytes)
    }

    /// Cuts durably.
    pub(crate) fn cut(&self, file: &File, length: u64) -> io::Result<()> {
        again(|| self.disk.set_len(file, length))?;
        self.sync_file(file)
    }

    pub(crate) fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        again(|| self.disk.rename(from, to))
    }

    pub(crate) fn make_dir(&self, path: &Path) -> io::Result<()> {
        again(|| self.disk.make_dir(path))
    }

    /// Makes an empty file that must not exist. Nothing of it is durable yet.
    pub(crate) fn make_empty(&self, path: &Path) -> io::Result<()> {
        again(|| self.disk.create_new(path)).map(drop)
    }

    /// Removes a file; one that is not there is removed.
    pub(crate) fn unlink(&self, path: &Path) -> Result<(), StoreError> {
        match again(|| self.disk.unlink(path)) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
            done => done.map_err(|e| StoreError::io(path, e)),
        }
    }

    /// Makes a folder and those above it that are missing, each durable in its parent.
    pub(crate) fn make_dirs(&self, path: &Path) -> Result<(), StoreError> {
        let missing: Vec<&Path> = path.ancestors().take_while(|p| !p.is_dir()).collect();
        for dir in missing.into_iter().rev().filter(|dir| !dir.as_os_str().is_empty()) {
            match self.make_dir(dir) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::AlreadyExists && dir.is_dir() => {}
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    return Err(StoreError::HomeNotDirectory { path: dir.to_path_buf() });
                }
                Err(e) => return Err(StoreError::making_home(dir, e)),
            }
            let parent = dir.parent().filter(|p| !p.as_os_str().is_empty());
            self.sync_dir(parent.unwrap_or(Path::new(".")))?;
        }
        Ok(())
    }

    /// Writes a file that must not exist; its folder is for the caller to sync. When that fails
    /// there is none.
    pub(crate) fn write_new(
        &self,
        path: &Path,
        content: &mut dyn Read,
        form: Form,
    ) -> Result<(), StoreError> {
        let io = |e| StoreError::io(path, e);
        let file = again(|| self.disk.create_new(path)).map_err(io)?;
        let written = self.fill(&file, content, form);
        if written.is_err() {
            // The first error is the one to tell.
            drop(self.disk.unlink(path));
        }
        written.map_err(io)
    }

    fn fill(&self, file: &File, content: &mut dyn Read, form: Form) -> io::Result<()> {
        let mut out = Through { disk: &*self.disk, file };
        match form {
            Form::Sealed => drop(zst::compress(content, &mut out)?),
            Form::Plain | Form::Derived => copy(content, &mut out)?,
        }
        if form == Form::Derived { Ok(()) } else { self.sync_file(file) }
    }

    /// Writes a file under a temporary name and renames it, so that it is whole or absent, and
    /// what stood there before is whole until then.
    pub(crate) fn publish(
        &self,
        path: &Path,
        content: &mut dyn Read,
        form: Form,
    ) -> Result<(), StoreError> {
        let temp = self.write_temp(path, content, form)?;
        self.put_in_place(&temp, path)?;
        if form == Form::Derived { Ok(()) } else { self.sync_dir(folder_of(path)) }
    }

    /// Writes a temporary file beside `path`.
    pub(crate) fn write_temp(
        &self,
        path: &Path,
        content: &mut dyn Read,
        form: Form,
    ) -> Result<PathBuf, StoreError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let unique = UNIQUE.fetch_add(1, Ordering::Relaxed);
        let temp = path.with_file_name(format!(".{name}.{}-{unique}.tmp", std::process::id()));
        self.write_new(&temp, content, form)?;
        Ok(temp)
    }

    /// Renames a temporary file, or removes it when that is refused.
    pub(crate) fn put_in_place(&self, temp: &Path, path: &Path) -> Result<(), StoreError> {
        let renamed = self.rename(temp, path);
        if renamed.is_err() {
            drop(self.disk.unlink(temp));
        }
        renamed.map_err(|e| StoreError::io(path, e))
    }

    /// Dates a file as another one. Best effort: it only informs.
    pub(crate) fn date_as(&self, path: &Path, other: &Path) {
        let time = fs::metadata(other).and_then(|meta| meta.modified());
        let dated = time.and_then(|time| {
            let file = File::options().write(true).open(path)?;
            self.disk.set_modified(&file, time)
        });
        drop(dated);
    }

    /// Keeps content under a name in a folder, or under the name with a number when another
    /// content has it. Returns the name. Keeping the same again does nothing.
    pub(crate) fn keep(
        &self,
        folder: &Path,
        name: &str,
        content: &mut dyn Read,
    ) -> Result<String, StoreError> {
        let temp = self.write_temp(&folder.join(name), content, Form::Plain)?;
        let kept = self.name_for(folder, name, &temp).and_then(|(name, is_kept)| {
            if is_kept {
                self.unlink(&temp)?;
            } else {
                self.put_in_place(&temp, &folder.join(&name))?;
            }
            Ok(name)
        });
        if kept.is_err() {
            drop(self.disk.unlink(&temp));
        }
        self.sync_dir(folder)?;
        kept
    }

    /// As [`Durable::keep`], for a file that nobody changes any more: it gets one more name.
    pub(crate) fn keep_file(
        &self,
        folder: &Path,
        name: &str,
        file: &Path,
    ) -> Result<String, StoreError> {
        let (name, is_kept) = self.name_for(folder, name, file)?;
        if !is_kept {
            self.link_or_copy(file, &folder.join(&name))?;
        }
        self.sync_dir(folder)?;
        Ok(name)
    }

    /// Gives what stands where a file belongs a name that is free. Returns the name.
    pub(crate) fn move_aside(
        &self,
        folder: &Path,
        name: &str,
        what: &Path,
    ) -> Result<String, StoreError> {
        let is_free = |name: &String| folder.join(name).symlink_metadata().is_err();
        let Some(name) = names(name).find(is_free) else { return Err(no_name(folder, name)) };
        self.rename(what, &folder.join(&name)).map_err(|e| StoreError::io(what, e))?;
        self.sync_dir(folder)?;
        Ok(name)
    }

    /// A name that is free or has the content of `file` already, and which of both.
    fn name_for(
        &self,
        folder: &Path,
        name: &str,
        file: &Path,
    ) -> Result<(String, bool), StoreError> {
        for name in names(name) {
            let path = folder.join(&name);
            match fs::symlink_metadata(&path) {
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok((name, false)),
                Err(e) => return Err(StoreError::io(&path, e)),
                Ok(meta) if !meta.is_file() => {}
                Ok(_) => {
                    let mut there = files::open_to_read(&path)?;
                    let mut wanted = files::open_to_read(file)?;
                    let is_same = is_equal(&mut there, &mut wanted);
                    if is_same.map_err(|e| StoreError::io(&path, e))? {
                        return Ok((name, true));
                    }
                }
            }
        }
        Err(no_name(folder, name))
    }

    /// Gives a file that nobody changes any more a second name, or where there are no links
    /// copies it. The folder is for the caller to sync.
    pub(crate) fn link_or_copy(&self, from: &Path, to: &Path) -> Result<(), StoreError> {
        match again(|| self.disk.link(from, to)) {
            Ok(()) => Ok(()),
            Err(e) if has_no_links(&e) => {
                let mut file = files::open_to_read(from)?;
                self.write_new(to, &mut file, Form::Plain)
            }
            Err(e) => Err(StoreError::io(from, e)),
        }
    }

    /// Removes a folder with what is in it; the entry `last` at its top goes last.
    pub(crate) fn remove_tree(&self, path: &Path, last: &str) -> Result<(), StoreError> {
        let io = |e| StoreError::io(path, e);
        for entry in fs::read_dir(path).map_err(io)? {
            let entry = entry.map_err(io)?;
            if entry.file_name() == last {
                continue;
            }
            let at = entry.path();
            if entry.file_type().map_err(|e| StoreError::io(&at, e))?.is_dir() {
                self.remove_tree(&at, "")?;
            } else {
                self.unlink(&at)?;
            }
        }
        if !last.is_empty() {
            self.unlink(&path.join(last))?;
        }
        again(|| self.disk.remove_dir(path)).map_err(io)
    }
}

/// The name itself, then the name with numbers.
fn names(name: &str) -> impl Iterator<Item = String> + '_ {
    let (stem, kind) = name.split_at(name.find('.').unwrap_or(name.len()));
    let numbered = (2..=KEPT_MAX).map(move |number| format!("{stem}-{number}{kind}"));
    std::iter::once(name.to_owned()).chain(numbered)
}

fn no_name(folder: &Path, name: &str) -> StoreError {
    let problem = format!("{KEPT_MAX} other originals are kept there as `{name}`");
    StoreError::unreadable(folder, problem, "move some of them away")
}

static UNIQUE: AtomicU64 = AtomicU64::new(0);

/// The process that made a temporary file, by its name; `None` for any other name.
pub(crate) fn maker_of_temp(name: &str) -> Option<u32> {
    let (_, mark) = name.strip_prefix('.')?.strip_suffix(".tmp")?.rsplit_once('.')?;
    let (pid, unique) = mark.split_once('-')?;
    unique.parse::<u64>().ok()?;
    pid.parse().ok()
}

/// Whether two streams have the same bytes.
pub(crate) fn is_equal(one: &mut dyn Read, other: &mut dyn Read) -> io::Result<bool> {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        left.clear();
        right.clear();
        (&mut *one).take(COPY_BYTES as u64).read_to_end(&mut left)?;
        (&mut *other).take(COPY_BYTES as u64).read_to_end(&mut right)?;
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
    }
}

fn copy(content: &mut dyn Read, out: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => out.write_all(&buffer[..read])?,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..INTERRUPTED_MAX {
        match call() {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
    call()
}

/// Other file system, links not known there or not allowed, too many of them.
fn has_no_links(error: &io::Error) -> bool {
    use ErrorKind::{CrossesDevices, PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), CrossesDevices | PermissionDenied | TooManyLinks | Unsupported)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}
