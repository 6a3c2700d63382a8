//! `VALUE`: what it may mean, and how values are shown.

use reins_kernel::RowError;
use toml::{Table, Value};

use super::text::Segment;
use crate::terminal::one_line;

/// Longest value that is shown whole, in cells of a terminal.
const WIDTH: usize = 60;
/// What stands for a value that is a secret.
const WITHHELD: &str = "[withheld]";
/// Fields that hold secrets.
const SECRET: [&str; 8] = [
    "api_key",
    "headers",
    "authorization",
    "password",
    "passphrase",
    "secret",
    "token",
    "credentials",
];

/// What was typed, as TOML: the value that it is, when it is one, then the string that it is.
pub(super) fn candidates(typed: &str) -> Vec<String> {
    let string = Value::String(typed.to_owned()).to_string();
    let trimmed = typed.trim();
    let is_value = trimmed.parse::<toml_edit::Value>().is_ok();
    let parsed = toml::from_str::<Table>(&format!("v = {trimmed}")).ok().filter(|_| is_value);
    match parsed.as_ref().and_then(|table| table.get("v")) {
        // No field takes a date, but strings may look like one.
        None | Some(Value::Datetime(_)) => vec![string],
        Some(_) => vec![trimmed.to_owned(), string],
    }
}

/// Of what was said of the two meanings of a value, what helps more: a value of the right type
/// that is refused says more than one of a wrong type.
pub(super) fn sensible(first: Vec<RowError>, second: Option<Vec<RowError>>) -> Vec<RowError> {
    match second {
        Some(second) if is_of_type(&first) && !is_of_type(&second) => second,
        _ => first,
    }
}

fn is_of_type(errors: &[RowError]) -> bool {
    let says = |problem: &str| {
        (problem.starts_with("must be ") && problem.contains(", found "))
            || problem.starts_with("invalid type")
    };
    errors.iter().any(|error| says(&error.problem))
}

/// For people, on one line; secrets are not shown. `marked` are the fields that the plugin says are
/// secret, as `headers` or `models[].key`.
pub(super) fn shown(path: &[Segment], value: Option<&Value>, marked: &[String]) -> String {
    let Some(value) = value else { return "not set".to_owned() };
    let names = path.iter().filter_map(|segment| match segment {
        Segment::Key(name) => Some(name),
        Segment::Index(_) => None,
    });
    let mut names = names.map(String::as_str);
    let (path, is_marked) =
        path.iter().fold((String::new(), false), |(path, is_marked), segment| {
            let path = below(&path, segment);
            let is_marked = is_marked || marked.contains(&path);
            (path, is_marked)
        });
    if is_marked || names.any(is_secret) {
        return WITHHELD.to_owned();
    }
    one_line(&without_secrets(value.clone(), &path, marked).to_string(), WIDTH)
}

/// Paths as the documentation of fields writes them: every element of a list is `[]`.
fn below(path: &str, segment: &Segment) -> String {
    match segment {
        Segment::Index(_) => format!("{path}[]"),
        Segment::Key(name) if path.is_empty() => name.clone(),
        Segment::Key(name) => format!("{path}.{name}"),
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase().replace('-', "_");
    SECRET.iter().any(|secret| {
        name.strip_suffix(secret).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
    })
}

fn without_secrets(value: Value, path: &str, marked: &[String]) -> Value {
    match value {
        Value::Table(table) => {
            let fields = table.into_iter().map(|(name, value)| {
                let path = below(path, &Segment::key(&name));
                let value = match is_secret(&name) || marked.contains(&path) {
                    true => Value::String(WITHHELD.to_owned()),
                    false => without_secrets(value, &path, marked),
                };
                (name, value)
            });
            Value::Table(fields.collect())
        }
        Value::Array(list) => {
            let path = below(path, &Segment::Index(0));
            let list = list.into_iter().map(|value| without_secrets(value, &path, marked));
            Value::Array(list.collect())
        }
        // An address with a password.
        Value::String(text) if holds_password(&text) => Value::String(WITHHELD.to_owned()),
        other => other,
    }
}

fn holds_password(text: &str) -> bool {
    let after = text.split_once("://").map(|(_, rest)| rest);
    after.is_some_and(|rest| rest.split('/').next().is_some_and(|place| place.contains('@')))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_toml_is_tried_first_and_a_string_always() {
        for (typed, first) in [("5", "5"), (" [1,\n2] ", "[1,\n2]"), ("1_000", "1_000")] {
            assert_eq!(candidates(typed)[0], first);
            assert_eq!(candidates(typed).len(), 2);
        }
        assert_eq!(candidates("high"), ["\"high\""]);
        assert_eq!(candidates("2026-01-02"), ["\"2026-01-02\""], "strings may look like dates");
        assert_eq!(candidates("1 # x").len(), 1, "a comment is no part of a value");
        assert_eq!(candidates("1\nx = 2").len(), 1, "nor is another statement");
        assert_eq!(candidates("")[0], "\"\"");
    }

    #[test]
    fn secrets_are_not_shown() {
        let value: Table = toml::from_str(
            "a = { api_key = 'k', x = [{ headers = { a = 'k' } }], max_tokens = 1, \
             api_key_env = 'E' }\n\
             u = 'http://me:k@host/'\nv = 'http://host/@'\n",
        )
        .unwrap();
        let of = |path: &[Segment], name: &str| shown(path, value.get(name), &[]);
        let all = of(&[Segment::key("a")], "a");
        assert!(!all.contains("\"k\""), "{all}");
        assert!(all.contains("api_key_env = \"E\""), "{all}");
        assert_eq!(of(&[Segment::key("X-Token")], "v"), WITHHELD);
        assert_eq!(of(&[Segment::key("u")], "u"), "\"[withheld]\"");
        assert_eq!(of(&[Segment::key("v")], "v"), "\"http://host/@\"");
        assert_eq!(of(&[Segment::key("headers"), Segment::key("x")], "v"), WITHHELD);
        assert_eq!(of(&[Segment::key("n")], "n"), "not set");
    }

    #[test]
    fn what_a_plugin_marks_as_secret_is_not_shown() {
        let value: Table = toml::from_str("l = [{ pin = 1, n = 2 }]").unwrap();
        let marked = ["l[].pin".to_owned()];
        let list = [Segment::key("l")];
        assert_eq!(shown(&list, value.get("l"), &marked), "[{ n = 2, pin = \"[withheld]\" }]");
        let pin = [Segment::key("l"), Segment::Index(0), Segment::key("pin")];
        assert_eq!(shown(&pin, Some(&Value::Integer(1)), &marked), WITHHELD);
        assert_eq!(shown(&pin, Some(&Value::Integer(1)), &[]), "1");
    }
}
