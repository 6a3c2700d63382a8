use proc_macro2::Ident;
use syn::visit::{self, Visit};

use crate::finding::Finding;
use crate::source::Source;
use crate::tidy::fenced;
use crate::workspace::Workspace;

const RULE: &str = "word";
const LIST: &str = "GLOSSARY.md";

/// `loser -> winner`. A loser in lower case is refused as a word of any declared name; one in
/// `UpperCamel` only as a whole type's name.
struct Refused<'a> {
    loser: &'a str,
    winner: &'a str,
    whole_type: bool,
}

/// Names that are declared here use the glossary's words.
pub(crate) fn check(workspace: &Workspace, glossary: &str, findings: &mut Vec<Finding>) {
    let refused = parse(glossary, findings);
    for source in workspace.crates.iter().flat_map(|each| each.sources.values()) {
        let mut names = Names { source, refused: &refused, findings };
        names.visit_file(&source.syntax);
    }
}

fn parse<'a>(glossary: &'a str, findings: &mut Vec<Finding>) -> Vec<Refused<'a>> {
    let mut refused = Vec::new();
    for (line, text) in fenced(glossary, "refused") {
        let Some((loser, winner)) = text.split_once("->") else {
            let message = format!("`{text}` is no entry; write `loser -> winner`");
            findings.push(Finding::new(LIST, line, RULE, message));
            continue;
        };
        let (loser, winner) = (loser.trim(), winner.trim());
        let whole_type = loser.starts_with(char::is_uppercase);
        refused.push(Refused { loser, winner, whole_type });
    }
    if refused.is_empty() {
        let message = "has no ```refused block; list `loser -> winner`, one a line";
        findings.push(Finding::new(LIST, 0, RULE, message));
    }
    refused
}

struct Names<'a> {
    source: &'a Source,
    refused: &'a [Refused<'a>],
    findings: &'a mut Vec<Finding>,
}

impl Names<'_> {
    fn name(&mut self, ident: &Ident) {
        self.declared(ident, false);
    }

    fn type_name(&mut self, ident: &Ident) {
        self.declared(ident, true);
    }

    fn declared(&mut self, ident: &Ident, is_type: bool) {
        let name = ident.to_string();
        let words = words(&name);
        for refused in self.refused {
            let hit = match refused.whole_type {
                true => is_type && name == refused.loser,
                false => words.iter().any(|word| word == refused.loser),
            };
            if hit {
                let (loser, winner) = (refused.loser, refused.winner);
                let message = format!("`{name}`: say `{winner}`, not `{loser}` ({LIST})");
                let line = ident.span().start().line;
                self.findings.push(Finding::new(&self.source.path, line, RULE, message));
            }
        }
    }
}

/// The words of a name in any case style, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous_lower = false;
    for char in name.chars() {
        if char == '_' || (char.is_uppercase() && previous_lower) {
            words.push(String::new());
        }
        if char != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(char.to_lowercase());
        }
        previous_lower = char.is_lowercase() || char.is_numeric();
    }
    words
}

impl<'ast> Visit<'ast> for Names<'_> {
    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.type_name(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.type_name(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.type_name(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.type_name(&item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.name(&item.ident);
        visit::visit_item_mod(self, item);
    }

    fn visit_item_const(&mut self, item: &'ast syn::ItemConst) {
        self.name(&item.ident);
        visit::visit_item_const(self, item);
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        self.name(&signature.ident);
        visit::visit_signature(self, signature);
    }

    fn visit_variant(&mut self, variant: &'ast syn::Variant) {
        self.name(&variant.ident);
        visit::visit_variant(self, variant);
    }

    fn visit_field(&mut self, field: &'ast syn::Field) {
        if let Some(ident) = &field.ident {
            self.name(ident);
        }
        visit::visit_field(self, field);
    }
}
