//! A template: what a file says, and the prompt that arguments make of it.

use std::path::{Path, PathBuf};

use reins_agent::{Arguments, CommandError};

/// Keys that may stand between the `---` lines.
const KEYS: &str = "`description`, `argument-hint`";
/// The placeholder for all arguments.
const ALL: &str = "$ARGUMENTS";
const RULE: &str = "---";
/// The longest prompt that is made, in bytes: a short text may repeat long arguments.
const MAX_PROMPT_BYTES: usize = 16 * 1024 * 1024;
const QUOTES: &str = "quote a word as in a shell; `\\'` is the character itself";

/// A file, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Template {
    file: PathBuf,
    /// One line for people.
    pub(super) description: Option<String>,
    /// What it takes, for people.
    pub(super) argument_hint: Option<String>,
    parts: Vec<Part>,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    All,
    Word { number: usize, line: usize },
}

/// A line with its number.
type Line<'a> = (usize, &'a str);

impl Template {
    /// Takes a text apart. Line ends become `\n`; empty lines around the text go.
    pub(super) fn parse(file: &Path, text: &str) -> Result<Self, CommandError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut template = Self {
            file: file.to_owned(),
            description: None,
            argument_hint: None,
            parts: Vec::new(),
        };
        let lines: Vec<Line<'_>> = (1..).zip(text.lines()).collect();
        let is_rule = |(_, line): &Line<'_>| line.trim() == RULE;
        let mut body = lines.as_slice();
        if let Some((first, after)) = lines.split_first()
            && first.1.trim_end() == RULE
        {
            let Some(end) = after.iter().position(is_rule) else {
                let problem = "the `---` of this line is not closed by another";
                let hint = "end the keys with a line `---`; a rule in the text may be `***`";
                return Err(template.wrong(1, problem).with_hint(hint));
            };
            template.head(&after[..end])?;
            body = &after[end + 1..];
        }
        let Some(start) = body.iter().position(|(_, line)| !line.trim().is_empty()) else {
            return Err(CommandError::new(format!("{}: there is no text in it", file.display()))
                .with_hint("write the prompt into the file, below the lines between `---`"));
        };
        let body = &body[start..];
        let text: Vec<&str> = body.iter().map(|(_, line)| *line).collect();
        template.parts = parts(text.join("\n").trim_end(), body[0].0);
        Ok(template)
    }

    /// The lines between the two `---`.
    fn head(&mut self, lines: &[Line<'_>]) -> Result<(), CommandError> {
        for (number, line) in lines {
            let (number, line) = (*number, line.trim());
            if line.is_empty() {
                continue;
            }
            let Some((key, value)) = line.split_once(':') else {
                let problem = format!("`{line}` is not of the form `key: value`");
                return Err(self.wrong(number, &problem).with_hint(format!("keys are {KEYS}")));
            };
            let field = match key.trim_end() {
                "description" => &mut self.description,
                "argument-hint" => &mut self.argument_hint,
                other => {
                    let problem = format!("unknown key `{other}`");
                    return Err(self.wrong(number, &problem).with_hint(format!("keys are {KEYS}")));
                }
            };
            let first = field.replace(unquoted(value.trim()).to_owned());
            if first.is_some() {
                let problem = format!("`{}` is there twice", key.trim_end());
                return Err(self.wrong(number, &problem).with_hint("remove one of the two lines"));
            }
        }
        Ok(())
    }

    /// The prompt. `name` is what the file is called by.
    ///
    /// # Errors
    /// The arguments do not fit the placeholders.
    pub(super) fn expand(&self, name: &str, arguments: &Arguments) -> Result<String, CommandError> {
        let words = self.words(name, arguments)?;
        let mut prompt = String::new();
        let mut takes_none = true;
        for part in &self.parts {
            takes_none &= matches!(part, Part::Text(_));
            match part {
                Part::Text(text) => prompt.push_str(text),
                Part::All => prompt.push_str(arguments.text()),
                Part::Word { number, line } => {
                    let Some(word) = words.get(number - 1) else {
                        let problem = format!("`${number}` stands here, and there is no argument");
                        let problem = format!("{problem} {number}");
                        return Err(self.wrong(*line, &problem).with_hint(self.usage(name)));
                    };
                    prompt.push_str(word);
                }
            }
            if prompt.len() > MAX_PROMPT_BYTES {
                let file = self.file.display();
                return Err(CommandError::new(format!(
                    "{file}: with these arguments the prompt has more than {MAX_PROMPT_BYTES} bytes"
                ))
                .with_hint("put the text into a file and name the file"));
            }
        }
        if takes_none && !arguments.text().is_empty() {
            prompt.push_str("\n\n");
            prompt.push_str(arguments.text());
        }
        Ok(prompt)
    }

    /// The words that placeholders with numbers stand for. Nothing that was typed is dropped: more
    /// words than there are places for are refused.
    fn words(&self, name: &str, arguments: &Arguments) -> Result<Vec<String>, CommandError> {
        let numbers = self.parts.iter().filter_map(|part| match part {
            Part::Word { number, line } => Some((*number, *line)),
            _ => None,
        });
        let Some((last, line)) = numbers.max_by_key(|(number, _)| *number) else {
            return Ok(Vec::new());
        };
        let words = arguments
            .words()
            .map_err(|e| CommandError::new(format!("`/{name}`: {e}")).with_hint(QUOTES))?;
        if self.parts.contains(&Part::All) {
            return Ok(words);
        }
        let has_place = |number: usize| {
            self.parts
                .iter()
                .any(|part| matches!(part, Part::Word { number: n, .. } if *n == number))
        };
        let problem = match (1..=words.len()).find(|number| !has_place(*number)) {
            None => return Ok(words),
            Some(number) if number > last => format!(
                "`${last}` is the last place for an argument, and there are {} arguments",
                words.len()
            ),
            Some(number) => format!("there is no `${number}`, so argument {number} has no place"),
        };
        let hint = format!("{}; {QUOTES}", self.usage(name));
        Err(self.wrong(line, &problem).with_hint(hint))
    }
    fn usage(&self, name: &str) -> String {
        match &self.argument_hint {
            Some(hint) => format!("usage: /{name} {hint}"),
            None => format!("usage: /{name}, with the arguments that the file names"),
        }
    }

    fn wrong(&self, line: usize, problem: &str) -> CommandError {
        CommandError::new(format!("{}:{line}: {problem}", self.file.display()))
    }
}

