//! What is said of a text that is not TOML.
//!
//! The parser knows where, but speaks to those who know the grammar. Its words stay where they are
//! good enough. What is quoted from the text is never a value: it may be a secret.

use toml::de::Error;

use super::layer::Form;

/// A place in the text, and what is wrong there.
pub(super) struct Fault {
    /// In bytes.
    pub(super) at: usize,
    pub(super) problem: String,
}

/// One fault for each line that has any: the others would mostly be consequences.
pub(super) fn faults(text: &str, errors: &[Error], form: Form) -> Vec<Fault> {
    if let Some(at) = text.find('\0') {
        let problem = "there are zero bytes in the file: it is damaged, or saved as UTF-16; save \
                       it as UTF-8"
            .to_owned();
        return vec![Fault { at, problem }];
    }
    let mut faults: Vec<(usize, Fault)> = Vec::new();
    for error in errors {
        let fault = fault(text, error, form);
        let line = text[..fault.at].matches('\n').count();
        if !faults.iter().any(|(known, other)| *known == line || other.problem == MERGE) {
            faults.push((line, fault));
        }
    }
    faults.into_iter().map(|(_, fault)| fault).collect()
}

const MERGE: &str = "this is left from a merge; keep one of the two sides";

fn fault(text: &str, error: &Error, form: Form) -> Fault {
    let span = error.span().unwrap_or(0..0);
    let found = text.get(span.clone()).unwrap_or_default();
    let at = if error.message().starts_with("invalid multi-line") && found.is_empty() {
        let quotes = if error.message().contains("literal") { "'''" } else { "\"\"\"" };
        // It is told where the text ends. What is open began with the last quotes.
        text.rfind(quotes).unwrap_or(span.start)
    } else {
        span.start.min(text.len())
    };
    let before = text.get(..at).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(start..).unwrap_or_default().lines().next().unwrap_or_default();
    let next = text.get(at..).unwrap_or_default();
    let place = Around { line: line.trim(), found, next, form };
    let problem = place.problem(error.message().trim_end());
    Fault { at, problem }
}

/// What the parser's words begin with, the longer before the shorter, and what is said for it.
const PLAIN: &[(&str, &str)] = &[
    ("invalid basic string", "the string is not closed; end it with `\"`"),
    ("invalid literal string", "the string is not closed; end it with `'`"),
    (
        "invalid multi-line basic string",
        "the text that begins here is not closed; end it with `\"\"\"`",
    ),
    (
        "invalid multi-line literal string",
        "the text that begins here is not closed; end it with `'''`",
    ),
    ("missing opening quote", "a quotation mark is missing before the text"),
    ("invalid value", "the escape `\\u` or `\\U` stands for no character"),
    ("too few unicode value digits", "the escape `\\u` takes four digits, `\\U` eight"),
    ("key with no value", NO_VALUE),
    ("missing value for key", NO_VALUE),
    ("missing assignment", NO_VALUE),
    ("unquoted keys cannot be empty", NO_KEY),
    ("missing key", NO_KEY),
    ("keys cannot be multi-line", "a key must stand on one line"),
    (
        "invalid unquoted key",
        "a key of other characters than letters, digits, `-` and `_` must stand in quotes",
    ),
    ("invalid key-value pair", "this is no `key = value`"),
    ("invalid inline table element", "this is no `key = value`"),
    ("unexpected key or value", "the rest of this line belongs on a line of its own"),
    (
        "cannot extend value of type inline table",
        "what stands between braces cannot be added to; \
     write all of it in one place",
    ),
    ("cannot extend value", "this key has a value already, and cannot hold other keys"),
    ("extra comma", "there is a comma too many"),
    ("extra `=`", "there is a `=` too many"),
    ("extra assignment", "there is a `=` too many, or a comma is missing before the key"),
    ("missing comma between key-value pairs", "a comma is missing before this `key = value`"),
    ("missing comma", "the list is not closed, or a comma is missing in it"),
    ("unclosed array table", "the brackets are not closed; end them with `]]`"),
    ("unclosed table", "the bracket is not closed; end it with `]`"),
    ("unclosed array", "the list is not closed; end it with `]`"),
    ("unclosed inline table", "the table is not closed; end it with `}`"),
    ("missing table open", "there is a `]` without a `[`"),
    ("missing array opening", "there is a `]` without a `[`"),
    ("missing inline table opening", "there is a `}` without a `{`"),
    ("unexpected leading zero", "a number must not begin with 0"),
    ("invalid date", "this is no date; text stands in quotes"),
    ("invalid time", "this is no time; text stands in quotes"),
    ("unexpected `=` in array", "a list holds values, not `key = value`"),
    ("`_` may only go between digits", NO_NUMBER),
    ("invalid fraction", NO_NUMBER),
    ("invalid mantissa", NO_NUMBER),
    ("invalid exponent", NO_NUMBER),
    ("carriage return", "a carriage return alone ends no line; save the file with usual line ends"),
    ("invalid comment character", "a control character in a comment; take it out"),
];

