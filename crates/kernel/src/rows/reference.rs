//! The closed set of references in string values.
//!
//! `${home}`, `${env:NAME}`, and `${env:NAME:-default}`, whose default holds when the variable is
//! unset or empty and ends at the first `}`. `$${` stands for a plain `${`. There is no code and
//! no nesting.

use std::path::Path;

/// What references are evaluated with.
pub struct References<'a> {
    /// Reads one environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The directory that `${home}` stands for.
    pub home: &'a Path,
}

/// A string with its references evaluated.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Expanded {
    pub(super) text: String,
    /// Values from the environment, with the reference of each.
    pub(super) secrets: Vec<(String, String)>,
}

#[derive(Debug, PartialEq)]
pub(super) struct BadReference {
    pub(super) problem: String,
    pub(super) suggestion: Option<String>,
    /// Whether only the present environment is to blame, not the text.
    pub(super) unset: bool,
    /// Whether the problem quotes what may be no reference, but part of a value.
    pub(super) beside: bool,
}

impl BadReference {
    fn new(problem: String) -> Self {
        Self { problem, suggestion: None, unset: false, beside: false }
    }

    /// The same without a word of the text.
    pub(super) fn unquoted(self) -> Self {
        let problem =
            format!("`${{` begins a reference, and there is none that can be read; {KNOWN}");
        Self::new(problem)
    }
}

/// Longest reference that is quoted though it is not known and its field is secret.
const MAX_ALONE_BYTES: usize = 64;

const KNOWN: &str = "known are `${home}`, `${env:NAME}`, `${env:NAME:-default}`; \
                     write `$${` for a plain `${`";

/// Bytes that all references of a composition together may bring, so that a short text cannot name
/// a long value again and again until memory is full.
pub(super) const MAX_REFERRED_BYTES: usize = 16 * 1024 * 1024;

/// Evaluates a string; what its references bring is taken off `left`.
pub(super) fn expand(
    text: &str,
    references: &References<'_>,
    left: &mut usize,
) -> Result<Expanded, BadReference> {
    let mut expanded = Expanded::default();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            expanded.text.push_str(&rest[..at - 1]);
            expanded.text.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        expanded.text.push_str(&rest[..at]);
        let Some(end) = rest[at..].find('}') else {
            let start: String = rest[at..].chars().take(40).collect();
            let problem = format!("the reference `{start}` has no closing `}}`; {KNOWN}");
            return Err(BadReference { beside: true, ..BadReference::new(problem) });
        };
        let reference = &rest[at..=at + end];
        // The whole value, as far as that can be a name, is no secret itself.
        let alone = reference == text && reference.len() <= MAX_ALONE_BYTES;
        let quoted = |bad: BadReference| BadReference { beside: !bad.unset && !alone, ..bad };
        let before = expanded.text.len();
        evaluate(reference, references, &mut expanded).map_err(quoted)?;
        let brought = expanded.text.len() - before;
        *left = left.checked_sub(brought).ok_or_else(|| {
            BadReference::new(format!(
                "the references of all rows bring more than {MAX_REFERRED_BYTES} bytes; write fewer \
                 of them"
            ))
        })?;
        rest = &rest[at + end + 1..];
    }
    expanded.text.push_str(rest);
    Ok(expanded)
}

/// `reference` is `${...}` with both ends.
fn evaluate(
    reference: &str,
    references: &References<'_>,
    expanded: &mut Expanded,
) -> Result<(), BadReference> {
    let body = &reference[2..reference.len() - 1];
    if body == "home" {
        let home = references.home.to_str();
        let problem = || BadReference::new("`${home}` is not valid UTF-8 here".to_owned());
        expanded.text.push_str(home.ok_or_else(problem)?);
        return Ok(());
    }
    let Some(variable) = body.strip_prefix("env:") else {
        return Err(unknown(reference, body));
    };
    let (name, default) = match variable.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (variable, None),
    };
    if !is_variable(name) {
        return Err(BadReference::new(no_variable(name)));
    }
    if default.is_some_and(|default| default.contains("${")) {
        let problem =
            format!("`${{env:{name}:-…}}` has a reference in its default; they do not nest");
        return Err(BadReference::new(problem));
    }
    let value = (references.env)(name);
    match (value, default) {
        (Some(value), None) => expanded.push_secret(value, name),
        (Some(value), Some(_)) if !value.is_empty() => expanded.push_secret(value, name),
        (_, Some(default)) => expanded.text.push_str(default),
        (None, None) => {
            let problem = format!(
                "environment variable `{name}` is not set; set it, or write a default: \
                 `${{env:{name}:-default}}`"
            );
            return Err(BadReference { unset: true, ..BadReference::new(problem) });
        }
    }
    Ok(())
}

/// Quotes the first word only: what follows may be meant as a default, and be secret.
fn no_variable(name: &str) -> String {
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let (word, more) = end.map_or((name, ""), |end| (&name[..end], "…"));
    let example = if is_variable(word) { word } else { "NAME" };
    format!(
        "`${{env:{word}{more}}}` holds no name of an environment variable: letters, digits and \
         `_`, not beginning with a digit; a default is written `${{env:{example}:-default}}`"
    )
}

impl Expanded {
    fn push_secret(&mut self, value: String, name: &str) {
        self.text.push_str(&value);
        self.secrets.push((value, format!("${{env:{name}}}")));
    }
}

fn unknown(reference: &str, body: &str) -> BadReference {
    let problem = format!("unknown reference `{reference}`; {KNOWN}");
    let guess = match body.split_once(':') {
        Some((kind, name)) => {
            super::nearest(kind, ["env"]).map(|kind| format!("${{{kind}:{name}}}"))
        }
        None => super::nearest(body, ["home"]).map(|name| format!("${{{name}}}")),
    };
    // `${NAME}` is what shells write.
    let shell = || is_variable(body).then(|| format!("${{env:{body}}}"));
    BadReference { suggestion: guess.or_else(shell), ..BadReference::new(problem) }
}

pub(super) fn is_variable(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| !c.is_ascii_digit()) && name.chars().all(plain)
}
