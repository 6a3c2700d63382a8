use syn::Item;

use crate::finding::Finding;
use crate::source::{Kind, Source, Token};
use crate::workspace::Workspace;

const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];
const MARKS: [&str; 2] = ["FIXME", "XXX"];
const MODULES: [&str; 6] = ["util", "utils", "common", "helper", "helpers", "misc"];
const UNBOUNDED: [&str; 3] = ["unbounded_channel", "UnboundedSender", "UnboundedReceiver"];

/// What is left lying about before a merge, and what this code base does without.
pub(crate) fn check(workspace: &Workspace, findings: &mut Vec<Finding>) {
    for each in &workspace.crates {
        for source in each.sources.values() {
            let mut found = Vec::new();
            tokens(source, each.name == "sandbox", &mut found);
            marks(source, &mut found);
            modules(source, &source.syntax.items, &mut found);
            findings.append(&mut found);
        }
    }
}

fn tokens(source: &Source, may_be_unsafe: bool, findings: &mut Vec<Finding>) {
    let mut add = |line, rule, message: String| {
        findings.push(Finding::new(&source.path, line, rule, message));
    };
    for (index, token) in source.tokens.iter().enumerate() {
        let Kind::Ident(name) = &token.kind else { continue };
        let name = name.as_str();
        let next = source.tokens.get(index + 1).map(|token| &token.kind);
        let is_macro = next == Some(&Kind::Punct('!'));
        if is_macro && MACROS.contains(&name) {
            add(token.line, "leftover", format!("`{name}!` is left over; finish or remove it"));
        }
        if name == "ignore" && in_attribute(&source.tokens, index) {
            let message = "a test that is ignored proves nothing; repair it or delete it";
            add(token.line, "ignored-test", message.to_owned());
        }
        if name == "unsafe" && !may_be_unsafe {
            let message = "`unsafe` outside crate sandbox; move it there behind a safe function";
            add(token.line, "unsafe", message.to_owned());
        }
        if UNBOUNDED.contains(&name) {
            let message = format!("`{name}` has no limit; use a bounded channel");
            add(token.line, "unbounded", message);
        }
    }
}

/// Whether the token names an attribute: `#[ignore`, or a later part of `#[cfg_attr(.., ignore`.
fn in_attribute(tokens: &[Token], index: usize) -> bool {
    let kind = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map(|token| &token.kind);
    let before = |back: usize| kind(index.checked_sub(back));
    if before(1) == Some(&Kind::Open) {
        return before(2) == Some(&Kind::Punct('#'));
    }
    let mut depth = 0_usize;
    let opening = tokens[..index].iter().rposition(|token| match token.kind {
        Kind::Open if depth == 0 => true,
        Kind::Open => {
            depth -= 1;
            false
        }
        Kind::Close => {
            depth += 1;
            false
        }
        _ => false,
    });
    let head = kind(opening.and_then(|at| at.checked_sub(1)));
    let is_conditional = matches!(head, Some(Kind::Ident(name)) if name == "cfg_attr");
    is_conditional && before(1) == Some(&Kind::Punct(','))
}

fn marks(source: &Source, findings: &mut Vec<Finding>) {
    for (line, comment) in source.comments() {
        let words = comment.split(|char: char| !char.is_alphanumeric() && char != '_');
        for word in words.filter(|word| MARKS.contains(word)) {
            let message = format!("`{word}` is left over; do it, or write down why it is right");
            findings.push(Finding::new(&source.path, line, "leftover", message));
        }
    }
}

fn modules(source: &Source, items: &[Item], findings: &mut Vec<Finding>) {
    for item in items {
        let Item::Mod(module) = item else { continue };
        if MODULES.iter().any(|name| module.ident == name) {
            let line = module.ident.span().start().line;
            let message = format!("module `{}` says nothing; name what it holds", module.ident);
            findings.push(Finding::new(&source.path, line, "module-name", message));
        }
        if let Some((_, items)) = &module.content {
            modules(source, items, findings);
        }
    }
}
