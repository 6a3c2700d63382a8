//! One line of the log.

use std::fmt::{self, Write};

use log::Record;

/// The longest line in bytes, with its line feed.
pub(super) const LINE_BYTES: usize = 4096;
/// What stands at the end of a line that was cut, and the line feed.
const CUT: &str = "…\n";

/// `2026-07-05T10:11:12.123Z 4711 INFO reins_host::open: words`, always one line.
pub(super) fn of(now_ms: i64, pid: u32, record: &Record<'_>) -> String {
    let mut line = Line(String::with_capacity(128));
    let time = jiff::Timestamp::from_millisecond(now_ms).unwrap_or_default();
    let (level, target) = (record.level(), record.target());
    // Only a line that is full refuses more.
    let whole = write!(line, "{time:.3} {pid} {level} {target}: {}", record.args()).is_ok();
    line.0.push_str(if whole { "\n" } else { CUT });
    line.0
}

/// Takes text up to the limit, with control characters escaped.
struct Line(String);

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            let before = self.0.len();
            if c.is_control() {
                self.0.extend(c.escape_unicode());
            } else {
                self.0.push(c);
            }
            if self.0.len() > LINE_BYTES - CUT.len() {
                self.0.truncate(before);
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &str) -> String {
        let args = format_args!("{words}").to_string();
        of(
            1_783_246_272_120,
            4711,
            &Record::builder()
                .level(log::Level::Info)
                .target("reins_x")
                .args(format_args!("{args}"))
                .build(),
        )
    }

    #[test]
    fn a_line_says_when_who_and_what_and_stays_a_line() {
        let expected = "2026-07-05T10:11:12.120Z 4711 INFO reins_x: a\\u{a}b\\u{1b}\n";
        assert_eq!(line("a\nb\u{1b}"), expected);
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        for filler in ["x", "ä", "€", "\u{1b}"] {
            let cut = line(&filler.repeat(LINE_BYTES));
            assert!(cut.len() <= LINE_BYTES && cut.len() > LINE_BYTES - 16, "{}", cut.len());
            assert!(cut.ends_with("…\n"), "{cut}");
        }
    }
}
