//! Finds an event by its number without reading the log: bisection over byte offsets.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::files;
use crate::StoreError;

/// Below this many bytes lines are read one after the other.
const LINEAR_BYTES: u64 = 64 << 10;

/// Enough for `{"seq":` and any number.
const PREFIX_BYTES: usize = 32;

/// The file and the offset of a line whose event is `seq` or shortly before it. `None` when the
/// first file begins later or cannot be understood; then reading begins at the start.
pub(crate) fn find(segments: &[PathBuf], seq: u64) -> Result<Option<(usize, u64)>, StoreError> {
    for (at, path) in segments.iter().enumerate().rev() {
        let file = files::open_to_read(path)?;
        let found = find_in(&file, seq).map_err(|e| StoreError::io(path, e))?;
        if let Some(offset) = found {
            return Ok(Some((at, offset)));
        }
    }
    Ok(None)
}

fn find_in(file: &File, seq: u64) -> io::Result<Option<u64>> {
    if seq_at(file, 0)?.is_none_or(|first| first > seq) {
        return Ok(None);
    }
    let (mut low, mut high) = (0, file.metadata()?.len());
    while high - low > LINEAR_BYTES {
        let middle = low + (high - low) / 2;
        let Some(start) = line_start_after(file, middle, high)? else {
            high = middle;
            continue;
        };
        match seq_at(file, start)? {
            Some(found) if found <= seq => low = start,
            Some(_) => high = middle,
            // A damaged line; reading from here on will come upon it and say so.
            None => break,
        }
    }
    Ok(Some(low))
}

/// The first offset after a line feed in `from..until`.
fn line_start_after(file: &File, from: u64, until: u64) -> io::Result<Option<u64>> {
    let mut chunk = [0; 8 << 10];
    let mut at = from;
    while at < until {
        let read = file.read_at(&mut chunk, at)?;
        if read == 0 {
            return Ok(None);
        }
        if let Some(feed) = chunk[..read].iter().position(|byte| *byte == b'\n') {
            let start = at + feed as u64 + 1;
            return Ok((start < until).then_some(start));
        }
        at += read as u64;
    }
    Ok(None)
}

fn seq_at(file: &File, offset: u64) -> io::Result<Option<u64>> {
    let mut prefix = [0; PREFIX_BYTES];
    let mut filled = 0;
    while filled < PREFIX_BYTES {
        match file.read_at(&mut prefix[filled..], offset + filled as u64)? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(line_seq(&prefix[..filled]))
}

/// The number at the start of a line, unchecked.
pub(crate) fn line_seq(line: &[u8]) -> Option<u64> {
    let digits = line.strip_prefix(b"{\"seq\":")?;
    let end = digits.iter().position(|byte| *byte == b',')?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
