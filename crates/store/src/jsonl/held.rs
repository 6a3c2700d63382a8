//! A session's folder while its lease is held: the only one who changes what is in it.

use std::fs;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use reins_schema::SessionId;

use super::active::{self, JsonlActive};
use super::durable::{Durable, Form, is_equal, maker_of_temp};
use super::files;
use super::folder::{Folder, LEASE, NUMBER_MAX};
use super::lease::{self, Lease};
use super::segment::Unsealed;
use crate::StoreError;
use crate::error::MOVE_AWAY;
use crate::medium::{Active, Held, Sealer};

/// A held session.
#[derive(Debug)]
pub(crate) struct JsonlHeld {
    pub(super) folder: Folder,
    pub(super) lease: Lease,
    pub(super) durable: Durable,
    /// What is there stays, also when the power fails: who made it was not killed before that was
    /// sure.
    pub(super) is_settled: bool,
}

impl JsonlHeld {
    /// What a killed process left is read and built upon from now on, so it has to stay. Costs
    /// next to nothing when nobody was killed.
    fn settle(&mut self) -> Result<(), StoreError> {
        if !self.is_settled {
            self.durable.sync_dir(&self.folder.path)?;
            self.durable.sync_dir(self.folder.path.parent().unwrap_or(Path::new("/")))?;
            self.is_settled = true;
        }
        Ok(())
    }

    /// Removes what killed processes left here. Best effort: it takes space and is never read.
    fn sweep(&self) -> Result<(), StoreError> {
        for info in self.folder.segment_infos()? {
            if info.is_sealed {
                keep_one_form(&self.folder, &self.durable, info.number)?;
            }
        }
        // In the folder nobody but the holder makes files; blobs may be kept by anybody.
        let (path, blobs) = (&self.folder.path, self.folder.blobs_path());
        for (path, is_ours) in [(path, true), (&blobs, false)] {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                let maker = maker_of_temp(&entry.file_name().to_string_lossy());
                if maker.is_some_and(|pid| is_ours || !lease::is_alive(pid)) {
                    drop(self.durable.unlink(&entry.path()));
                }
            }
        }
        Ok(())
    }

    fn require_plain(&self, number: u32) -> Result<PathBuf, StoreError> {
        let sealed = self.folder.sealed_path(number);
        if sealed.symlink_metadata().is_ok() {
            let problem = "a sealed segment stands where one is to be written";
            return Err(StoreError::unreadable(&sealed, problem, MOVE_AWAY));
        }
        Ok(self.folder.segment_path(number))
    }
}

impl Held for JsonlHeld {
    fn id(&self) -> &SessionId {
        &self.folder.id
    }

    fn put_header(&mut self, header: &[u8], kept: &str) -> Result<String, StoreError> {
        let path = self.folder.header_path();
        let kept = match fs::symlink_metadata(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => kept.to_owned(),
            Err(e) => return Err(StoreError::io(&path, e)),
            // Whatever else stands there is moved as it is.
            Ok(meta) if !meta.is_file() => {
                self.durable.move_aside(&self.folder.path, kept, &path)?
            }
            Ok(_) => {
                let mut file = files::open_to_read(&path)?;
                self.durable.keep(&self.folder.path, kept, &mut file)?
            }
        };
        self.durable.publish(&path, &mut { header }, Form::Plain)?;
        Ok(kept)
    }

    fn active(&mut self, number: u32, length: u64) -> Result<Box<dyn Active>, StoreError> {
        let path = self.require_plain(number)?;
        let was_settled = self.is_settled;
        self.settle()?;
        self.sweep()?;
        let mut active = JsonlActive::open(&self.durable, &path, length)?;
        if !was_settled && length > 0 {
            active.sync()?;
        }
        Ok(Box::new(active))
    }

