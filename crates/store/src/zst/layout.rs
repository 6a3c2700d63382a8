//! How the bytes of frames and of the table lie, as far as that is needed to find frames without
//! decoding them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::FRAME_BYTES_MAX;

pub(super) const FRAME_MAGIC: u32 = 0xFD2F_B528;
/// Of the skippable frame that holds the table.
const TABLE_MAGIC: u32 = 0x184D_2A5E;
/// The last four bytes of a file with a table.
const SEEKABLE_MAGIC: u32 = 0x8F92_EAB1;
/// All skippable frames: the low four bits are free.
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;

/// Count, descriptor, magic.
const FOOTER_BYTES: usize = 9;
/// Magic and length of a skippable frame.
const SKIPPABLE_HEADER_BYTES: usize = 8;
/// Magic, descriptor, window, dictionary, content size at their longest.
const FRAME_HEADER_BYTES_MAX: usize = 18;
const BLOCK_HEADER_BYTES: usize = 3;
const BLOCK_BYTES_MAX: usize = 128 << 10;
/// A frame with more blocks than one per so many plain bytes, and some more, is none: each header
/// costs a read.
const BLOCK_PLAIN_MIN: u64 = 1 << 10;
const BLOCKS_MORE: u64 = 64;

/// In a frame's descriptor.
const CHECKSUM_FLAG: u8 = 0x04;

/// Sizes of a frame, stored and plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    pub(super) stored: u64,
    pub(super) plain: u64,
}

/// The table as a skippable frame.
pub(super) fn table(sizes: &[(u32, u32)]) -> Vec<u8> {
    let content = sizes.len() * 8 + FOOTER_BYTES;
    let mut bytes = Vec::with_capacity(SKIPPABLE_HEADER_BYTES + content);
    bytes.extend(TABLE_MAGIC.to_le_bytes());
    bytes.extend(u32::try_from(content).unwrap_or(u32::MAX).to_le_bytes());
    for (stored, plain) in sizes {
        bytes.extend(stored.to_le_bytes());
        bytes.extend(plain.to_le_bytes());
    }
    bytes.extend(u32::try_from(sizes.len()).unwrap_or(u32::MAX).to_le_bytes());
    // No checksums in the table: every frame has its own.
    bytes.push(0);
    bytes.extend(SEEKABLE_MAGIC.to_le_bytes());
    bytes
}

/// The table of a file of this length; `None` when there is none that fits the file.
pub(super) fn read_table(file: &File, length: u64) -> io::Result<Option<Vec<Sizes>>> {
    let Some(footer_at) = length.checked_sub(FOOTER_BYTES as u64) else { return Ok(None) };
    let mut footer = [0; FOOTER_BYTES];
    file.read_exact_at(&mut footer, footer_at)?;
    let entry_bytes: usize = match footer[4] {
        0 => 8,
        // With a checksum per frame, as other writers of the format may have it.
        0x80 => 12,
        _ => return Ok(None),
    };
    let count = u64::from(u32_at(&footer, 0));
    let before = count * entry_bytes as u64 + SKIPPABLE_HEADER_BYTES as u64;
    let table_at = footer_at.checked_sub(before);
    let (Some(table_at), SEEKABLE_MAGIC) = (table_at, u32_at(&footer, 5)) else { return Ok(None) };
    let mut table = vec![0; usize::try_from(footer_at - table_at).unwrap_or(0)];
    file.read_exact_at(&mut table, table_at)?;
    let (header, entries) = table.split_at(SKIPPABLE_HEADER_BYTES);
    let fits = u32_at(header, 0) == TABLE_MAGIC
        && u64::from(u32_at(header, 4)) == length - table_at - SKIPPABLE_HEADER_BYTES as u64;
    if !fits {
        return Ok(None);
    }
    let entry = |bytes: &[u8]| Sizes {
        stored: u64::from(u32_at(bytes, 0)),
        plain: u64::from(u32_at(bytes, 4)),
    };
    let sizes: Vec<Sizes> = entries.chunks_exact(entry_bytes).map(entry).collect();
    let is_possible =
        |size: &Sizes| size.stored > 0 && size.plain > 0 && size.plain <= FRAME_BYTES_MAX as u64;
    let stored: u64 = sizes.iter().map(|size| size.stored).sum();
    Ok((stored == table_at && sizes.iter().all(is_possible)).then_some(sizes))
}

/// What stands at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stands {
    /// A frame, as far as its headers say; it may still be damaged inside.
    Frame(Sizes),
    /// A frame of so many bytes that decoders skip.
    Skippable(u64),
    /// Nothing that can be understood.
    Nothing,
}

