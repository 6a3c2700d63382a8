//! A medium in memory.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use reins_schema::SessionId;

use crate::medium::{Active, Held, Ids, Medium, NewSession, Sealer, Segment, SegmentInfo, Stamp};
use crate::{LeaseInfo, StoreError};

/// Plain bytes between two places where reading is cheap.
const FRAME: u64 = 4 << 10;

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) bytes: Vec<u8>,
    pub(super) is_sealed: bool,
    /// What cannot be read.
    pub(super) bad: Vec<Range<u64>>,
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) segments: Mutex<BTreeMap<u32, Content>>,
    pub(super) header: Mutex<Option<Vec<u8>>>,
    pub(super) kept: Mutex<BTreeMap<String, Vec<u8>>>,
    /// How many more openings of a segment fail; 0 when it goes at the next one.
    pub(super) refuse: Mutex<BTreeMap<u32, u32>>,
    /// Bytes that were read.
    pub(super) read: Arc<Mutex<u64>>,
}

impl Memory {
    pub(super) fn put(&self, number: u32, bytes: &[u8]) {
        let content = Content { bytes: bytes.to_vec(), ..Content::default() };
        self.segments.lock().unwrap().insert(number, content);
    }

    pub(super) fn bytes(&self, number: u32) -> Vec<u8> {
        self.segments.lock().unwrap()[&number].bytes.clone()
    }

    pub(super) fn seal(&self, number: u32) {
        self.segments.lock().unwrap().get_mut(&number).unwrap().is_sealed = true;
    }

    pub(super) fn spoil(&self, number: u32, range: Range<u64>) {
        self.segments.lock().unwrap().get_mut(&number).unwrap().bad.push(range);
    }

    pub(super) fn length(&self) -> u64 {
        self.segments.lock().unwrap().values().map(|s| s.bytes.len() as u64).sum()
    }

    pub(super) fn hold(self: &Arc<Self>) -> Holder {
        Holder { medium: Arc::clone(self), id: SessionId::new(super::ID), steps: u32::MAX }
    }
}

fn refused() -> StoreError {
    StoreError::io("/memory".as_ref(), io::ErrorKind::Other.into())
}

impl Medium for Memory {
    fn create(&self, _: NewSession<'_>) -> Result<Box<dyn Held>, StoreError> {
        Err(refused())
    }

    fn take(&self, _: &SessionId) -> Result<Box<dyn Held>, StoreError> {
        Err(refused())
    }

    fn holder(&self, _: &SessionId) -> Option<LeaseInfo> {
        None
    }

    fn header(&self, _: &SessionId) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.header.lock().unwrap().clone())
    }

    fn segments(&self, _: &SessionId) -> Result<Vec<SegmentInfo>, StoreError> {
        let segments = self.segments.lock().unwrap();
        let info = |(number, content): (&u32, &Content)| SegmentInfo {
            number: *number,
            is_sealed: content.is_sealed,
            stored: content.bytes.len() as u64,
        };
        Ok(segments.iter().map(info).collect())
    }

    fn segment(&self, _: &SessionId, number: u32) -> Result<Box<dyn Segment>, StoreError> {
        let refused_for = self.refuse.lock().unwrap().remove(&number);
        match refused_for {
            None => {}
            Some(0) => {
                self.segments.lock().unwrap().remove(&number);
            }
            Some(left) => {
                if left > 1 {
                    self.refuse.lock().unwrap().insert(number, left - 1);
                }
                return Err(refused());
            }
        }
        let content = self.segments.lock().unwrap().get(&number).cloned().ok_or_else(refused)?;
        Ok(Box::new(Open { content, number, read: Arc::clone(&self.read) }))
    }

    fn snapshot(&self, _: &SessionId) -> Option<Vec<u8>> {
        None
    }

    fn put_blob(&self, _: &SessionId, _: &str, _: &[u8]) -> Result<(), StoreError> {
        Err(refused())
    }

    fn blob(&self, _: &SessionId, _: &str, _: usize) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(None)
    }

    fn blobs(&self, _: &SessionId) -> Result<Vec<(String, u64)>, StoreError> {
        Ok(Vec::new())
    }

    fn ids(&self) -> Result<Ids, StoreError> {
        Err(refused())
    }

    fn stamp(&self, _: &SessionId, _: u32) -> Option<Stamp> {
        None
    }

    fn is_archived(&self, _: &SessionId) -> bool {
        false
    }

    fn path(&self, _: &SessionId) -> PathBuf {
        "/memory".into()
    }
}

struct Open {
    content: Content,
    number: u32,
    read: Arc<Mutex<u64>>,
}

