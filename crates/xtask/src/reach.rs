use std::path::Path;

use crate::finding::Finding;
use crate::source::Source;
use crate::workspace::Workspace;

/// What a crate's product code must not name, and what it uses instead.
struct Border {
    crates: &'static [&'static str],
    refused: &'static [&'static str],
    instead: &'static str,
    /// A folder below the crate where these paths are allowed.
    except: Option<(&'static str, &'static [&'static str])>,
}

const BORDERS: [Border; 4] = [
    Border {
        crates: &["agent", "tools", "features", "providers", "host"],
        refused: &[
            "std::fs",
            "std::process",
            "std::net",
            "std::os::unix::net",
            "std::time::SystemTime",
            "tokio::fs",
            "tokio::process",
            "tokio::net",
            "reqwest",
        ],
        instead: "reach the machine through `world`",
        // The script server stands in for a model's endpoint, so it listens on loopback itself.
        except: Some(("src/script", &["tokio::net", "std::net"])),
    },
    Border {
        crates: &["schema", "session"],
        refused: &[
            "std::fs",
            "std::process",
            "std::net",
            "std::env",
            "std::thread",
            "std::time::SystemTime",
            "std::time::Instant",
            "tokio",
            "rand",
        ],
        instead: "the pure core takes time, ids and facts as inputs",
        except: None,
    },
    Border {
        crates: &["kernel"],
        refused: &["std::fs", "std::process", "std::net", "std::env", "tokio"],
        instead: "the kernel is given texts, environment and futures by its caller",
        except: None,
    },
    Border {
        crates: &["sandbox"],
        refused: &["tokio"],
        instead: "the helper process is single-threaded and has no runtime",
        except: None,
    },
];

/// Which crates may name the machine: files, processes, network, clock.
pub(crate) fn check(workspace: &Workspace, findings: &mut Vec<Finding>) {
    for each in &workspace.crates {
        for border in BORDERS.iter().filter(|it| it.crates.contains(&each.name.as_str())) {
            for source in each.sources.values() {
                let below = source.path.strip_prefix(&each.dir).unwrap_or(&source.path);
                check_source(source, below, border, findings);
            }
        }
    }
}

fn check_source(source: &Source, below: &Path, border: &Border, findings: &mut Vec<Finding>) {
    for (line, path) in source.paths() {
        let refused = border.refused.iter().find(|refused| touches(&path, refused));
        let Some(refused) = refused.filter(|_| !source.is_test(line)) else { continue };
        if is_excepted(below, refused, border) {
            continue;
        }
        let message = format!("`{refused}` is out of bounds here; {}", border.instead);
        findings.push(Finding::new(&source.path, line, "reach", message));
    }
}

fn is_excepted(below: &Path, refused: &str, border: &Border) -> bool {
    border.except.is_some_and(|(folder, paths)| {
        let is_inside =
            below.starts_with(folder) || below == Path::new(folder).with_extension("rs");
        is_inside && paths.contains(&refused)
    })
}

/// Whether a written path is the refused one, lies below it, or is a glob that imports it.
fn touches(path: &str, refused: &str) -> bool {
    match path.strip_suffix("::*") {
        Some(prefix) => is_at_or_below(refused, prefix) || is_at_or_below(prefix, refused),
        // One name alone is a variable or a local type more often than a crate.
        None => path.contains("::") && is_at_or_below(path, refused),
    }
}

fn is_at_or_below(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}