    fn begin_segment(&mut self, number: u32) -> Result<Box<dyn Active>, StoreError> {
        let path = self.require_plain(number)?;
        if number > NUMBER_MAX {
            let problem = format!("its log has a segment {NUMBER_MAX} already, the last");
            let advice = "move the files with such numbers away if they are not the session's";
            return Err(StoreError::unreadable(&self.folder.path, problem, advice));
        }
        self.settle()?;
        self.durable.make_empty(&path).map_err(|e| StoreError::io(&path, e))?;
        // Before anything in it can be acknowledged.
        let begun = self.durable.sync_dir(&self.folder.path);
        match begun.and_then(|()| JsonlActive::open(&self.durable, &path, 0)) {
            Ok(active) => Ok(Box::new(active)),
            Err(error) => {
                // The first error is the one to tell; an empty segment harms nobody.
                drop(self.durable.unlink(&path));
                Err(error)
            }
        }
    }

    fn cut(&mut self, number: u32, length: u64, kept: &str) -> Result<String, StoreError> {
        let path = self.require_plain(number)?;
        let io = |e| StoreError::io(&path, e);
        active::own(&self.durable, &path)?;
        let mut file = files::open(files::private().read(true).write(true), &path)?;
        if file.metadata().map_err(io)?.len() <= length {
            return Ok(kept.to_owned());
        }
        file.seek(SeekFrom::Start(length)).map_err(io)?;
        let kept = self.durable.keep(&self.folder.path, kept, &mut file)?;
        self.durable.cut(&file, length).map_err(io)?;
        Ok(kept)
    }

    fn replace(
        &mut self,
        number: u32,
        content: &mut dyn Read,
        kept: &str,
    ) -> Result<String, StoreError> {
        let (folder, sealed) = (&self.folder.path, self.folder.sealed_path(number));
        if sealed.symlink_metadata().is_ok() {
            let kept = match is_alien(&sealed) {
                true => self.durable.move_aside(folder, kept, &sealed)?,
                false => self.durable.keep_file(folder, kept, &sealed)?,
            };
            self.durable.publish(&sealed, content, Form::Sealed)?;
            return Ok(kept);
        }
        let path = self.folder.segment_path(number);
        let kept = match is_alien(&path) {
            true => self.durable.move_aside(folder, kept, &path)?,
            false => self.durable.keep(folder, kept, &mut files::open_to_read(&path)?)?,
        };
        self.durable.publish(&path, content, Form::Plain)?;
        Ok(kept)
    }

    fn keep(&mut self, name: &str, content: &mut dyn Read) -> Result<String, StoreError> {
        self.durable.keep(&self.folder.path, name, content)
    }

    fn sealer(&self) -> Box<dyn Sealer> {
        Box::new(JsonlSealer { folder: self.folder.clone(), durable: self.durable.clone() })
    }

    fn put_snapshot(&mut self, snapshot: &[u8]) -> Result<(), StoreError> {
        let path = self.folder.snapshot_path();
        self.durable.publish(&path, &mut { snapshot }, Form::Derived)
    }

    fn drop_snapshot(&mut self) -> Result<(), StoreError> {
        self.durable.unlink(&self.folder.snapshot_path())
    }

    fn announce(&mut self, doing: &str) {
        self.lease.announce(doing);
    }

    fn set_archived(&mut self, archived: bool) -> Result<(), StoreError> {
        let path = self.folder.archived_path();
        if archived {
            match self.durable.make_empty(&path) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                made => made.map_err(|e| StoreError::io(&path, e))?,
            }
        } else {
            self.durable.unlink(&path)?;
        }
        self.durable.sync_dir(&self.folder.path)
    }

    fn remove(self: Box<Self>) -> Result<(), StoreError> {
        let (from, hidden) = (&self.folder.path, self.folder.removed().path);
        if from.is_symlink() {
            let problem = "it is a link to a folder elsewhere";
            let advice = "remove the link, and the folder when it is not needed, by hand";
            return Err(StoreError::unreadable(from, problem, advice));
        }
        if hidden.symlink_metadata().is_ok() {
            // What an earlier removal of this process could not remove.
            self.durable.remove_tree(&hidden, LEASE)?;
        }
        self.durable.rename(from, &hidden).map_err(|e| StoreError::io(from, e))?;
        self.durable.sync_dir(hidden.parent().unwrap_or(Path::new("/")))?;
        // The lease goes last: what has it is not taken for left over.
        self.durable.remove_tree(&hidden, LEASE)
    }
}

