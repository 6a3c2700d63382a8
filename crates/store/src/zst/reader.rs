//! Reading a compressed file by offsets of its plain lines.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::layout::{self, FRAME_MAGIC, Sizes, Stands};
use super::{FRAME_BYTES_MAX, lines_before_damage, whole};

const WRONG_TABLE: &str = "the table of its compressed frames is damaged";
const WRONG_FRAME: &str = "a compressed frame is damaged, and its lines are not";

/// How many places that only look like a frame are tried in one file.
const TRIES_MAX: u32 = 1024;

/// How much is read at a time while a frame is searched.
const SEARCH_BYTES: usize = 64 << 10;

/// A compressed file, open. Keeps one decoded frame.
#[derive(Debug)]
pub(crate) struct ZstReader {
    file: File,
    parts: Vec<Part>,
    length: u64,
    decoded: Option<(usize, Vec<u8>)>,
    flaw: Option<&'static str>,
}

/// A stretch of the file and the plain bytes that it stands for.
#[derive(Clone, Copy, Debug)]
struct Part {
    at: u64,
    stored: u64,
    plain_at: u64,
    plain: u64,
}

impl ZstReader {
    /// Finds the frames: by the table, or one after the other where the table is missing or wrong.
    ///
    /// # Errors
    /// The file cannot be read. Damage is no error.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let stored = file.metadata()?.len();
        let table = layout::read_table(&file, stored)?;
        let mut flaw = None;
        let sizes = match table {
            Some(table) if is_right(&table, &file, stored)? => table,
            table => {
                flaw = Some(WRONG_TABLE);
                Walk::new(&file, stored, &table.unwrap_or_default()).all()?
            }
        };
        let (mut at, mut plain_at) = (0, 0);
        let mut parts = Vec::with_capacity(sizes.len());
        for Sizes { stored, plain } in sizes {
            // A skippable frame stands for nothing.
            if plain > 0 {
                parts.push(Part { at, stored, plain_at, plain });
            }
            at += stored;
            plain_at += plain;
        }
        Ok(Self { file, parts, length: plain_at, decoded: None, flaw })
    }

    /// What is wrong with the file though all lines can be read, as far as they were.
    pub(crate) fn flaw(&self) -> Option<&'static str> {
        self.flaw
    }

    /// How many plain bytes it holds. Where frames were lost with their sizes, the stored size
    /// stands for the plain one.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Reads plain bytes from `offset` on; 0 at the end.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] when they are damaged; else the system's.
    pub(crate) fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if offset >= self.length || buffer.is_empty() {
            return Ok(0);
        }
        let number = self.part_of(offset);
        let part = self.parts[number];
        if self.decoded.as_ref().is_none_or(|(decoded, _)| *decoded != number) {
            self.decoded = None;
            let (plain, is_whole) = plain_of(&self.file, &part)?;
            if !is_whole {
                self.flaw.get_or_insert(WRONG_FRAME);
            }
            self.decoded = Some((number, plain));
        }
        let plain = self.decoded.as_ref().map_or(&[][..], |(_, plain)| plain);
        let inside = usize::try_from(offset - part.plain_at).unwrap_or(usize::MAX);
        let Some(rest) = plain.get(inside..).filter(|rest| !rest.is_empty()) else {
            let (from, to) = (part.at, part.at + part.stored);
            let problem = format!("bytes {from} to {to} of the compressed file are damaged");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        };
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    /// The start of the next frame; the length when none follows.
    pub(crate) fn after_damage(&self, offset: u64) -> u64 {
        if offset >= self.length {
            return self.length;
        }
        let part = self.parts[self.part_of(offset)];
        part.plain_at + part.plain
    }

    /// The start of the frame that holds `offset`.
    pub(crate) fn landing(&self, offset: u64) -> u64 {
        match self.parts.is_empty() {
            true => 0,
            false => self.parts[self.part_of(offset)].plain_at,
        }
    }

    /// There is at least one; offsets after the end belong to the last.
    fn part_of(&self, offset: u64) -> usize {
        self.parts.partition_point(|part| part.plain_at <= offset).saturating_sub(1)
    }
}

/// What can be read of a part, and whether it is not damaged at all.
fn plain_of(file: &File, part: &Part) -> io::Result<(Vec<u8>, bool)> {
    let stored = part.stored.min(zstd::zstd_safe::compress_bound(FRAME_BYTES_MAX) as u64);
    let mut bytes = vec![0; usize::try_from(stored).unwrap_or(0)];
    file.read_exact_at(&mut bytes, part.at)?;
    let plain = whole(&bytes, usize::try_from(part.plain).unwrap_or(usize::MAX));
    let is_whole = plain.is_some();
    Ok((plain.unwrap_or_else(|| lines_before_damage(&bytes)), is_whole))
}

