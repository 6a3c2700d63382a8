use std::collections::BTreeSet;

use syn::visit::Visit;
use syn::{ItemUse, UseTree};

use crate::source::{Kind, Token};

/// Every path that is written in a file, with its line: `a::b::c` anywhere, also inside macros, and
/// each name that a `use` imports in full. A glob ends in `*`; a crate that is imported as a whole
/// ends in `self`.
pub(crate) fn written(tokens: &[Token], syntax: &syn::File) -> BTreeSet<(usize, String)> {
    let mut uses = Uses::default();
    uses.visit_file(syntax);
    let mut paths = uses.paths;
    paths.extend(in_tokens(tokens));
    paths
}

fn in_tokens(tokens: &[Token]) -> Vec<(usize, String)> {
    let mut paths: Vec<(usize, String)> = Vec::new();
    let mut colons = 0;
    for token in tokens {
        match &token.kind {
            Kind::Punct(':') => colons += 1,
            Kind::Ident(name) => {
                match paths.last_mut() {
                    Some((_, path)) if colons == 2 => {
                        path.push_str("::");
                        path.push_str(name);
                    }
                    _ => paths.push((token.line, name.clone())),
                }
                colons = 0;
            }
            // A leading `::` must not continue the path before it.
            _ => colons = 3,
        }
    }
    paths
}

#[derive(Default)]
struct Uses {
    paths: BTreeSet<(usize, String)>,
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.tree(&item.tree, "");
    }
}

impl Uses {
    fn tree(&mut self, tree: &UseTree, prefix: &str) {
        let join = |name: &str| match (prefix, name) {
            ("", _) => format!("{name}::self"),
            (_, "self") => prefix.to_owned(),
            _ => format!("{prefix}::{name}"),
        };
        let (line, path) = match tree {
            UseTree::Path(path) if prefix.is_empty() => {
                return self.tree(&path.tree, &path.ident.to_string());
            }
            UseTree::Path(path) => {
                return self.tree(&path.tree, &join(&path.ident.to_string()));
            }
            UseTree::Group(group) => {
                return group.items.iter().for_each(|item| self.tree(item, prefix));
            }
            UseTree::Name(name) => (name.ident.span(), join(&name.ident.to_string())),
            UseTree::Rename(name) => (name.ident.span(), join(&name.ident.to_string())),
            UseTree::Glob(glob) => (glob.star_token.spans[0], format!("{prefix}::*")),
        };
        self.paths.insert((line.start().line, path));
    }
}
