//! Content hashes.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use sha2::{Digest, Sha256};

use super::stop::Stop;
use crate::fs::ContentHash;

pub(super) const PIECE: usize = 64 * 1024;

pub(super) fn of_bytes(bytes: &[u8]) -> ContentHash {
    ContentHash(Sha256::digest(bytes).into())
}

/// Of the whole file, wherever its cursor stands.
pub(super) fn of_file(file: &File, stop: &Stop) -> io::Result<ContentHash> {
    let mut hasher = Sha256::new();
    let mut piece = vec![0; PIECE];
    let mut offset = 0;
    loop {
        stop.check()?;
        match file.read_at(&mut piece, offset) {
            Ok(0) => return Ok(ContentHash(hasher.finalize().into())),
            Ok(count) => {
                hasher.update(&piece[..count]);
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
