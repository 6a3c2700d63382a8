use std::collections::BTreeSet;
use std::path::Path;

use syn::Item;

use crate::finding::Finding;
use crate::source::{Kind, Source};
use crate::tidy::TidyError;
use crate::workspace::{Crate, Workspace, entries};

/// Crates that hold one folder per tool, feature or dialect.
const LEAF_CRATES: [&str; 3] = ["tools", "features", "providers"];

/// Leaf folders are listed in their crate's lib.rs and do not know each other; every crate with
/// code has a README.
pub(crate) fn check(workspace: &Workspace, findings: &mut Vec<Finding>) -> Result<(), TidyError> {
    for each in &workspace.crates {
        // A crate that is only declared, with an empty lib.rs, has nothing to explain.
        let lines: usize = each.sources.values().map(Source::code_lines).sum();
        let has_readme = workspace.root.join(&each.dir).join("README.md").is_file();
        if lines > 1 && !has_readme {
            let message = "is missing; say what lives in the crate, what never does, and where";
            findings.push(Finding::new(each.dir.join("README.md"), 0, "crate-readme", message));
        }
        if LEAF_CRATES.contains(&each.name.as_str()) {
            check_leaves(workspace, each, findings)?;
        }
    }
    Ok(())
}

fn check_leaves(
    workspace: &Workspace,
    each: &Crate,
    findings: &mut Vec<Finding>,
) -> Result<(), TidyError> {
    let Some(lib) = each.source("src/lib.rs") else { return Ok(()) };
    let mut plugins = BTreeSet::new();
    for folder in entries(&workspace.root.join(&each.dir).join("src"))? {
        if !folder.is_dir() {
            continue;
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !declares(lib, &name) {
            let message = format!("leaf folder `{name}` is not listed; add `mod {name};`");
            findings.push(Finding::new(&lib.path, 0, "leaf", message));
        }
        let Some(leaf) = each.source(&format!("src/{name}/mod.rs")) else { continue };
        if has_plugin(leaf) {
            if !lists_plugin(lib, &name) {
                let message = format!("`{name}` is no plugin yet; add `{name}::PLUGIN` to PLUGINS");
                findings.push(Finding::new(&lib.path, 0, "leaf", message));
            }
            plugins.insert(name);
        }
    }
    if each.name != "providers" {
        for source in each.sources.values() {
            check_siblings(each, source, &plugins, findings);
        }
    }
    Ok(())
}

fn declares(lib: &Source, name: &str) -> bool {
    lib.syntax.items.iter().any(|item| matches!(item, Item::Mod(module) if module.ident == name))
}

fn has_plugin(leaf: &Source) -> bool {
    leaf.syntax.items.iter().any(|item| match item {
        Item::Const(item) => item.ident == "PLUGIN",
        Item::Static(item) => item.ident == "PLUGIN",
        _ => false,
    })
}

/// Whether `name::PLUGIN` stands after the name PLUGINS, that is in its list.
fn lists_plugin(lib: &Source, name: &str) -> bool {
    let is_list = |kind: &Kind| matches!(kind, Kind::Ident(ident) if ident == "PLUGINS");
    let Some(list) = lib.tokens.iter().find(|token| is_list(&token.kind)) else { return false };
    let wanted = format!("{name}::PLUGIN");
    lib.paths().iter().any(|(line, path)| *line >= list.line && path.ends_with(&wanted))
}

fn check_siblings(
    each: &Crate,
    source: &Source,
    plugins: &BTreeSet<String>,
    findings: &mut Vec<Finding>,
) {
    let below = source.path.strip_prefix(each.dir.join("src")).unwrap_or(Path::new(""));
    let Some(own) = below.iter().next().and_then(|part| part.to_str()) else { return };
    if !plugins.contains(own) {
        return;
    }
    let is_root = below.ends_with("mod.rs") && below.components().count() == 2;
    for (line, path) in source.paths() {
        let mut parts = path.split("::");
        let from_crate = match parts.next() {
            Some("crate") => true,
            Some("super") => is_root,
            _ => false,
        };
        let Some(other) = parts.next().filter(|_| from_crate) else { continue };
        if other != own && plugins.contains(other) {
            let message = format!("`{own}` uses its sibling `{other}`; move what they share");
            findings.push(Finding::new(&source.path, line, "sibling", message));
        }
    }
}
