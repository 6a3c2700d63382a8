//! New content for a file, all or nothing.
//!
//! As a rule a temporary file beside the old one gets its content, mode, owner and attributes and
//! is renamed over it. Where a new file cannot stand in for the old one (hard links, an owner that
//! cannot be kept, a mount point, a folder that takes no new names), the old one is written in
//! place, after room for it was reserved. Between the last look at the old content and the
//! publication lie some microseconds in which another program's write is lost; writes through
//! one [`super::LocalFs`] are serialised.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{
    Access, AtFlags, FileType, Gid, Mode, OFlags, Stat, Uid, accessat, fchmod, fchown, fstat,
    linkat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::dir::{self, Dir, Made};
use super::errors::{about, from_errno, from_io};
use super::hash;
use super::place::{ATTEMPTS, keeps_changing, open_file, resolve};
use super::stop::Stop;
use super::xattrs;
use crate::fs::{ContentHash, Expect, FileKind, FsError, Replaced};

const STRIPES: usize = 64;
const NAME_TRIES: u32 = 8;

/// Between the two stand 16 characters.
const TEMP_START: &str = ".reins-";
const TEMP_END: &str = ".tmp";

/// Serialises mutations of one path; some different paths share a lock, which only costs time.
pub(super) struct Locks {
    hasher: RandomState,
    stripes: [Mutex<()>; STRIPES],
    /// Names of one hard-linked file have different stripes. Taken after a stripe.
    in_place: Mutex<()>,
}

impl Default for Locks {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            stripes: std::array::from_fn(|_| Mutex::new(())),
            in_place: Mutex::new(()),
        }
    }
}

impl Locks {
    fn lock(&self, real: &Path) -> MutexGuard<'_, ()> {
        let stripe = self.hasher.hash_one(real) % STRIPES as u64;
        hold(&self.stripes[usize::try_from(stripe).unwrap_or_default()])
    }
}

/// The mutexes guard no data that a panic could have left half done.
fn hold(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What shall be there afterwards, and what must be there before.
pub(super) struct Wanted {
    content: Vec<u8>,
    hash: ContentHash,
    expect: Expect,
    /// Whether the old file may be written in place.
    in_place: bool,
}

impl Wanted {
    pub(super) fn new(content: Vec<u8>, expect: Expect) -> Self {
        let hash = hash::of_bytes(&content);
        Self { content, hash, expect, in_place: true }
    }

    /// For content of which a half would be worse than the old one.
    pub(super) fn never_in_place(self) -> Self {
        Self { in_place: false, ..self }
    }
}

/// Resolves, then publishes; again when the path changes in between.
pub(super) fn replace(
    locks: &Locks,
    cwd: &Path,
    path: &str,
    wanted: &Wanted,
    stop: &Stop,
) -> Result<Replaced, FsError> {
    let asked = Path::new(path);
    for _ in 0..ATTEMPTS {
        let found = resolve(cwd, path)?;
        match found.place.kind {
            None if !path.ends_with('/') => {}
            Some(FileKind::File) => {}
            None => return Err(not_regular(asked, "directory")),
            Some(FileKind::Directory | FileKind::Special) => {
                return Err(not_regular(asked, found.words));
            }
        }
        match replace_at(locks, &found.place.real, wanted, stop) {
            Err(FsError::Moved { .. }) => {}
            done => return done.map_err(|error| about(error, asked)),
        }
    }
    Err(keeps_changing(asked))
}

/// Publishes at a resolved place; a link on the way is [`FsError::Moved`].
pub(super) fn replace_at(
    locks: &Locks,
    real: &Path,
    wanted: &Wanted,
    stop: &Stop,
) -> Result<Replaced, FsError> {
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(not_regular(real, "directory"));
    };
    let _one_at_a_time = locks.lock(real);
    let mut made = Made::default();
    let dir = match dir::open(parent) {
        Err(Errno::NOENT) if matches!(wanted.expect, Expect::Hash(_)) => return Err(stale(real)),
        Err(Errno::NOENT) => dir::open_or_make(parent, &mut made),
        opened => opened,
    };
    let dir = dir.map_err(|errno| moved_or(parent, errno))?;
    let task = Task { dir: &dir, name, real, wanted, stop };
    let created = task.publish(locks)?;
    made.keep();
    Ok(Replaced { real: real.to_path_buf(), created, hash: wanted.hash })
}

struct Task<'a> {
    dir: &'a Dir,
    name: &'a OsStr,
    real: &'a Path,
    wanted: &'a Wanted,
    stop: &'a Stop,
}

struct Old {
    file: File,
    stat: Stat,
}

/// Why a new file cannot stand in for the old one, or another end.
enum Beside {
    /// Write the old one in place; why.
    InPlace(String),
    Error(FsError),
}

impl From<FsError> for Beside {
    fn from(error: FsError) -> Self {
        Self::Error(error)
    }
}

