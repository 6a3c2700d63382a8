//! A disk that refuses, shortens or stops one call, and forgets what was not synced.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use reins_store::{Disk, RealDisk};
use rustix::io::Errno;

/// What happens at one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is refused, once.
    Refused(Errno),
    /// A write takes a part, and the call after it is interrupted.
    Short,
    /// From then on nothing can grow; a write takes a part first.
    Full,
    /// The process ends there; of a write, a part may be done.
    Killed,
}

/// A small generator, so that a seed repeats a run.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(2) | 1)
    }

    /// A number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
        usize::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }
}

/// The real file system, in which the `at`-th changing call meets a fault.
#[derive(Debug)]
pub(crate) struct FaultyDisk {
    state: Mutex<State>,
}

/// A file or folder, however it is named now.
type Inode = (u64, u64);

#[derive(Debug)]
struct State {
    at: usize,
    fault: Fault,
    calls: usize,
    is_dead: bool,
    random: Random,
    /// Files that were changed since they were synced.
    files: HashMap<Inode, Dirty>,
    /// Folders whose entries were changed since they were synced.
    folders: HashMap<Inode, Changed>,
    /// What was removed lies here: after a power cut it may be back.
    graves: PathBuf,
    buried: usize,
}

#[derive(Debug)]
struct Dirty {
    file: File,
    synced: Vec<u8>,
}

#[derive(Debug)]
struct Changed {
    folder: File,
    changes: Vec<Change>,
}

#[derive(Debug)]
enum Change {
    Added { name: PathBuf },
    Removed { name: PathBuf, grave: PathBuf },
    Renamed { from: PathBuf, to: PathBuf, replaced: Option<PathBuf> },
}

impl FaultyDisk {
    /// `graves` is an empty folder of the same file system, outside of the home.
    pub(crate) fn new(graves: &Path, fault: Fault, at: usize, seed: u64) -> Self {
        let state = State {
            at,
            fault,
            calls: 0,
            is_dead: false,
            random: Random::new(seed),
            files: HashMap::new(),
            folders: HashMap::new(),
            graves: graves.to_path_buf(),
            buried: 0,
        };
        Self { state: Mutex::new(state) }
    }

    /// How many calls there were.
    pub(crate) fn calls(&self) -> usize {
        self.lock().calls
    }

    /// Another process uses the disk; no fault will come.
    pub(crate) fn revive(&self) {
        let mut state = self.lock();
        state.is_dead = false;
        state.at = usize::MAX;
    }

