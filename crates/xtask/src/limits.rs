use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItemFn, ItemFn, ItemImpl, ItemStruct, Signature, TraitItemFn};

use crate::finding::Finding;
use crate::source::Source;
use crate::workspace::{Crate, Workspace};

const FILE_LINES: usize = 800;
const FUNCTION_LINES: usize = 70;
const PARAMETERS: usize = 6;
const FIELDS: usize = 20;
const LIB_LINES: usize = 150;
const CRATE_LINES: usize = 15_000;
const WIDTH: usize = 100;
const ARCHITECTURE_LINES: usize = 500;
/// What a flat list puts into its head to be exempt from the limit of a file's length.
const CATALOGUE: &str = "//! catalogue:";

/// The sizes that keep a file, a function and a crate readable.
pub(crate) fn check(workspace: &Workspace, architecture: &str, findings: &mut Vec<Finding>) {
    let lines = architecture.lines().count();
    if lines > ARCHITECTURE_LINES {
        let message = format!("{lines} lines, limit {ARCHITECTURE_LINES}; a map, not a manual");
        findings.push(Finding::new("ARCHITECTURE.md", 0, "document-lines", message));
    }
    for each in &workspace.crates {
        check_crate(each, findings);
        for source in each.sources.values() {
            check_file(source, findings);
            check_width(source, findings);
            let mut sizes =
                Sizes { source, schema: each.name == "schema", foreign: false, findings };
            sizes.visit_file(&source.syntax);
        }
    }
}

fn check_crate(each: &Crate, findings: &mut Vec<Finding>) {
    let lines: usize = each.sources.values().map(Source::code_lines).sum();
    if lines > CRATE_LINES {
        let message = format!("{lines} code lines, limit {CRATE_LINES}; split the crate");
        findings.push(Finding::new(each.dir.join("Cargo.toml"), 0, "crate-lines", message));
    }
    let Some(lib) = each.source("src/lib.rs") else { return };
    let lines = lib.text.lines().count();
    if lines > LIB_LINES {
        let message = format!("{lines} lines, limit {LIB_LINES}; move content into modules");
        findings.push(Finding::new(&lib.path, 0, "lib-lines", message));
    }
    let mut bodies = Bodies { lib, findings };
    bodies.visit_file(&lib.syntax);
}

fn check_file(source: &Source, findings: &mut Vec<Finding>) {
    let lines = source.code_lines();
    let is_catalogue = source
        .text
        .lines()
        .any(|line| line.strip_prefix(CATALOGUE).is_some_and(|reason| !reason.trim().is_empty()));
    if lines > FILE_LINES && !is_catalogue {
        let message = format!(
            "{lines} code lines, limit {FILE_LINES}; split it, or give a flat list the head \
             `{CATALOGUE} reason`"
        );
        findings.push(Finding::new(&source.path, 0, "file-lines", message));
    }
}

fn check_width(source: &Source, findings: &mut Vec<Finding>) {
    for (index, line) in source.text.lines().enumerate() {
        let number = index + 1;
        if source.is_literal(number) {
            continue;
        }
        let width = line.chars().count();
        if width > WIDTH {
            let message = format!("{width} characters, limit {WIDTH}; break the line");
            findings.push(Finding::new(&source.path, number, "line-width", message));
        }
        if line.contains('\t') {
            findings.push(Finding::new(&source.path, number, "tab", "tab; indent with spaces"));
        }
    }
}

struct Bodies<'a> {
    lib: &'a Source,
    findings: &'a mut Vec<Finding>,
}

impl<'ast> Visit<'ast> for Bodies<'_> {
    fn visit_block(&mut self, block: &'ast Block) {
        let line = block.brace_token.span.open().start().line;
        if !self.lib.is_test(line) {
            let message = "function body in lib.rs; move it into a module and re-export it";
            self.findings.push(Finding::new(&self.lib.path, line, "lib-body", message));
        }
    }
}

struct Sizes<'a> {
    source: &'a Source,
    schema: bool,
    /// Inside `impl Trait for`: the signature is somebody else's.
    foreign: bool,
    findings: &'a mut Vec<Finding>,
}

impl Sizes<'_> {
    fn function(&mut self, signature: &Signature, block: Option<&Block>) {
        let name = &signature.ident;
        let line = name.span().start().line;
        let count = signature.inputs.len();
        if count > PARAMETERS && !self.foreign && signature.abi.is_none() {
            let message =
                format!("`{name}` has {count} parameters, limit {PARAMETERS}; name a struct");
            self.findings.push(Finding::new(&self.source.path, line, "parameters", message));
        }
        let Some(block) = block else { return };
        let span = block.brace_token.span;
        let lines = self.source.code_between(span.open().start().line, span.close().start().line);
        if lines > FUNCTION_LINES {
            let message =
                format!("`{name}` has {lines} code lines, limit {FUNCTION_LINES}; split it");
            self.findings.push(Finding::new(&self.source.path, line, "function-lines", message));
        }
    }
}

impl<'ast> Visit<'ast> for Sizes<'_> {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.function(&item.sig, Some(&item.block));
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.function(&item.sig, Some(&item.block));
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.function(&item.sig, item.default.as_ref());
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let before = std::mem::replace(&mut self.foreign, item.trait_.is_some());
        visit::visit_item_impl(self, item);
        self.foreign = before;
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        let count = item.fields.len();
        if count > FIELDS && !self.schema {
            let name = &item.ident;
            let message = format!("`{name}` has {count} fields, limit {FIELDS}; group them");
            let line = name.span().start().line;
            self.findings.push(Finding::new(&self.source.path, line, "fields", message));
        }
        visit::visit_item_struct(self, item);
    }

    fn visit_attribute(&mut self, _attribute: &'ast Attribute) {}
}
