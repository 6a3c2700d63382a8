//! The text of one answer of `read`.

use std::fmt::Write;

use reins_agent::ToolFailure;
use reins_world::{LineWindow, Lines};

use crate::cap::count;

/// What was asked for.
pub(super) struct Page {
    pub(super) window: LineWindow,
}

impl Page {
    /// Drops lines for which there is no room together with their numbers; the first one stays.
    pub(super) fn fit(&self, lines: &mut Lines) {
        let mut bytes = 0;
        let fits = lines.lines.iter().take_while(|line| {
            bytes += line.number.to_string().len() + ": ".len() + line.text.len() + 1;
            bytes <= self.window.max_bytes
        });
        let fitting = fits.count().max(1);
        lines.capped |= fitting < lines.lines.len();
        lines.lines.truncate(fitting);
    }

    /// The envelope with numbered lines and a last line that says how to go on.
    pub(super) fn text(
        &self,
        path: &str,
        lines: &Lines,
        replaced: usize,
    ) -> Result<String, ToolFailure> {
        if lines.total < self.window.first && !(lines.total == 0 && self.window.first == 1) {
            let message = format!(
                "offset {} is out of range: `{path}` has {}",
                self.window.first,
                count_lines(lines.total)
            );
            return Err(ToolFailure::new("FS_NOT_FOUND", message));
        }
        let skipped = self.window.skip_bytes;
        if skipped > 0 && lines.lines.first().is_none_or(|line| line.text.is_empty()) {
            let message = format!("column {skipped} is past the end of line {}", self.window.first);
            return Err(ToolFailure::new("FS_NOT_FOUND", message));
        }
        let mut text = format!("<path>{path}</path>\n<type>file</type>\n<content>\n");
        for line in &lines.lines {
            let skipped = if line.number == self.window.first { self.window.skip_bytes } else { 0 };
            let from = if skipped > 0 { "…" } else { "" };
            let _infallible = write!(text, "{}: {from}{}", line.number, line.text);
            if let Some(length) = line.cut_from {
                let next = skipped + line.text.len() as u64;
                let _infallible = write!(
                    text,
                    "… [cut: the line has {length} bytes; continue with offset={}, column={next}]",
                    line.number
                );
            }
            text.push('\n');
        }
        if !lines.lines.is_empty() {
            text.push('\n');
        }
        let _infallible = writeln!(text, "({})\n</content>", self.footer(lines));
        if replaced > 0 {
            let _infallible = writeln!(
                text,
                "(Not UTF-8: {} shown as U+FFFD. `edit` keeps such bytes as they are.)",
                count(replaced, "byte sequence is", "byte sequences are")
            );
        }
        Ok(text)
    }

    fn footer(&self, lines: &Lines) -> String {
        let Some((first, last)) = lines.lines.first().zip(lines.lines.last()) else {
            return "The file is empty".into();
        };
        let (first, last, total) = (first.number, last.number, lines.total);
        let cut_in_last = lines.lines.last().is_some_and(|line| line.cut_from.is_some());
        if last == total && !(cut_in_last && self.window.skip_bytes > 0) {
            return format!("End of file: {}", count_lines(total));
        }
        let why = if lines.capped {
            format!("Output limited to {} bytes: lines", self.window.max_bytes)
        } else {
            "Lines".into()
        };
        if last == total {
            return format!("{why} {first}-{last} of {total}");
        }
        format!("{why} {first}-{last} of {total}; continue with offset={}", last + 1)
    }
}

fn count_lines(total: u64) -> String {
    count(usize::try_from(total).unwrap_or(usize::MAX), "line", "lines")
}
