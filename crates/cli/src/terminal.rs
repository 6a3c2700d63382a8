//! The only place that writes to standard output and standard error.

use std::io::{IsTerminal, Write};

/// A line for people, on standard error. It may quote a server, so nothing in it drives the
/// terminal.
pub(crate) fn note(line: &str) {
    // Nobody is left to tell when standard error is gone.
    drop(writeln!(std::io::stderr().lock(), "{}", shown(line)));
}

/// A piece of a line for people, on standard error, shown at once.
pub(crate) fn note_part(part: &str) {
    let mut err = std::io::stderr().lock();
    drop(err.write_all(part.as_bytes()).and_then(|()| err.flush()));
}

/// Output proper. A reader that went away (`| head`) is no error of ours.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Whether a person watches.
pub(crate) fn is_interactive() -> bool {
    std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
}

/// Text from models and tools as it may be shown: control characters except line feed and tab,
/// and characters that reorder or hide text, are escaped, so that nothing can drive the terminal.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let hidden = matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2060}'..='\u{2069}' | '\u{feff}');
        if hidden || (c.is_control() && !matches!(c, '\n' | '\t')) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// As [`shown`], on one line of at most `width` characters.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let flat: String =
        shown(text).chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    if flat.chars().count() <= width {
        return flat;
    }
    let cut: String = flat.chars().take(width.saturating_sub(1)).collect();
    format!("{cut}…")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_drives_a_terminal_gets_through() {
        let shown = shown("a\u{1b}[2Jb\r\u{202e}c\u{200b}\td\ne\u{7}");
        assert_eq!(shown, "a\\u{1b}[2Jb\\u{d}\\u{202e}c\\u{200b}\td\ne\\u{7}");
    }

    #[test]
    fn long_lines_are_cut_by_characters() {
        assert_eq!(one_line("äöü\nß long", 6), "äöü ß…");
        assert_eq!(one_line("short", 6), "short");
    }
}