impl Task<'_> {
    /// Whether a file was created.
    fn publish(&self, locks: &Locks) -> Result<bool, FsError> {
        let Some(old) = self.open_old()? else {
            return match self.write_beside(None) {
                Ok(()) => Ok(true),
                // Only asked for when there is an old file.
                Err(Beside::InPlace(_)) => Err(self.refused(Errno::BUSY)),
                Err(Beside::Error(error)) => Err(error),
            };
        };
        if self.wanted.expect == Expect::Absent {
            return Err(FsError::Exists { path: self.real.to_path_buf() });
        }
        let hash = hash::of_file(&old.file, self.stop).map_err(|error| self.broken(&error))?;
        self.require(hash)?;
        if hash == self.wanted.hash {
            return Ok(false);
        }
        accessat(self.dir, self.name, Access::WRITE_OK, AtFlags::EACCESS)
            .map_err(|errno| self.refused(errno))?;
        let beside = match old.stat.st_nlink {
            1 => self.write_beside(Some(&old)),
            names => Err(Beside::InPlace(format!("it has {names} names (hard links)"))),
        };
        match beside {
            Ok(()) => {}
            Err(Beside::Error(error)) => return Err(error),
            Err(Beside::InPlace(why)) if !self.wanted.in_place => {
                let path = self.real.to_path_buf();
                return Err(FsError::NotReplaceable { path, problem: why });
            }
            Err(Beside::InPlace(_)) => {
                let _one_at_a_time = hold(&locks.in_place);
                self.write_in_place(&old)?;
            }
        }
        Ok(false)
    }

    fn open_old(&self) -> Result<Option<Old>, FsError> {
        let stat = match statat(self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) if matches!(self.wanted.expect, Expect::Hash(_)) => {
                return Err(stale(self.real));
            }
            Err(Errno::NOENT) => return Ok(None),
            found => found.map_err(|errno| self.refused(errno))?,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => return Err(self.moved()),
            other => return Err(not_regular(self.real, words(other))),
        }
        let file = open_file(self.dir, self.name, OFlags::RDONLY)
            .map_err(|errno| moved_or(self.real, errno))?;
        let stat = fstat(&file).map_err(|errno| self.refused(errno))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(self.moved());
        }
        Ok(Some(Old { file, stat }))
    }

    fn require(&self, hash: ContentHash) -> Result<(), FsError> {
        match self.wanted.expect {
            Expect::Hash(expected) if expected != hash => Err(stale(self.real)),
            Expect::Hash(_) | Expect::Any | Expect::Absent => Ok(()),
        }
    }

    /// The last look, right before the publication.
    fn still_holds(&self) -> Result<(), FsError> {
        self.stop.check().map_err(|error| self.broken(&error))?;
        if let Expect::Hash(_) = self.wanted.expect {
            let Some(now) = self.open_old()? else { return Err(stale(self.real)) };
            let hash = hash::of_file(&now.file, self.stop).map_err(|error| self.broken(&error))?;
            self.require(hash)?;
        }
        Ok(())
    }

    fn write_beside(&self, old: Option<&Old>) -> Result<(), Beside> {
        let (mut temp, mut file) = match (Temp::create(self.dir, old.is_some()), old) {
            (Err(Errno::ACCESS | Errno::PERM | Errno::ROFS), Some(_)) => {
                return Err(Beside::InPlace("its folder takes no new files".to_owned()));
            }
            (Err(Errno::NOENT), _) => return Err(self.moved().into()),
            (created, _) => created.map_err(|errno| self.refused(errno))?,
        };
        file.write_all(&self.wanted.content).map_err(|error| self.broken(&error))?;
        if let Some(old) = old {
            self.take_after(&file, old)?;
        }
        file.sync_all().map_err(|error| self.broken(&error))?;
        self.still_holds()?;
        let published = match (old, self.wanted.expect) {
            (None, Expect::Absent) => temp.publish_new(self.name),
            _ => renameat(self.dir, &temp.name, self.dir, self.name),
        };
        match published {
            Ok(()) => temp.gone = true,
            // A mount point, as container tools make of single files.
            Err(Errno::BUSY) if old.is_some() => {
                return Err(Beside::InPlace("it is a mount point".to_owned()));
            }
            Err(Errno::EXIST) => return Err(self.taken().into()),
            Err(Errno::ISDIR | Errno::NOTDIR | Errno::NOENT) => return Err(self.moved().into()),
            Err(errno) => return Err(self.refused(errno).into()),
        }
        dir::sync(self.dir);
        Ok(())
    }

    fn take_after(&self, file: &File, old: &Old) -> Result<(), Beside> {
        let fresh = fstat(file).map_err(|errno| self.refused(errno))?;
        if (fresh.st_uid, fresh.st_gid) != (old.stat.st_uid, old.stat.st_gid) {
            let owner = (Uid::from_raw(old.stat.st_uid), Gid::from_raw(old.stat.st_gid));
            if fchown(file, Some(owner.0), Some(owner.1)).is_err() {
                let why = "a file of yours cannot have its owner and group";
                return Err(Beside::InPlace(why.to_owned()));
            }
        }
        fchmod(file, Mode::from_raw_mode(old.stat.st_mode))
            .and_then(|()| xattrs::copy(&old.file, file))
            .map_err(|errno| self.refused(errno))?;
        Ok(())
    }

    fn write_in_place(&self, old: &Old) -> Result<(), FsError> {
        let file = open_file(self.dir, self.name, OFlags::WRONLY)
            .map_err(|errno| moved_or(self.real, errno))?;
        let stat = fstat(&file).map_err(|errno| self.refused(errno))?;
        if (stat.st_dev, stat.st_ino) != (old.stat.st_dev, old.stat.st_ino) {
            return Err(self.moved());
        }
        let length = self.wanted.content.len() as u64;
        reserve(&file, length).map_err(|errno| self.refused(errno))?;
        self.still_holds()?;
        file.write_all_at(&self.wanted.content, 0)
            .and_then(|()| file.set_len(length))
            .and_then(|()| file.sync_all())
            .map_err(|error| self.broken(&error))
    }

    fn taken(&self) -> FsError {
        match statat(self.dir, self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile => {
                not_regular(self.real, words(FileType::from_raw_mode(stat.st_mode)))
            }
            _ => FsError::Exists { path: self.real.to_path_buf() },
        }
    }

    fn moved(&self) -> FsError {
        FsError::Moved { path: self.real.to_path_buf() }
    }

    fn refused(&self, errno: Errno) -> FsError {
        from_errno(self.real, errno)
    }

    fn broken(&self, error: &io::Error) -> FsError {
        from_io(self.real, error)
    }
}