/// Whether something stands there that is no file; it is moved as it is.
fn is_alien(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| files::what_stands(&meta).is_some())
}

/// Compresses segments of one folder.
struct JsonlSealer {
    folder: Folder,
    durable: Durable,
}

impl Sealer for JsonlSealer {
    fn seal(&mut self, number: u32) -> Result<(), StoreError> {
        let (plain, sealed) = (self.folder.segment_path(number), self.folder.sealed_path(number));
        if keep_one_form(&self.folder, &self.durable, number)? {
            return Ok(());
        }
        let mut content = files::open_to_read(&plain)?;
        let temp = self.durable.write_temp(&sealed, &mut content, Form::Sealed)?;
        if let Err(error) = verify(&temp, &plain) {
            drop(self.durable.unlink(&temp));
            return Err(error);
        }
        self.durable.date_as(&temp, &plain);
        self.durable.put_in_place(&temp, &sealed)?;
        self.durable.sync_dir(&self.folder.path)?;
        self.durable.unlink(&plain)
    }
}

/// Of a segment that is there in both forms leaves one: the plain one goes when the sealed one was
/// read and has the same content; else the one that does not count is kept aside. Returns whether
/// it is sealed.
pub(super) fn keep_one_form(
    folder: &Folder,
    durable: &Durable,
    number: u32,
) -> Result<bool, StoreError> {
    let (plain, sealed) = (folder.segment_path(number), folder.sealed_path(number));
    if sealed.symlink_metadata().is_err() {
        return Ok(false);
    }
    if plain.symlink_metadata().is_err() {
        return Ok(true);
    }
    if !is_right(&sealed)? {
        let kept = format!("original-{number:08}.log.zst");
        durable.move_aside(&folder.path, &kept, &sealed)?;
        return Ok(false);
    }
    match verify(&sealed, &plain) {
        Ok(()) => {
            // Its name may not be durable yet.
            durable.sync_dir(&folder.path)?;
            durable.unlink(&plain)?;
        }
        Err(StoreError::Unreadable { .. }) => {
            let kept = format!("original-{number:08}.log");
            drop(durable.move_aside(&folder.path, &kept, &plain)?);
        }
        Err(error) => return Err(error),
    }
    Ok(true)
}

/// Whether a sealed segment is a file all of whose frames decode.
fn is_right(sealed: &Path) -> Result<bool, StoreError> {
    let mut content = match Unsealed::open(sealed) {
        Ok(content) => content,
        Err(StoreError::Unreadable { .. }) => return Ok(false),
        Err(error) => return Err(error),
    };
    match io::copy(&mut content, &mut io::sink()) {
        Ok(_) => Ok(content.flaw().is_none()),
        Err(e) if e.kind() == ErrorKind::InvalidData => Ok(false),
        Err(e) => Err(StoreError::io(sealed, e)),
    }
}

/// The compressed copy is read back before the original is given up.
fn verify(sealed: &Path, plain: &Path) -> Result<(), StoreError> {
    let (mut copy, mut original) = (Unsealed::open(sealed)?, files::open_to_read(plain)?);
    match is_equal(&mut copy, &mut original) {
        Ok(true) => Ok(()),
        Err(e) if e.kind() != io::ErrorKind::InvalidData => Err(StoreError::io(plain, e)),
        _ => {
            let problem = "its compressed copy has another content";
            Err(StoreError::unreadable(plain, problem, "check the machine's memory and disk"))
        }
    }
}