    /// The power fails: of what was not synced, anything between the old and the new may be there.
    pub(crate) fn cut_power(&self) {
        let mut state = self.lock();
        let State { random, files, folders, graves, .. } = &mut *state;
        let mut inodes: Vec<Inode> = files.keys().copied().collect();
        inodes.sort_unstable();
        for inode in inodes {
            files.remove(&inode).unwrap().lose(random);
        }
        let mut inodes: Vec<Inode> = folders.keys().copied().collect();
        inodes.sort_unstable();
        for inode in inodes {
            folders.remove(&inode).unwrap().lose(random, graves);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T>(
        &self,
        grows: bool,
        perform: impl FnOnce(&mut State) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.lock();
        match state.next(grows)? {
            Turn::Done => perform(&mut state),
            Turn::Last => {
                if state.random.below(2) == 0 {
                    drop(perform(&mut state));
                }
                Err(gone())
            }
        }
    }
}

enum Turn {
    Done,
    /// The process ends with this call.
    Last,
}

impl State {
    fn next(&mut self, grows: bool) -> io::Result<Turn> {
        if self.is_dead {
            return Err(gone());
        }
        self.calls += 1;
        let (is_at, is_after) = (self.calls == self.at, self.calls > self.at);
        match self.fault {
            Fault::Refused(errno) if is_at => Err(errno.into()),
            Fault::Short if self.calls == self.at.saturating_add(1) => Err(Errno::INTR.into()),
            Fault::Full if grows && (is_at || is_after) => Err(Errno::NOSPC.into()),
            Fault::Killed if is_at => {
                self.is_dead = true;
                Ok(Turn::Last)
            }
            _ => Ok(Turn::Done),
        }
    }

    fn grave(&mut self) -> PathBuf {
        self.buried += 1;
        self.graves.join(self.buried.to_string())
    }

    fn dirty(&mut self, file: &File) -> io::Result<()> {
        let inode = inode(&file.metadata()?);
        if self.files.contains_key(&inode) {
            return Ok(());
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let synced = fs::read(&path)?;
        let file = File::options().read(true).write(true).open(&path)?;
        self.files.insert(inode, Dirty { file, synced });
        Ok(())
    }

    fn changed(&mut self, path: &Path, change: impl FnOnce(PathBuf) -> Change) -> io::Result<()> {
        let folder = File::open(path.parent().unwrap())?;
        let inode = inode(&folder.metadata()?);
        let new = || Changed { folder, changes: Vec::new() };
        let name = PathBuf::from(path.file_name().unwrap());
        self.folders.entry(inode).or_insert_with(new).changes.push(change(name));
        Ok(())
    }
}

impl Dirty {
    fn lose(self, random: &mut Random) {
        let new = read_all(&self.file);
        let old = self.synced;
        let kept = match random.below(4) {
            0 => old,
            1 => new,
            // As far as it was written, or with blocks that were never written.
            way => {
                let common = new.iter().zip(&old).take_while(|(new, old)| new == old).count();
                let end = common + random.below(new.len() + 1 - common.min(new.len()));
                let mut kept = new[..end].to_vec();
                if way == 3 {
                    kept.resize(new.len(), 0);
                }
                kept
            }
        };
        self.file.set_len(0).unwrap();
        self.file.write_all_at(&kept, 0).unwrap();
    }
}

impl Changed {
    fn lose(self, random: &mut Random, graves: &Path) {
        let folder = PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd()));
        let kept = random.below(self.changes.len() + 1);
        for (number, change) in self.changes.into_iter().enumerate().skip(kept).rev() {
            match change {
                Change::Added { name } => {
                    let grave = format!("lost-{}-{number}", self.folder.as_raw_fd());
                    fs::rename(folder.join(name), graves.join(grave)).unwrap();
                }
                Change::Removed { name, grave } => {
                    fs::rename(grave, folder.join(name)).unwrap();
                }
                Change::Renamed { from, to, replaced } => {
                    fs::rename(folder.join(&to), folder.join(from)).unwrap();
                    if let Some(grave) = replaced {
                        fs::rename(grave, folder.join(to)).unwrap();
                    }
                }
            }
        }
    }
}

fn read_all(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn inode(meta: &fs::Metadata) -> Inode {
    (meta.dev(), meta.ino())
}

fn gone() -> io::Error {
    Errno::IO.into()
}

impl Disk for FaultyDisk {
    fn create_new(&self, path: &Path) -> io::Result<File> {
        self.call(true, |state| {
            let file = RealDisk.create_new(path)?;
            state.changed(path, |name| Change::Added { name })?;
            Ok(file)
        })
    }

    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.lock();
        let is_at = !state.is_dead && state.calls + 1 == state.at;
        let part = state.random.below(bytes.len());
        if is_at && matches!(state.fault, Fault::Short | Fault::Full) && part > 0 {
            state.calls += 1;
            state.dirty(file)?;
            return RealDisk.write(file, &bytes[..part]);
        }
        match state.next(true)? {
            Turn::Done => {
                state.dirty(file)?;
                RealDisk.write(file, bytes)
            }
            Turn::Last => {
                state.dirty(file)?;
                drop(RealDisk.write(file, &bytes[..part]));
                Err(gone())
            }
        }
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        self.call(false, |state| {
            state.files.remove(&inode(&file.metadata()?));
            Ok(())
        })
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.call(false, |state| {
            state.folders.remove(&inode(&fs::metadata(path)?));
            Ok(())
        })
    }

    fn set_len(&self, file: &File, length: u64) -> io::Result<()> {
        self.call(false, |state| {
            state.dirty(file)?;
            RealDisk.set_len(file, length)
        })
    }

    fn set_modified(&self, file: &File, time: SystemTime) -> io::Result<()> {
        self.call(false, |_| RealDisk.set_modified(file, time))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        assert_eq!(from.parent(), to.parent(), "a rename between folders is no single change");
        self.call(false, |state| {
            let replaced = match fs::symlink_metadata(to) {
                Ok(meta) if meta.is_file() && from.is_file() => Some(state.grave()),
                _ => None,
            };
            if let Some(grave) = &replaced {
                fs::hard_link(to, grave)?;
            }
            RealDisk.rename(from, to)?;
            let old = PathBuf::from(from.file_name().unwrap());
            state.changed(to, |name| Change::Renamed { from: old, to: name, replaced })
        })
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.call(true, |state| {
            RealDisk.link(from, to)?;
            state.changed(to, |name| Change::Added { name })
        })
    }

    fn make_dir(&self, path: &Path) -> io::Result<()> {
        self.call(true, |state| {
            RealDisk.make_dir(path)?;
            state.changed(path, |name| Change::Added { name })
        })
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.call(false, |state| {
            let grave = state.grave();
            if fs::symlink_metadata(path)?.is_dir() {
                return Err(Errno::ISDIR.into());
            }
            fs::rename(path, &grave)?;
            state.changed(path, |name| Change::Removed { name, grave })
        })
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.call(false, |state| {
            if fs::read_dir(path)?.next().is_some() {
                return Err(Errno::NOTEMPTY.into());
            }
            let grave = state.grave();
            fs::rename(path, &grave)?;
            state.changed(path, |name| Change::Removed { name, grave })
        })
    }
}
