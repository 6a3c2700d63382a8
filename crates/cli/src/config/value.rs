//! `VALUE`: what it may mean.

use reins_kernel::{RowError, RowErrorKind};
use toml::{Table, Value};

/// What was typed, as TOML: the value that it is, when it is one, then the string that it is.
pub(super) fn candidates(typed: &str) -> Vec<String> {
    let string = Value::String(typed.to_owned()).to_string();
    let trimmed = typed.trim();
    let is_value = trimmed.parse::<toml_edit::Value>().is_ok();
    match parsed(trimmed).filter(|_| is_value) {
        // No field takes a date, but strings may look like one.
        None | Some(Value::Datetime(_)) => vec![string],
        Some(_) => vec![trimmed.to_owned(), string],
    }
}

/// The value that a text of TOML is.
pub(super) fn parsed(text: &str) -> Option<Value> {
    toml::from_str::<Table>(&format!("v = {text}")).ok()?.remove("v")
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
    errors.iter().any(|error| error.kind == RowErrorKind::WrongType)
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
}
