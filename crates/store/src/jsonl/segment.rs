//! Reading a segment: a file of plain lines, or of compressed ones.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::files;
use super::folder::Folder;
use crate::StoreError;
use crate::medium::Segment;
use crate::zst::ZstReader;

/// How far back the start of a plain line is searched.
const LANDING_BYTES: u64 = 1 << 20;
const LANDING_STEP: usize = 8 << 10;

/// How often a segment is looked for while it changes its form.
const LOOKS_MAX: u32 = 3;

/// Opens a segment in whichever form it is; a sealed one counts.
pub(crate) fn open(folder: &Folder, number: u32) -> Result<Box<dyn Segment>, StoreError> {
    let (sealed, plain) = (folder.sealed_path(number), folder.segment_path(number));
    for path in [&sealed, &plain] {
        if let Ok(meta) = std::fs::metadata(path) {
            match files::what_stands(&meta) {
                Some(what) => return Ok(Box::new(Alien { what, path: path.clone() })),
                None => break,
            }
        }
    }
    let mut looks = 0;
    loop {
        looks += 1;
        match Sealed::open(&sealed) {
            Err(e) if e.is_absent() => {}
            opened => return opened.map(|segment| Box::new(segment) as Box<dyn Segment>),
        }
        match Plain::open(&plain) {
            // It may just have been sealed.
            Err(e) if e.is_absent() && looks < LOOKS_MAX => {}
            opened => return opened.map(|segment| Box::new(segment) as Box<dyn Segment>),
        }
    }
}

struct Plain {
    file: File,
    path: PathBuf,
    length: u64,
}

impl Plain {
    fn open(path: &Path) -> Result<Self, StoreError> {
        let file = files::open_to_read(path)?;
        let length = file.metadata().map_err(|e| StoreError::io(path, e))?.len();
        Ok(Self { file, path: path.to_path_buf(), length })
    }
}

impl Segment for Plain {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let length = buffer.len().min(left);
        self.file.read_at(&mut buffer[..length], offset)
    }

    fn after_damage(&self, _: u64) -> u64 {
        // A plain file has no bytes that are damaged by themselves.
        self.length
    }

    fn landing(&self, offset: u64) -> u64 {
        let mut end = offset.min(self.length);
        let lowest = end.saturating_sub(LANDING_BYTES);
        let mut buffer = [0; LANDING_STEP];
        while end > lowest {
            let start = end.saturating_sub(LANDING_STEP as u64).max(lowest);
            let length = usize::try_from(end - start).unwrap_or(0);
            if self.file.read_exact_at(&mut buffer[..length], start).is_err() {
                return 0;
            }
            if let Some(feed) = buffer[..length].iter().rposition(|byte| *byte == b'\n') {
                return start + feed as u64 + 1;
            }
            end = start;
        }
        0
    }

    fn place(&self) -> PathBuf {
        self.path.clone()
    }
}

struct Sealed {
    reader: ZstReader,
    path: PathBuf,
}

impl Sealed {
    fn open(path: &Path) -> Result<Self, StoreError> {
        let file = files::open_to_read(path)?;
        let reader = ZstReader::new(file).map_err(|e| StoreError::io(path, e))?;
        Ok(Self { reader, path: path.to_path_buf() })
    }
}

impl Segment for Sealed {
    fn length(&self) -> u64 {
        self.reader.length()
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read_at(offset, buffer)
    }

    fn after_damage(&self, offset: u64) -> u64 {
        self.reader.after_damage(offset)
    }

    fn landing(&self, offset: u64) -> u64 {
        self.reader.landing(offset)
    }

    fn place(&self) -> PathBuf {
        self.path.clone()
    }

    fn flaw(&self) -> Option<&'static str> {
        self.reader.flaw()
    }
}

/// What stands where a segment belongs and is no file: all of the content is lost.
struct Alien {
    what: &'static str,
    path: PathBuf,
}

impl Segment for Alien {
    fn length(&self) -> u64 {
        0
    }

    fn read_at(&mut self, _: u64, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }

    fn after_damage(&self, _: u64) -> u64 {
        0
    }

    fn landing(&self, _: u64) -> u64 {
        0
    }

    fn place(&self) -> PathBuf {
        self.path.clone()
    }

    fn flaw(&self) -> Option<&'static str> {
        Some(self.what)
    }
}

/// The plain content of a sealed file as a stream.
pub(crate) struct Unsealed {
    reader: ZstReader,
    at: u64,
}

impl Unsealed {
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { reader: Sealed::open(path)?.reader, at: 0 })
    }

    /// What is wrong with the file, as far as it was read.
    pub(crate) fn flaw(&self) -> Option<&'static str> {
        self.reader.flaw()
    }
}

impl Read for Unsealed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read_at(self.at, buffer)?;
        self.at += read as u64;
        Ok(read)
    }
}
