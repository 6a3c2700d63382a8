//! Blobs: files named by the SHA-256 of their content.

use std::fs;
use std::io;

use sha2::{Digest, Sha256};

use super::files;
use super::folder::Folder;
use crate::StoreError;

/// Stores bytes once and returns their name.
pub(crate) fn put(folder: &Folder, bytes: &[u8], limit: usize) -> Result<String, StoreError> {
    if bytes.len() > limit {
        return Err(StoreError::BlobTooLarge { bytes: bytes.len(), limit });
    }
    let name = hash(bytes);
    let dir = folder.blobs_path();
    match files::make_dir(&dir) {
        Ok(()) => files::sync_dir(&folder.path)?,
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(StoreError::io(&dir, e)),
    }
    let path = dir.join(&name);
    // Published whole, so an equal length means an equal file; anything else is replaced.
    let whole = fs::metadata(&path).is_ok_and(|meta| meta.len() == bytes.len() as u64);
    if !whole {
        files::publish(&path, bytes)?;
    }
    Ok(name)
}

/// Reads a blob and checks it.
pub(crate) fn get(folder: &Folder, name: &str, limit: usize) -> Result<Vec<u8>, StoreError> {
    let absent = || StoreError::BlobNotFound {
        id: folder.id.clone(),
        name: name.chars().take(80).collect(),
    };
    if name.len() != 64 || !name.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(absent());
    }
    let path = folder.blobs_path().join(name);
    let bytes = files::read_whole(&path, limit as u64)?.ok_or_else(absent)?;
    if hash(&bytes) == name { Ok(bytes) } else { Err(StoreError::BlobDamaged { path }) }
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