/// Whether a file of this name holds new content that waits to be published.
pub(super) fn is_temporary(name: &OsStr) -> bool {
    let name = name.to_str().and_then(|name| name.strip_prefix(TEMP_START));
    let random = name.and_then(|name| name.strip_suffix(TEMP_END));
    random.is_some_and(|random| {
        random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// A file with a random name that goes unless it was published.
struct Temp<'a> {
    dir: &'a Dir,
    name: OsString,
    gone: bool,
}

impl<'a> Temp<'a> {
    /// Readable by nobody else while it waits for the old file's mode; a new file gets the
    /// mode that every program's new files get (0666 without the umask, or the folder's list).
    fn create(dir: &'a Dir, stands_in: bool) -> rustix::io::Result<(Self, File)> {
        let mode = Mode::from_raw_mode(if stands_in { 0o600 } else { 0o666 });
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mut tries = NAME_TRIES;
        loop {
            let name = OsString::from(format!("{TEMP_START}{:016x}{TEMP_END}", random()));
            match openat(dir, &name, flags | OFlags::NOFOLLOW, mode) {
                Ok(fd) => return Ok((Self { dir, name, gone: false }, File::from(fd))),
                Err(Errno::EXIST) if tries > 0 => tries -= 1,
                Err(errno) => return Err(errno),
            }
        }
    }

    /// A competitor's file that came meanwhile stays.
    fn publish_new(&mut self, name: &OsStr) -> rustix::io::Result<()> {
        #[cfg(target_os = "linux")]
        match rustix::fs::renameat_with(
            self.dir,
            &self.name,
            self.dir,
            name,
            rustix::fs::RenameFlags::NOREPLACE,
        ) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            done => return done,
        }
        linkat(self.dir, &self.name, self.dir, name, AtFlags::empty())?;
        unlinkat(self.dir, &self.name, AtFlags::empty())
    }
}

impl Drop for Temp<'_> {
    fn drop(&mut self) {
        if !self.gone {
            // Nothing can be done about a folder that has become read-only in between.
            unlinkat(self.dir, &self.name, AtFlags::empty()).ok();
        }
    }
}

/// Room for the content, so that a full disk is noticed before the first changed byte.
fn reserve(file: &File, length: u64) -> rustix::io::Result<()> {
    #[cfg(target_os = "linux")]
    if length > 0 {
        let keep_size = rustix::fs::FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(file, keep_size, 0, length) {
            Ok(()) | Err(Errno::NOTSUP | Errno::NOSYS) => {}
            Err(errno) => return Err(errno),
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, length);
    Ok(())
}

/// Unpredictable enough for a name that must be new anyway.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

fn moved_or(path: &Path, errno: Errno) -> FsError {
    if dir::has_moved(errno) {
        FsError::Moved { path: path.to_path_buf() }
    } else {
        from_errno(path, errno)
    }
}

fn stale(real: &Path) -> FsError {
    FsError::Stale { path: real.to_path_buf() }
}

fn not_regular(path: &Path, kind: &str) -> FsError {
    FsError::NotRegular { path: PathBuf::from(path), kind: kind.to_owned() }
}

fn words(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Directory => "directory",
        FileType::Fifo => "FIFO",
        FileType::Socket => "socket",
        FileType::CharacterDevice => "character device",
        FileType::BlockDevice => "block device",
        _ => "special file",
    }
}
