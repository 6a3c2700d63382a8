//! `ROW.FIELD`, as it is typed and as messages write it.

use reins_kernel::nearest;

use super::text::{Segment, key_text};
use crate::exit::CliError;
use crate::start::quoted;

/// What of a row is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// All that the settings say of it.
    Row,
    Disabled,
    /// A field of its `config`.
    Field(Vec<Segment>),
}

/// Something of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) row: String,
    pub(super) what: What,
}

/// `ROW.FIELD` and `VALUE`, or `ROW.FIELD=VALUE` in one word.
pub(super) fn and_value<'t>(
    key: &'t str,
    value: Option<&'t str>,
) -> Result<(&'t str, &'t str), CliError> {
    if let Some(value) = value {
        return Ok((key, value));
    }
    let mut quote = None;
    let equals = key.char_indices().find(|(_, c)| {
        match (quote, *c) {
            (Some(open), c) if open == c => quote = None,
            (None, c @ ('"' | '\'')) => quote = Some(c),
            _ => {}
        }
        quote.is_none() && *c == '='
    });
    if let Some((at, _)) = equals {
        return Ok((&key[..at], &key[at + 1..]));
    }
    let word = quoted(key);
    Err(CliError::usage(format!("`{key}` gets no value")).with_hint(format!(
        "`reins config set {word} VALUE`; `reins config unset {word}` takes it back"
    )))
}

/// Reads a key. Ids of rows may hold dots, so the longest of these that fits is the row.
pub(super) fn read<'a>(typed: &str, ids: impl Iterator<Item = &'a str>) -> Result<Key, CliError> {
    let rest_of = |id: &str| {
        let rest = typed.strip_prefix(id)?;
        (rest.is_empty() || rest.starts_with('.')).then(|| rest.strip_prefix('.'))
    };
    let known = ids.filter_map(|id| Some((id, rest_of(id)?))).max_by_key(|(id, _)| id.len());
    let (row, rest) = known.unwrap_or_else(|| match typed.split_once('.') {
        Some((row, rest)) => (row, Some(rest)),
        None => (typed, None),
    });
    let what = match rest {
        None => What::Row,
        Some("disabled") => What::Disabled,
        Some(rest) => What::Field(field(typed, rest)?),
    };
    Ok(Key { row: row.to_owned(), what })
}

/// `retry.max_retries`, `models[0].id`, `headers."x.y"`; `config.` may stand before it, as in
/// messages.
fn field(typed: &str, text: &str) -> Result<Vec<Segment>, CliError> {
    let wrong = |problem: &str| {
        CliError::usage(format!("`{typed}`: {problem}"))
            .with_hint("a field is written like `bash.timeout_ms`, `deepseek.models[0].id`")
    };
    let mut path = Vec::new();
    let mut rest = text;
    loop {
        let (name, after) = name(rest).ok_or_else(|| wrong("a name is missing in the path"))?;
        path.push(Segment::Key(name));
        rest = after;
        while let Some(after) = rest.strip_prefix('[') {
            let (index, after) =
                after.split_once(']').ok_or_else(|| wrong("the `[` is not closed"))?;
            let index = index.parse().map_err(|_| wrong("`[…]` must hold a number, from 0"))?;
            path.push(Segment::Index(index));
            rest = after;
        }
        match rest.strip_prefix('.') {
            Some(after) => rest = after,
            None if rest.is_empty() => break,
            None => return Err(wrong("a `.` or `[` must follow what is closed")),
        }
    }
    if path[0] != Segment::key("config") {
        return Ok(path);
    }
    match path.split_off(1) {
        path if path.is_empty() => Err(wrong("name a field in the row's `config`")),
        path => Ok(path),
    }
}

/// A bare or quoted name, and what follows it.
fn name(text: &str) -> Option<(String, &str)> {
    if let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) {
        let (name, rest) = text[1..].split_once(quote)?;
        return Some((name.to_owned(), rest));
    }
    let end = text.find(['.', '[']).unwrap_or(text.len());
    (end > 0).then(|| (text[..end].to_owned(), &text[end..]))
}

/// As messages write it.
pub(super) fn shown(row: &str, path: &[Segment]) -> String {
    let mut text = row.to_owned();
    for segment in path {
        match segment {
            Segment::Key(name) => text.push_str(&format!(".{}", key_text(name))),
            Segment::Index(at) => text.push_str(&format!("[{at}]")),
        }
    }
    text
}

/// The error of a row that is nowhere.
pub(super) fn unknown_row(row: &str, known: &[&str]) -> CliError {
    let error = CliError::usage(format!("there is no row `{row}`"));
    match nearest(row, known.iter().copied()) {
        Some(near) => error.with_hint(format!("did you mean `{near}`?")),
        None => error.with_hint("`reins config dump` shows all rows"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]
mod tests {
    use super::*;

    fn read_one(typed: &str) -> Key {
        read(typed, ["a", "a.b", "bash"].into_iter()).unwrap()
    }

    fn field_of(typed: &str) -> Vec<Segment> {
        match read_one(typed).what {
            What::Field(path) => path,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_key_is_a_row_and_what_is_meant_of_it() {
        assert_eq!(read_one("bash"), Key { row: "bash".into(), what: What::Row });
        assert_eq!(read_one("bash.disabled"), Key { row: "bash".into(), what: What::Disabled });
        assert_eq!(read_one("a.b.c").row, "a.b", "the longest id that fits");
        assert_eq!(read_one("a.bc").row, "a");
        assert_eq!(read_one("no.such.row").row, "no");
        let path = [Segment::key("models"), Segment::Index(0), Segment::key("id")];
        assert_eq!(field_of("bash.models[0].id"), path);
        assert_eq!(field_of("bash.config.models[0].id"), path, "as in messages");
        let nested = [Segment::key("l"), Segment::Index(1), Segment::Index(20)];
        assert_eq!(field_of("bash.l[1][20]"), nested);
        assert_eq!(field_of("bash.\"x.y\".'z[0]'"), [Segment::key("x.y"), Segment::key("z[0]")]);
        assert_eq!(field_of("bash.config.disabled"), [Segment::key("disabled")]);
        assert_eq!(shown("bash", &field_of("bash.\"x y\".l[1]")), "bash.\"x y\".l[1]");
    }

    #[test]
    fn a_path_that_is_none_is_refused() {
        for typed in ["bash.", "bash..a", "bash.a.", "bash.a[", "bash.a[x]", "bash.a[-1]"] {
            assert!(read(typed, ["bash"].into_iter()).is_err(), "{typed}");
        }
        for typed in ["bash.a[0]b", "bash.\"a", "bash.\"a\"b", "bash.config", "bash.[0]"] {
            assert!(read(typed, ["bash"].into_iter()).is_err(), "{typed}");
        }
    }
}