const NO_VALUE: &str = "a key without a value; write `key = value`";
const NO_KEY: &str = "a key is missing; write `key = value`";
const NO_NUMBER: &str =
    "this is no number; numbers have no commas and no units, text stands in quotes";

struct Around<'t> {
    line: &'t str,
    found: &'t str,
    /// The text from there on.
    next: &'t str,
    form: Form,
}

impl Around<'_> {
    fn problem(&self, words: &str) -> String {
        let Self { line, found, form, .. } = self;
        if ["<<<<<<<", "=======", ">>>>>>>"].iter().any(|mark| line.starts_with(mark)) {
            return MERGE.to_owned();
        }
        let kind = words.split_once(", expected").map_or(words, |(kind, _)| kind);
        let said = match kind {
            "string values must be quoted" | "invalid boolean" | "invalid float" => self.value(),
            "invalid basic string" | "invalid multi-line basic string" if !found.is_empty() => {
                return control_character(found);
            }
            "missing escaped value" => return self.escape(),
            "duplicate key" if ["row", "insert"].contains(found) => {
                return format!(
                    "`{found}` is there in two forms; write `[[{found}]]` for each, and its other \
                     tables below it"
                );
            }
            "duplicate key" => return format!("the key `{found}` is there twice; keep one"),
            "invalid literal string" if !line.contains('\'') => {
                "this cannot be read; text stands in quotes, numbers have no commas and no units"
            }
            "key with no value" if is_key_with_colon(line) => {
                "write `key = value` instead of `key: value`"
            }
            "key with no value" if ["row", "insert"].contains(&line.trim_end_matches(']')) => {
                return format!("the brackets are missing; write {}", tables(*form));
            }
            "key with no value" if line.contains('=') => {
                "a key with a blank in it must stand in quotes"
            }
            "unquoted keys cannot be empty" if line.starts_with('[') => {
                return format!("a name is missing in the brackets; write {}", tables(*form));
            }
            "invalid key-value pair" if line.starts_with('{') => {
                let main = form.main();
                return format!(
                    "this looks like JSON; write TOML, `[[{main}]]` and below it `key = value`"
                );
            }
            _ => {
                let known = PLAIN.iter().find(|(start, _)| kind.starts_with(start));
                known.map_or(words, |(_, said)| said)
            }
        };
        said.to_owned()
    }

    fn value(&self) -> &'static str {
        let word = self.found.to_ascii_lowercase();
        let begins = |marks: &[char]| word.starts_with(marks);
        match &*word {
            "" => "a value is missing after the `=`",
            "true" | "false" | "yes" | "no" | "on" | "off" => "write `true` or `false`",
            "null" | "nil" | "none" => "TOML has no such value; leave the key out",
            _ if begins(&['“', '”', '„', '‘', '’', '«', '»']) => {
                "these quotation marks do not count; write `\"`"
            }
            _ if word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => NO_NUMBER,
            _ => "text must stand in quotes, as in `key = \"text\"`",
        }
    }

    fn escape(&self) -> String {
        let character = self.next.chars().next().filter(|c| !c.is_control()).unwrap_or(' ');
        format!("`\\{character}` is no escape; write `\\\\` for `\\`, or put the text between `'`")
    }
}

fn tables(form: Form) -> String {
    let kinds: Vec<String> =
        form.tables().iter().rev().map(|kind| format!("`[[{kind}]]`")).collect();
    kinds.join(" or ")
}

fn control_character(found: &str) -> String {
    let code = found.chars().next().map_or(0, u32::from);
    format!("a control character in a string; take it out, or write it as `\\u{code:04X}`")
}

/// As in `id: "bash"`.
fn is_key_with_colon(line: &str) -> bool {
    let key = line.trim_start_matches("- ");
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let rest = key.trim_start_matches(plain);
    rest.len() < key.len() && rest.trim_start().starts_with(':')
}
