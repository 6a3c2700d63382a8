//! How much room things take in the log, whose records are bounded.

use std::io::{self, Write};

use reins_schema::MAX_LINE_BYTES;
use reins_session::Refusal;
use serde::Serialize;

/// What stands around a payload in its record.
const AROUND: usize = 64 * 1024;
/// The most bytes of JSON that are taken into one record.
pub(crate) const MAX_PAYLOAD_BYTES: usize = MAX_LINE_BYTES - AROUND;

/// The bytes of a text in JSON, without its quotes.
pub(crate) fn escaped_bytes(text: &str) -> usize {
    let of = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0C => 2,
        0x00..0x20 => 6,
        _ => 1,
    };
    text.bytes().map(of).sum()
}

/// Refuses what would not fit into a record: such a record ends the session.
pub(crate) fn check_message(message: &impl Serialize) -> Result<(), Refusal> {
    let mut counter = Counter(0);
    serde_json::to_writer(&mut counter, message).map_err(|e| Refusal(e.to_string()))?;
    check_bytes("the message", counter.0)
}

/// As [`check_message`], for JSON that is there already.
pub(crate) fn check_bytes(what: &str, bytes: usize) -> Result<(), Refusal> {
    if bytes <= MAX_PAYLOAD_BYTES {
        return Ok(());
    }
    Err(Refusal(format!(
        "{what} takes {bytes} bytes in the log, whose records hold at most {MAX_PAYLOAD_BYTES}; \
         make it shorter, or put it into a file and name the file"
    )))
}

struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_as_long_as_their_json() {
        let every: String = ('\0'..'\u{300}').collect();
        for text in ["", "a", "\"\\/", "\u{7f}\u{2028}\u{ffff}", "读写", "😀", &every] {
            let json = serde_json::to_string(text).unwrap();
            assert_eq!(escaped_bytes(text) + 2, json.len(), "{text:?}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_its_length() {
        assert_eq!(check_bytes("it", MAX_PAYLOAD_BYTES), Ok(()));
        let refusal = check_bytes("it", MAX_PAYLOAD_BYTES + 1).unwrap_err();
        let length = format!("it takes {} bytes", MAX_PAYLOAD_BYTES + 1);
        assert!(refusal.0.contains(&length), "{refusal:?}");
    }
}
