//! `{{…}}` in a script's texts.

use reins_kernel::nearest;

const NAMES: [&str; 4] = ["n", "round", "last_message", "last_tool_result"];

/// What placeholders stand for in one request.
pub(super) struct Values {
    /// The request's number, from 1.
    pub(super) n: u64,
    /// How often this answer has been played, from 1.
    pub(super) round: u64,
    pub(super) last_message: String,
    pub(super) last_tool_result: String,
}

impl Values {
    /// The text with everything replaced that is a placeholder; what is put in is not looked at
    /// again.
    pub(super) fn fill(&self, text: &str, escape: impl Fn(&str) -> String) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, inner, after)) = next(rest) {
            filled.push_str(before);
            match self.value(inner) {
                Some(value) => filled.push_str(&escape(&value)),
                None => {
                    filled.push_str("{{");
                    filled.push_str(inner);
                    filled.push_str("}}");
                }
            }
            rest = after;
        }
        filled.push_str(rest);
        filled
    }

    fn value(&self, inner: &str) -> Option<String> {
        let (name, offset) = split(inner)?;
        let number = |of: u64| of.checked_add_signed(offset).map(|number| number.to_string());
        match name {
            "n" => number(self.n),
            "round" => number(self.round),
            "last_message" if offset == 0 => Some(self.last_message.clone()),
            "last_tool_result" if offset == 0 => Some(self.last_tool_result.clone()),
            _ => None,
        }
    }
}

/// Refuses what was probably meant to be a placeholder. Other double braces stay as they are.
pub(super) fn check(text: &str) -> Result<(), String> {
    let mut rest = text;
    while let Some((_, inner, after)) = next(rest) {
        let name = split(inner).map_or(inner, |(name, _)| name);
        if !NAMES.contains(&name)
            && let Some(near) = nearest(name, NAMES).filter(|near| near.len() > 1)
        {
            return Err(format!("`{{{{{inner}}}}}`: did you mean `{{{{{near}}}}}`?"));
        }
        rest = after;
    }
    Ok(())
}

/// What is before the first `{{…}}`, in it, and after it.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once("{{")?;
    let (inner, after) = rest.split_once("}}")?;
    Some((before, inner, after))
}

/// `n+1` is `n` and 1.
fn split(inner: &str) -> Option<(&str, i64)> {
    let Some(at) = inner.find(['+', '-']) else { return Some((inner, 0)) };
    let (name, offset) = inner.split_at(at);
    Some((name, offset.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Values, check};

    #[test]
    fn only_placeholders_are_replaced_and_only_once() {
        let values = Values {
            n: 3,
            round: 1,
            last_message: "{{n}}".to_owned(),
            last_tool_result: "a\"b".to_owned(),
        };
        let table = [
            ("step {{n}} of {{n+10}}, {{round-1}}", "step 3 of 13, 0"),
            ("{{last_message}}", "{{n}}"),
            ("{{last_tool_result}}", "a\"b"),
            ("{{ n }} {{user}} {{n+x}} {{round-9}} {{", "{{ n }} {{user}} {{n+x}} {{round-9}} {{"),
        ];
        for (text, filled) in table {
            assert_eq!(values.fill(text, str::to_owned), filled, "{text}");
        }
    }

    #[test]
    fn a_misspelt_placeholder_is_refused() {
        assert_eq!(
            check("{{last_tool_reslt}}").unwrap_err(),
            "`{{last_tool_reslt}}`: did you mean `{{last_tool_result}}`?"
        );
        assert_eq!(check("{{ handlebars }} {{x}} {{round+1}}"), Ok(()));
    }
}