/// Follows the headers at `at`, up to `end`.
pub(super) fn stands_at(file: &File, at: u64, end: u64) -> io::Result<Stands> {
    let mut bytes = [0; FRAME_HEADER_BYTES_MAX];
    let head = read_upto(file, &mut bytes, at, end)?;
    if head.len() >= 8 && u32_at(head, 0) & !0xF == SKIPPABLE_MAGIC {
        let stored = u64::from(u32_at(head, 4)) + SKIPPABLE_HEADER_BYTES as u64;
        return Ok(if at + stored <= end { Stands::Skippable(stored) } else { Stands::Nothing });
    }
    let Some(header) = FrameHeader::parse(head) else { return Ok(Stands::Nothing) };
    let (mut next, mut blocks) = (at + header.bytes, 0_u64);
    loop {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        let head = read_upto(file, &mut bytes, next, end)?;
        let Some(block) = Block::parse(head) else { return Ok(Stands::Nothing) };
        next += (BLOCK_HEADER_BYTES + block.stored) as u64;
        blocks += 1;
        if blocks > header.plain / BLOCK_PLAIN_MIN + BLOCKS_MORE {
            return Ok(Stands::Nothing);
        }
        if block.is_last {
            break;
        }
    }
    next += header.checksum_bytes;
    let is_possible = next <= end && header.plain <= blocks * BLOCK_BYTES_MAX as u64;
    let sizes = Sizes { stored: next - at, plain: header.plain };
    Ok(if is_possible { Stands::Frame(sizes) } else { Stands::Nothing })
}

/// The plain size in the frame header at `at`; `None` when there is none.
pub(super) fn plain_size_at(file: &File, at: u64, end: u64) -> io::Result<Option<u64>> {
    let mut bytes = [0; FRAME_HEADER_BYTES_MAX];
    let head = read_upto(file, &mut bytes, at, end)?;
    Ok(FrameHeader::parse(head).map(|header| header.plain))
}

/// The frame with its header saying that it has no checksum.
pub(super) fn without_checksum(stored: &[u8]) -> Vec<u8> {
    let mut stored = stored.to_vec();
    if let Some(descriptor) = stored.get_mut(4) {
        *descriptor &= !CHECKSUM_FLAG;
    }
    stored
}

/// The most plain bytes that a frame can hold, by its number of blocks; 0 when it is none.
pub(super) fn plain_max(stored: &[u8]) -> usize {
    let Some(header) = FrameHeader::parse(stored) else { return 0 };
    let (mut at, mut plain) = (usize::try_from(header.bytes).unwrap_or(0), 0_usize);
    while let Some(block) = stored.get(at..).and_then(Block::parse) {
        plain = plain.saturating_add(BLOCK_BYTES_MAX);
        at += BLOCK_HEADER_BYTES + block.stored;
        if block.is_last {
            break;
        }
    }
    plain
}

struct FrameHeader {
    bytes: u64,
    plain: u64,
    checksum_bytes: u64,
}

impl FrameHeader {
    /// Of a frame that says its size, needs no dictionary and is not larger than ours can be.
    fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < 5 || u32_at(bytes, 0) != FRAME_MAGIC {
            return None;
        }
        let descriptor = bytes[4];
        let is_one_segment = descriptor & 0x20 != 0;
        let (size_bytes, base) = match (descriptor >> 6, is_one_segment) {
            (0, true) => (1, 0),
            (1, _) => (2, 256),
            (2, _) => (4, 0),
            (3, _) => (8, 0),
            _ => return None,
        };
        let has_dictionary = descriptor & 0x03 != 0;
        let is_reserved = descriptor & 0x08 != 0;
        let start = if is_one_segment { 5 } else { 6 };
        let mut size = [0; 8];
        size[..size_bytes].copy_from_slice(bytes.get(start..start + size_bytes)?);
        let plain = u64::from_le_bytes(size).checked_add(base)?;
        if has_dictionary || is_reserved || plain > FRAME_BYTES_MAX as u64 {
            return None;
        }
        let checksum_bytes = if descriptor & CHECKSUM_FLAG != 0 { 4 } else { 0 };
        Some(Self { bytes: (start + size_bytes) as u64, plain, checksum_bytes })
    }
}

struct Block {
    stored: usize,
    is_last: bool,
}

impl Block {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let [low, middle, high, ..] = *bytes else { return None };
        let word = u32::from_le_bytes([low, middle, high, 0]);
        let size = usize::try_from(word >> 3).ok().filter(|size| *size <= BLOCK_BYTES_MAX)?;
        let stored = match (word >> 1) & 3 {
            0 | 2 => size,
            // One byte, many times.
            1 => 1,
            _ => return None,
        };
        Some(Self { stored, is_last: word & 1 != 0 })
    }
}

fn read_upto<'a>(file: &File, bytes: &'a mut [u8], at: u64, end: u64) -> io::Result<&'a [u8]> {
    let left = usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX);
    let length = bytes.len().min(left);
    file.read_exact_at(&mut bytes[..length], at)?;
    Ok(&bytes[..length])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |four| {
        let mut word = [0; 4];
        word.copy_from_slice(four);
        u32::from_le_bytes(word)
    })
}
