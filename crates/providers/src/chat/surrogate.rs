//! Halves of characters. Servers that write JSON in ASCII cut an answer between two tokens, which
//! may be the two escapes of one character; and models make halves without a partner.

use std::borrow::Cow;

/// The fields whose texts go on in the next event.
const GOING_ON: [&str; 4] = ["content", "reasoning_content", "reasoning", "arguments"];
const REPLACEMENT: &str = "\\ufffd";

/// Mends the JSON of one answer, event by event.
#[derive(Default)]
pub(super) struct Halves {
    /// The first half at the end of a text, with the field's name: the next text may begin with
    /// the second.
    open: Option<(&'static str, String)>,
}

impl Halves {
    /// The field whose text ended in the first half of a character, once nothing follows.
    pub(super) fn take(&mut self) -> Option<&'static str> {
        self.open.take().map(|(field, _)| field)
    }

    /// The same JSON without a half: two halves are joined, one alone becomes U+FFFD.
    pub(super) fn mend<'a>(&mut self, json: &'a str) -> Cow<'a, str> {
        if self.open.is_none() && !json.contains("\\ud") && !json.contains("\\uD") {
            return json.into();
        }
        let mut mended = String::with_capacity(json.len());
        let mut rest = json;
        let mut field = None;
        while let Some(quote) = rest.find('"') {
            let (before, string) = rest.split_at(quote + 1);
            mended.push_str(before);
            let end = end_of(string);
            let (text, after) = string.split_at(end);
            if after.get(1..).is_some_and(|after| after.trim_ascii_start().starts_with(':')) {
                field = GOING_ON.into_iter().find(|name| *name == text);
                mended.push_str(text);
            } else {
                self.text(field.take(), text, &mut mended);
            }
            let close = after.len().min(1);
            mended.push_str(&after[..close]);
            rest = &after[close..];
        }
        mended.push_str(rest);
        mended.into()
    }

    fn text(&mut self, field: Option<&'static str>, text: &str, mended: &mut String) {
        let begun = self.open.take_if(|(open, _)| Some(*open) == field && !text.is_empty());
        let mut first = begun.map(|(_, escape)| escape);
        let mut rest = text;
        loop {
            let half = rest.find('\\').unwrap_or(rest.len());
            let (plain, escape) = rest.split_at(half);
            let second = is_half(escape, 0xDC00) && plain.is_empty();
            if let Some(first) = first.take() {
                mended.push_str(if second { &first } else { REPLACEMENT });
                if second {
                    mended.push_str(&escape[..6]);
                    rest = &escape[6..];
                    continue;
                }
            }
            mended.push_str(plain);
            if is_half(escape, 0xD800) {
                first = Some(escape[..6].to_owned());
                rest = &escape[6..];
                if !rest.is_empty() {
                    continue;
                }
                match field {
                    Some(field) => self.open = first.map(|first| (field, first)),
                    None => mended.push_str(REPLACEMENT),
                }
                return;
            }
            if is_half(escape, 0xDC00) {
                mended.push_str(REPLACEMENT);
                rest = &escape[6..];
                continue;
            }
            // Any other escape, of which only the first two characters matter.
            let other = escape.char_indices().nth(2).map_or(escape.len(), |(at, _)| at);
            mended.push_str(&escape[..other]);
            rest = &escape[other..];
            if rest.is_empty() {
                return;
            }
        }
    }
}

/// Where a string ends whose first quote was read: at its last quote, or where the JSON is cut.
fn end_of(string: &str) -> usize {
    let mut escaped = false;
    let end = string.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(string.len())
}

/// Whether a text starts with the escape of one of the 1024 halves from `base` on.
fn is_half(escape: &str, base: u32) -> bool {
    let digits = escape.strip_prefix("\\u").and_then(|escape| escape.get(..4));
    let unit = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    unit.is_some_and(|unit| (base..base + 0x400).contains(&unit))
}