/// Whether every frame says what the table says.
fn is_right(table: &[Sizes], file: &File, stored: u64) -> io::Result<bool> {
    let mut at = 0;
    for sizes in table {
        if layout::plain_size_at(file, at, stored)? != Some(sizes.plain) {
            return Ok(false);
        }
        at += sizes.stored;
    }
    Ok(true)
}

/// Finds frames one after the other.
struct Walk<'a> {
    file: &'a File,
    end: u64,
    tries: u32,
    found: Vec<Sizes>,
    /// What a table says that is not right in everything: the plain size of a frame by its place
    /// and stored size.
    said: HashMap<(u64, u64), u64>,
}

impl<'a> Walk<'a> {
    fn new(file: &'a File, end: u64, table: &[Sizes]) -> Self {
        let mut next = 0;
        let place = |sizes: &Sizes| {
            let at = next;
            next += sizes.stored;
            ((at, sizes.stored), sizes.plain)
        };
        let said = table.iter().map(place).collect();
        Self { file, end, tries: 0, found: Vec::new(), said }
    }

    fn all(mut self) -> io::Result<Vec<Sizes>> {
        let mut at = 0;
        while at < self.end {
            at += match self.sizes_at(at)? {
                Some(sizes) => {
                    self.found.push(sizes);
                    sizes.stored
                }
                None => self.pass_unreadable(at)?,
            };
        }
        Ok(self.found)
    }

    /// What stands at `at`, when something that can be understood follows it.
    fn sizes_at(&self, at: u64) -> io::Result<Option<Sizes>> {
        let sizes = match layout::stands_at(self.file, at, self.end)? {
            Stands::Frame(sizes) => sizes,
            Stands::Skippable(stored) => Sizes { stored, plain: 0 },
            Stands::Nothing => return Ok(None),
        };
        let next = at + sizes.stored;
        let is_followed = next == self.end
            || !matches!(layout::stands_at(self.file, next, self.end)?, Stands::Nothing);
        Ok((is_followed || self.is_whole(at, sizes)?).then_some(sizes))
    }

    /// Notes the stretch from `at` to the next frame that decodes, and returns its length.
    fn pass_unreadable(&mut self, at: u64) -> io::Result<u64> {
        let mut next = at + 1;
        let stored = loop {
            let Some(candidate) = self.next_magic(next)? else { break self.end - at };
            if let Stands::Frame(sizes) = layout::stands_at(self.file, candidate, self.end)?
                && self.is_whole(candidate, sizes)?
            {
                break candidate - at;
            }
            self.tries += 1;
            next = candidate + 1;
        };
        // A cut frame still has lines before the cut.
        let part = Part { at, stored, plain_at: 0, plain: FRAME_BYTES_MAX as u64 };
        let lines = plain_of(self.file, &part)?.0.len() as u64;
        let said = self.said.get(&(at, stored)).filter(|said| **said >= lines);
        self.found.push(Sizes { stored, plain: said.copied().unwrap_or(lines + stored) });
        Ok(stored)
    }

    fn is_whole(&self, at: u64, sizes: Sizes) -> io::Result<bool> {
        if sizes.plain == 0 {
            return Ok(true);
        }
        let part = Part { at, stored: sizes.stored, plain_at: 0, plain: sizes.plain };
        Ok(plain_of(self.file, &part)?.0.len() as u64 == sizes.plain)
    }

    fn next_magic(&self, from: u64) -> io::Result<Option<u64>> {
        let magic = FRAME_MAGIC.to_le_bytes();
        let mut bytes = vec![0; SEARCH_BYTES];
        let mut at = from;
        while self.tries < TRIES_MAX && at + (magic.len() as u64) <= self.end {
            let length = usize::try_from(self.end - at).unwrap_or(usize::MAX).min(SEARCH_BYTES);
            self.file.read_exact_at(&mut bytes[..length], at)?;
            let found = bytes[..length].windows(magic.len()).position(|four| four == magic);
            if let Some(found) = found {
                return Ok(Some(at + found as u64));
            }
            // A magic number may lie across the end of what was read.
            at += (length - (magic.len() - 1)) as u64;
        }
        Ok(None)
    }
}
