//! Plain lines as seekable zstd: frames that can be decoded one by one, and after them a table of
//! their sizes in a frame that decoders skip. So `zstd -dc` gives the lines, and reading in the
//! middle costs one frame.
//!
//! A frame ends with a line, and says its own size and checksum. Nothing in a file is believed
//! before it was compared with something else: a damaged size costs neither memory nor the frames
//! after it.

mod layout;
mod reader;

use std::io::{self, Read, Write};

use reins_schema::MAX_LINE_BYTES;
use zstd::zstd_safe::CParameter;

pub(crate) use reader::ZstReader;

/// Plain bytes of a frame, about. A longer line is a frame of its own.
const FRAME_BYTES: usize = 256 << 10;

/// The most plain bytes of a frame: a line with its end. What is longer is no line; it is cut.
pub(crate) const FRAME_BYTES_MAX: usize = MAX_LINE_BYTES + 1;

const LEVEL: i32 = 3;

/// How much is read at a time while a line's end is searched.
const READ_BYTES: u64 = 64 << 10;

/// How much of a damaged frame is decoded at a time.
const SALVAGE_BYTES: usize = 128;

/// One compressed frame.
#[derive(Debug)]
pub(crate) struct Frame {
    /// How many plain bytes it holds; never 0.
    pub(crate) plain: u32,
    /// As it is stored.
    pub(crate) stored: Vec<u8>,
}

/// Compresses plain lines frame by frame.
pub(crate) struct Frames<R> {
    plain: R,
    compressor: zstd::bulk::Compressor<'static>,
    waiting: Vec<u8>,
    is_at_end: bool,
}

impl<R: Read> Frames<R> {
    /// Reads nothing yet.
    ///
    /// # Errors
    /// No memory for the compressor.
    pub(crate) fn new(plain: R) -> io::Result<Self> {
        let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        compressor.set_parameter(CParameter::ContentSizeFlag(true))?;
        Ok(Self { plain, compressor, waiting: Vec::new(), is_at_end: false })
    }

    /// The next frame; `None` at the end.
    ///
    /// # Errors
    /// The lines cannot be read; no memory.
    pub(crate) fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        let length = self.next_cut()?;
        if length == 0 {
            return Ok(None);
        }
        let stored = self.compressor.compress(&self.waiting[..length])?;
        self.waiting.drain(..length);
        // One huge line must not be kept while small ones follow.
        self.waiting.shrink_to(FRAME_BYTES * 2);
        Ok(Some(Frame { plain: u32::try_from(length).unwrap_or(u32::MAX), stored }))
    }

    /// How many of the waiting bytes are the next frame.
    fn next_cut(&mut self) -> io::Result<usize> {
        self.fill(FRAME_BYTES)?;
        if self.waiting.len() <= FRAME_BYTES && self.is_at_end {
            return Ok(self.waiting.len());
        }
        let head = &self.waiting[..FRAME_BYTES];
        if let Some(feed) = head.iter().rposition(|byte| *byte == b'\n') {
            return Ok(feed + 1);
        }
        let mut searched = FRAME_BYTES;
        loop {
            let unseen = &self.waiting[searched..];
            if let Some(feed) = unseen.iter().position(|byte| *byte == b'\n') {
                return Ok((searched + feed + 1).min(FRAME_BYTES_MAX));
            }
            searched = self.waiting.len();
            if self.is_at_end || searched >= FRAME_BYTES_MAX {
                return Ok(searched.min(FRAME_BYTES_MAX));
            }
            self.fill(searched + 1)?;
        }
    }

    /// Reads until more than `length` bytes wait, or the end.
    fn fill(&mut self, length: usize) -> io::Result<()> {
        while !self.is_at_end && self.waiting.len() <= length {
            let read = (&mut self.plain).take(READ_BYTES).read_to_end(&mut self.waiting)?;
            self.is_at_end = read == 0;
        }
        Ok(())
    }
}

/// Compresses all lines into `out`, the table of sizes included. Returns how many plain bytes
/// there were.
///
/// # Errors
/// The lines cannot be read, or `out` not be written.
pub(crate) fn compress(plain: impl Read, out: &mut impl Write) -> io::Result<u64> {
    let mut frames = Frames::new(plain)?;
    let (mut sizes, mut total) = (Vec::new(), 0);
    while let Some(frame) = frames.next_frame()? {
        out.write_all(&frame.stored)?;
        total += u64::from(frame.plain);
        sizes.push((u32::try_from(frame.stored.len()).unwrap_or(u32::MAX), frame.plain));
    }
    out.write_all(&layout::table(&sizes))?;
    Ok(total)
}

/// What is in a frame that should hold `plain` bytes: all of them, or when the frame is damaged,
/// the lines before the damage. Those may be wrong too, so each is to be checked by its own sum.
pub(crate) fn decode(stored: &[u8], plain: usize) -> Vec<u8> {
    whole(stored, plain).unwrap_or_else(|| lines_before_damage(stored))
}

/// What is in a frame that holds `plain` bytes and is not damaged.
fn whole(stored: &[u8], plain: usize) -> Option<Vec<u8>> {
    let plain = plain.min(FRAME_BYTES_MAX).min(layout::plain_max(stored));
    let mut whole = vec![0; plain];
    let decoded = zstd::bulk::decompress_to_buffer(stored, &mut whole);
    decoded.is_ok_and(|length| length == plain).then_some(whole)
}

fn lines_before_damage(stored: &[u8]) -> Vec<u8> {
    let bytes_max = layout::plain_max(stored).min(FRAME_BYTES_MAX);
    let stored = layout::without_checksum(stored);
    let mut lines = Vec::new();
    let Ok(decoder) = zstd::stream::read::Decoder::with_buffer(&stored[..]) else { return lines };
    let mut decoder = decoder.single_frame();
    // What a call has decoded is lost when it fails, so each one decodes little.
    let mut step = [0; SALVAGE_BYTES];
    while lines.len() < bytes_max {
        match decoder.read(&mut step) {
            Ok(0) | Err(_) => break,
            Ok(read) => lines.extend_from_slice(&step[..read]),
        }
    }
    let end = lines.iter().rposition(|byte| *byte == b'\n').map_or(0, |feed| feed + 1);
    lines.truncate(end);
    lines
}

#[cfg(test)]
mod tests;
