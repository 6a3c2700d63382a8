//! Blobs: bytes beside a log, named by the SHA-256 of their content.

use reins_schema::SessionId;
use sha2::{Digest, Sha256};

use super::Sessions;
use crate::{StoreError, check_id};

impl Sessions {
    /// Stores bytes once and returns their name.
    pub(super) fn keep_blob(&self, id: &SessionId, bytes: &[u8]) -> Result<String, StoreError> {
        check_id(id)?;
        let limit = self.config().blob_bytes_max;
        if bytes.len() > limit {
            return Err(StoreError::BlobTooLarge { bytes: bytes.len(), limit });
        }
        let name = hash(bytes);
        self.medium().put_blob(id, &name, bytes)?;
        Ok(name)
    }

    /// Reads a blob and checks it.
    pub(super) fn blob(&self, id: &SessionId, name: &str) -> Result<Vec<u8>, StoreError> {
        check_id(id)?;
        let absent =
            || StoreError::BlobNotFound { id: id.clone(), name: name.chars().take(80).collect() };
        if name.len() != 64 || !name.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(absent());
        }
        let limit = self.config().blob_bytes_max;
        let bytes = self.medium().blob(id, name, limit)?.ok_or_else(absent)?;
        if hash(&bytes) == name {
            return Ok(bytes);
        }
        Err(StoreError::BlobDamaged { path: self.medium().path(id).join("blobs").join(name) })
    }
}

/// The name of a content.
pub(super) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