/// Without one pair of quotes around it.
fn unquoted(value: &str) -> &str {
    let inner = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    inner('"').or_else(|| inner('\'')).unwrap_or(value)
}

/// A text cut at its placeholders; `line` is the number of its first line.
fn parts(text: &str, mut line: usize) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        plain.push_str(&rest[..at]);
        line += rest[..at].matches('\n').count();
        rest = &rest[at..];
        let (part, length) = placeholder(rest, line);
        match part {
            Some(part) => {
                parts.push(Part::Text(std::mem::take(&mut plain)));
                parts.push(part);
            }
            // `$$` is a dollar, and so is one that begins no placeholder.
            None => plain.push('$'),
        }
        rest = &rest[length..];
    }
    plain.push_str(rest);
    parts.push(Part::Text(plain));
    parts.retain(|part| !matches!(part, Part::Text(text) if text.is_empty()));
    parts
}

/// What begins at this dollar, and how many bytes it takes. A name or number that goes on is
/// another one: `$ARGUMENTS_2` and `$10` are no placeholders.
fn placeholder(text: &str, line: usize) -> (Option<Part>, usize) {
    let follows = |length: usize| text[length..].chars().next();
    let goes_on = |c: char| c.is_alphanumeric() || c == '_';
    if text.starts_with(ALL) && !follows(ALL.len()).is_some_and(goes_on) {
        return (Some(Part::All), ALL.len());
    }
    match follows(1) {
        Some('$') => (None, 2),
        Some(digit @ '1'..='9') if !follows(2).is_some_and(|c| c.is_ascii_digit()) => {
            let number = digit.to_digit(10).map_or(0, |number| number as usize);
            (Some(Part::Word { number, line }), 2)
        }
        _ => (None, 1),
    }
}