impl Segment for Open {
    fn length(&self) -> u64 {
        self.content.bytes.len() as u64
    }

    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = &self.content.bytes;
        let at = usize::try_from(offset).unwrap().min(bytes.len());
        let mut length = buffer.len().min(bytes.len() - at);
        for bad in &self.content.bad {
            if bad.contains(&offset) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame is damaged"));
            }
            if bad.start > offset {
                length = length.min(usize::try_from(bad.start - offset).unwrap());
            }
        }
        buffer[..length].copy_from_slice(&bytes[at..at + length]);
        *self.read.lock().unwrap() += length as u64;
        Ok(length)
    }

    fn after_damage(&self, offset: u64) -> u64 {
        let bad = self.content.bad.iter().find(|bad| bad.contains(&offset));
        bad.map_or(offset, |bad| bad.end)
    }

    fn landing(&self, offset: u64) -> u64 {
        if !self.content.is_sealed {
            return 0;
        }
        let before = &self.content.bytes[..usize::try_from(offset / FRAME * FRAME).unwrap()];
        before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at as u64 + 1)
    }

    fn place(&self) -> PathBuf {
        format!("/memory/{:08}.log", self.number).into()
    }
}

/// The session, held; every change of it is one step, and may be the last one.
#[derive(Debug)]
pub(super) struct Holder {
    medium: Arc<Memory>,
    id: SessionId,
    pub(super) steps: u32,
}

impl Holder {
    fn step(&mut self) -> Result<(), StoreError> {
        self.steps = self.steps.checked_sub(1).ok_or_else(refused)?;
        Ok(())
    }

    fn keep_bytes(&self, name: &str, bytes: &[u8]) -> String {
        let mut kept = self.medium.kept.lock().unwrap();
        let (mut taken, mut number) = (name.to_owned(), 1);
        while kept.get(&taken).is_some_and(|before| before != bytes) {
            number += 1;
            taken = format!("{name}-{number}");
        }
        kept.insert(taken.clone(), bytes.to_vec());
        taken
    }
}

impl Held for Holder {
    fn id(&self) -> &SessionId {
        &self.id
    }

    fn put_header(&mut self, header: &[u8], kept: &str) -> Result<String, StoreError> {
        self.step()?;
        let before = self.medium.header.lock().unwrap().replace(header.to_vec());
        Ok(before.map_or(String::new(), |before| self.keep_bytes(kept, &before)))
    }

    fn active(&mut self, _: u32, _: u64) -> Result<Box<dyn Active>, StoreError> {
        Err(refused())
    }

    fn begin_segment(&mut self, _: u32) -> Result<Box<dyn Active>, StoreError> {
        Err(refused())
    }

    fn cut(&mut self, number: u32, length: u64, kept: &str) -> Result<String, StoreError> {
        self.step()?;
        let mut content = self.medium.segments.lock().unwrap()[&number].clone();
        assert!(!content.is_sealed);
        let tail = content.bytes.split_off(usize::try_from(length).unwrap());
        content.bad.retain(|bad| bad.end <= length);
        let kept = self.keep_bytes(kept, &tail);
        // Killed between keeping and cutting.
        self.step()?;
        self.medium.segments.lock().unwrap().insert(number, content);
        Ok(kept)
    }

    fn replace(
        &mut self,
        number: u32,
        content: &mut dyn Read,
        kept: &str,
    ) -> Result<String, StoreError> {
        self.step()?;
        let before = self.medium.segments.lock().unwrap()[&number].clone();
        let kept = self.keep_bytes(kept, &before.bytes);
        self.step()?;
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(|e| StoreError::io(kept.as_ref(), e))?;
        let after = Content { bytes, is_sealed: before.is_sealed, bad: Vec::new() };
        self.medium.segments.lock().unwrap().insert(number, after);
        Ok(kept)
    }

    fn keep(&mut self, name: &str, content: &mut dyn Read) -> Result<String, StoreError> {
        self.step()?;
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes).map_err(|e| StoreError::io(name.as_ref(), e))?;
        Ok(self.keep_bytes(name, &bytes))
    }

    fn sealer(&self) -> Box<dyn Sealer> {
        struct Nothing;
        impl Sealer for Nothing {
            fn seal(&mut self, _: u32) -> Result<(), StoreError> {
                Ok(())
            }
        }
        Box::new(Nothing)
    }

    fn put_snapshot(&mut self, _: &[u8]) -> Result<(), StoreError> {
        Ok(())
    }

    fn drop_snapshot(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn announce(&mut self, _: &str) {}

    fn set_archived(&mut self, _: bool) -> Result<(), StoreError> {
        Ok(())
    }

    fn remove(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}
