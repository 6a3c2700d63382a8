//! `reins explain prompt`

use reins_host::{Explain, PromptFacts, Shadowed};
use reins_kernel::Origin;

use super::page::{Page, by, shadowed};
use super::unknown;
use crate::exit::CliError;

const FACTS: &str = "Facts are no part of the prompt: they stand in the history, in a message of \
                     their own, again whenever one of them has changed.";

/// What is known of a section or a fact.
struct Part<'p> {
    name: &'p str,
    origin: &'p Origin,
    scope: &'p str,
    shadows: &'p [Shadowed],
    /// What the model reads; empty = nothing.
    text: String,
}

pub(super) fn text(
    explain: &Explain,
    prompt: &PromptFacts,
    only: Option<&str>,
    raw: bool,
) -> Result<String, CliError> {
    let (sections, facts) = (sections(prompt), facts(prompt));
    let Some(only) = only else {
        return Ok(if raw { prompt.system() } else { whole(explain, &sections, &facts) });
    };
    let mut all = sections.iter().chain(&facts);
    match all.find(|part| part.name == only) {
        Some(part) if raw => Ok(part.text.clone()),
        Some(part) => {
            let mut page = Page::default();
            one(&mut page, part);
            Ok(page.done())
        }
        None => {
            let names: Vec<&str> = sections.iter().chain(&facts).map(|part| part.name).collect();
            Err(unknown("prompt part", only, &names))
        }
    }
}

fn sections(prompt: &PromptFacts) -> Vec<Part<'_>> {
    let parts = prompt.sections.iter().map(|(part, shadows)| Part {
        name: &part.name,
        origin: &part.origin,
        scope: &part.scope,
        shadows,
        text: part.text.clone(),
    });
    parts.collect()
}

fn facts(prompt: &PromptFacts) -> Vec<Part<'_>> {
    let line = |text: &String| format!("- {text}");
    let parts = prompt.facts.iter().map(|(part, shadows)| Part {
        name: &part.name,
        origin: &part.origin,
        scope: &part.scope,
        shadows,
        text: part.text.as_ref().map(line).unwrap_or_default(),
    });
    parts.collect()
}

fn whole(explain: &Explain, sections: &[Part<'_>], facts: &[Part<'_>]) -> String {
    let mut page = Page::default();
    for part in sections {
        one(&mut page, part);
        page.gap();
    }
    if sections.is_empty() {
        page.line(format_args!("No row gives agents of preset `{}` a prompt.", explain.preset()));
        page.gap();
    }
    if facts.is_empty() {
        page.line("No row states facts.");
    } else {
        page.line(FACTS);
    }
    for part in facts {
        one(&mut page, part);
    }
    page.done()
}

fn one(page: &mut Page, part: &Part<'_>) {
    let Part { name, origin, scope, shadows, text } = part;
    let mut heading = format!("── {name}  {}, scope {scope}", by(origin));
    for shadow in *shadows {
        heading.push_str(&format!("; in place of {}", shadowed(shadow)));
    }
    page.line(heading);
    page.line(if text.is_empty() { "(nothing to say now)" } else { text });
}
