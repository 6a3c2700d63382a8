//! The only place that writes to standard output and standard error.

use std::io::{IsTerminal, Write};

use reins_world::Env;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::exit::CliError;

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

/// Output proper, byte for byte. A reader that went away (`| head`) is no error of ours.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Output that quotes a model, a tool, a server or a file: raw into a pipe or file, as [`shown`] on
/// a terminal.
pub(crate) fn print_text(text: &str) -> std::io::Result<()> {
    if std::io::stdout().is_terminal() { print(&shown(text)) } else { print(text) }
}

/// [`print_text`] as the end of a command.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn output(text: &str) -> Result<(), CliError> {
    print_text(text).map_err(|e| CliError::internal(format!("standard output: {e}")))
}

/// As [`print_text`] for lines of JSON, which stay JSON of the same value.
pub(crate) fn print_json(text: &str) -> std::io::Result<()> {
    if std::io::stdout().is_terminal() { print(&shown_json(text)) } else { print(text) }
}

/// Whether a person sees how a run goes on.
pub(crate) fn is_watched() -> bool {
    std::io::stderr().is_terminal()
}

/// Whether the terminal says that it can clear a line.
pub(crate) fn can_redraw(env: &Env) -> bool {
    env.get("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Whether a person sees that and the output.
pub(crate) fn is_interactive() -> bool {
    std::io::stdout().is_terminal() && std::io::stderr().is_terminal()
}

/// Whether what is written to standard error appears between what is written to standard output.
pub(crate) fn is_one_terminal() -> bool {
    let (Ok(out), Ok(err)) =
        (rustix::fs::fstat(std::io::stdout()), rustix::fs::fstat(std::io::stderr()))
    else {
        return false;
    };
    is_interactive() && out.st_rdev == err.st_rdev
}

/// Whether a character would drive the terminal, or reorder or hide text. The joiners U+200C and
/// U+200D belong to the writing of many languages and to emoji.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
        || (c.is_control() && !matches!(c, '\n' | '\t'))
}

/// Text from models and tools as it may be shown: control characters except line feed and tab,
/// and characters that reorder or hide text, are escaped, so that nothing can drive the terminal.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// As [`shown`] for JSON, in which such characters stand only inside strings.
fn shown_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

/// As [`shown`], on one line of at most `width` cells of a terminal.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let flat: String =
        shown(text).chars().map(|c| if c.is_whitespace() { ' ' } else { c }).collect();
    if flat.width() <= width {
        return flat;
    }
    let mut left = width.saturating_sub(1);
    let fits = |c: &char| {
        let rest = left.checked_sub(c.width().unwrap_or(0));
        left = rest.unwrap_or(0);
        rest.is_some()
    };
    let cut: String = flat.chars().take_while(fits).collect();
    format!("{cut}…")
}

/// `1 line`, `2 lines`.
pub(crate) fn count(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {}", plural(one)) }
}

fn plural(one: &str) -> String {
    if one.ends_with("ch") { format!("{one}es") } else { format!("{one}s") }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_drives_a_terminal_gets_through() {
        let shown = shown("a\u{1b}[2Jb\r\u{202e}c\u{200b}\td\ne\u{7}");
        assert_eq!(shown, "a\\u{1b}[2Jb\\u{d}\\u{202e}c\\u{200b}\td\ne\\u{7}");
    }

    #[test]
    fn joiners_stay_and_other_invisible_characters_do_not() {
        let family = "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{645}\u{6cc}\u{200c}\u{62e}";
        assert_eq!(shown(family), family);
        assert_eq!(shown("a\u{61c}\u{2028}\u{e0041}\u{9b}"), "a\\u{61c}\\u{2028}\\u{e0041}\\u{9b}");
    }

    #[test]
    fn json_for_a_terminal_has_the_same_value() {
        let value = "a\u{9b}2J\u{202e}\u{e0041}\u{7f} \u{1b}";
        let text = format!("{}\n", serde_json::to_string(value).unwrap());
        let safe = shown_json(&text);
        assert_eq!(safe, "\"a\\u009b2J\\u202e\\udb40\\udc41\\u007f \\u001b\"\n");
        assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), value);
    }

    #[test]
    fn long_lines_are_cut_by_cells() {
        assert_eq!(one_line("äöü\nß long", 6), "äöü ß…");
        assert_eq!(one_line("short", 6), "short");
        assert_eq!(one_line("漢字漢", 6), "漢字漢");
        assert_eq!(one_line("漢字漢字", 6), "漢字…");
        assert_eq!(one_line("漢字漢字", 5), "漢字…");
    }

    #[test]
    fn one_is_singular() {
        assert_eq!(count(1, "match"), "1 match");
        assert_eq!(count(0, "match"), "0 matches");
        assert_eq!(count(2, "line"), "2 lines");
    }
}
