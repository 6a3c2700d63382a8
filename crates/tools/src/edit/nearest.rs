//! What a file has instead of a text that was not found.

use std::collections::HashSet;
use std::fmt::Write;

use super::view::{fold_char, look_alike};
use crate::cap::clip;

/// Lines shown at most.
const MAX_LINES: usize = 12;
/// Bytes shown of one line at most.
const MAX_LINE_BYTES: usize = 300;
/// Odd characters named at most.
const MAX_ODD: usize = 6;

/// A report on the lines of `file` that are most like `old`, and where they differ; `None` when
/// nothing is alike.
pub(super) fn nearest(file: &[u8], old: &str) -> Option<String> {
    let wanted: Vec<&str> = old.lines().collect();
    let (anchor, grams) = wanted
        .iter()
        .map(|line| trigrams(line))
        .enumerate()
        .max_by_key(|(index, grams)| (grams.len(), usize::MAX - index))?;
    if grams.is_empty() {
        return None;
    }
    let lines: Vec<String> = file.split(|byte| *byte == b'\n').map(decode).collect();
    let best = most_alike(&lines, &grams)?;
    let first = best.saturating_sub(anchor);
    let last = (first + wanted.len()).min(lines.len()).min(first + MAX_LINES);
    Some(report(&lines[first..last], first, &wanted[anchor - (best - first)..]))
}

fn most_alike(lines: &[String], grams: &HashSet<[char; 3]>) -> Option<usize> {
    let mut best = (0.4, None);
    for (index, line) in lines.iter().enumerate() {
        let here = trigrams(line);
        let common = here.intersection(grams).count();
        #[expect(clippy::cast_precision_loss, reason = "a rough likeness")]
        let likeness = 2.0 * common as f64 / (here.len() + grams.len()) as f64;
        if likeness > best.0 {
            best = (likeness, Some(index));
        }
    }
    best.1
}

fn report(lines: &[String], first: usize, wanted: &[&str]) -> String {
    let mut text = format!("The nearest text, from line {}:\n", first + 1);
    for (index, line) in lines.iter().enumerate() {
        let number = first + index + 1;
        let _infallible = writeln!(text, "{number}: {}", clip(line, MAX_LINE_BYTES));
    }
    let differing = wanted.iter().zip(lines).position(|(want, have)| *want != have.as_str());
    if let Some(index) = differing {
        text.push_str(&difference(wanted[index], &lines[index], first + index + 1));
    }
    let odd = odd_characters(lines, first);
    if !odd.is_empty() {
        let _infallible = writeln!(text, "Unusual characters in the file: {}.", odd.join(", "));
    }
    text
}

fn difference(want: &str, have: &str, line: usize) -> String {
    let same = want.chars().zip(have.chars()).take_while(|(a, b)| a == b).count();
    format!(
        "First difference in line {line}, column {}: old_string has {}, the file has {}.\n",
        same + 1,
        character(want.chars().nth(same)),
        character(have.chars().nth(same)),
    )
}

fn character(c: Option<char>) -> String {
    match c {
        None => "the end of the line".into(),
        Some(' ') => "a space".into(),
        Some('\t') => "a tab".into(),
        Some(c) if c.is_ascii_graphic() => format!("`{c}`"),
        Some(c) => format!("U+{:04X}", u32::from(c)),
    }
}

fn odd_characters(lines: &[String], first: usize) -> Vec<String> {
    let mut odd = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        for (column, c) in line.chars().enumerate() {
            let control = c.is_control() && c != '\t';
            if !(control || look_alike(c).is_some() || c == '\u{FFFD}') {
                continue;
            }
            odd.push(format!(
                "U+{:04X} (line {}, column {})",
                u32::from(c),
                first + index + 1,
                column + 1
            ));
            if odd.len() == MAX_ODD {
                odd.push("and more".into());
                return odd;
            }
        }
    }
    odd
}

/// Sets of three neighbouring characters, blanks left out.
fn trigrams(line: &str) -> HashSet<[char; 3]> {
    let mut folded = String::with_capacity(line.len());
    line.chars().take(400).for_each(|c| fold_char(c, &mut folded));
    let chars: Vec<char> = folded.to_lowercase().chars().filter(|c| !c.is_whitespace()).collect();
    chars.windows(3).map(|three| [three[0], three[1], three[2]]).collect()
}

fn decode(line: &[u8]) -> String {
    String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned()
}
