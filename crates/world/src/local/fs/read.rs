//! Reading files, whole or by lines.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::errors::from_io;
use super::hash::{self, PIECE};
use super::lines::LineScan;
use super::place::open_regular;
use super::stop::Stop;
use crate::fs::{ContentHash, FileBytes, FsError, LineWindow, Lines};

pub(super) fn read(cwd: &Path, path: &str, limit: u64, stop: &Stop) -> Result<FileBytes, FsError> {
    let (place, mut file) = open_regular(cwd, path)?;
    let too_large = |size| FsError::TooLarge { path: path.into(), size, limit };
    let size = file.metadata().map_err(|error| from_io(Path::new(path), &error))?.len();
    if size > limit {
        return Err(too_large(size));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    pieces(&mut file, path, stop, |piece| {
        // The file may have grown since, and files of /proc do not know their size.
        let size = (bytes.len() + piece.len()) as u64;
        if size > limit {
            return Err(too_large(size));
        }
        bytes.extend_from_slice(piece);
        Ok(())
    })?;
    let hash = hash::of_bytes(&bytes);
    Ok(FileBytes { real: place.real, bytes, hash })
}

pub(super) fn read_lines(
    cwd: &Path,
    path: &str,
    window: LineWindow,
    stop: &Stop,
) -> Result<Lines, FsError> {
    let (place, mut file) = open_regular(cwd, path)?;
    let not_text = |problem| FsError::NotText { path: path.into(), problem };
    let mut hasher = Sha256::new();
    let mut scan = LineScan::new(window);
    pieces(&mut file, path, stop, |piece| {
        hasher.update(piece);
        scan.piece(piece).map_err(not_text)
    })?;
    let scanned = scan.finish().map_err(not_text)?;
    Ok(Lines {
        real: place.real,
        lines: scanned.lines,
        total: scanned.total,
        capped: scanned.capped,
        hash: ContentHash(hasher.finalize().into()),
    })
}

fn pieces(
    file: &mut File,
    path: &str,
    stop: &Stop,
    mut each: impl FnMut(&[u8]) -> Result<(), FsError>,
) -> Result<(), FsError> {
    let mut piece = vec![0; PIECE];
    let refuse = |error: io::Error| from_io(Path::new(path), &error);
    loop {
        stop.check().map_err(refuse)?;
        match file.read(&mut piece) {
            Ok(0) => return Ok(()),
            Ok(count) => each(&piece[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(refuse(error)),
        }
    }
}
