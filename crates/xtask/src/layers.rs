use std::collections::BTreeMap;

use crate::finding::Finding;
use crate::tidy::fenced;
use crate::workspace::{Crate, Workspace};

const RULE: &str = "layers";
const TABLE: &str = "ARCHITECTURE.md";

/// One line of the table: `LEVEL CRATE USES..`; level `dev` is for crates that only tests use.
struct Row<'a> {
    line: usize,
    /// None for a development crate.
    level: Option<u32>,
    uses: Vec<&'a str>,
}

type Table<'a> = BTreeMap<&'a str, Row<'a>>;

/// The layer table against itself and against what the crates depend on.
pub(crate) fn check(workspace: &Workspace, architecture: &str, findings: &mut Vec<Finding>) {
    let table = parse(architecture, findings);
    if table.is_empty() {
        let message = "has no ```layers block; give each crate a line `LEVEL CRATE USES..`";
        findings.push(Finding::new(TABLE, 0, RULE, message));
        return;
    }
    for (name, row) in &table {
        check_row(name, row, &table, findings);
        if !workspace.crates.iter().any(|each| each.name == *name) {
            let message = format!("there is no crate `{name}`; remove its line");
            findings.push(Finding::new(TABLE, row.line, RULE, message));
        }
    }
    for each in &workspace.crates {
        let manifest = each.dir.join("Cargo.toml");
        match table.get(each.name.as_str()) {
            Some(row) => check_crate(each, row, &table, findings),
            None => {
                let message = format!("`{}` has no line in the layer table; add one", each.name);
                findings.push(Finding::new(manifest, 0, RULE, message));
            }
        }
    }
}

fn parse<'a>(architecture: &'a str, findings: &mut Vec<Finding>) -> Table<'a> {
    let mut table = Table::new();
    for (line, text) in fenced(architecture, "layers") {
        let mut words = text.split_whitespace();
        let (level, name) = (words.next().unwrap_or_default(), words.next());
        let number = level.parse::<u32>().ok();
        let (Some(name), true) = (name, number.is_some() || level == "dev") else {
            let message = format!("`{text}` is no row; write `LEVEL CRATE USES..`");
            findings.push(Finding::new(TABLE, line, RULE, message));
            continue;
        };
        let uses = words.filter(|word| *word != "-").collect();
        if table.insert(name, Row { line, level: number, uses }).is_some() {
            let message = format!("`{name}` has two rows; keep one");
            findings.push(Finding::new(TABLE, line, RULE, message));
        }
    }
    table
}

/// A crate uses only crates of lower levels.
fn check_row(name: &str, row: &Row<'_>, table: &Table<'_>, findings: &mut Vec<Finding>) {
    for used in &row.uses {
        let message = match table.get(used) {
            None => format!("`{name}` may use `{used}`, which has no row; correct the name"),
            Some(other) if !is_below(other, row) => {
                format!("`{name}` may use `{used}`, which is not below it; move one of them")
            }
            Some(_) => continue,
        };
        findings.push(Finding::new(TABLE, row.line, RULE, message));
    }
}

fn is_below(other: &Row<'_>, row: &Row<'_>) -> bool {
    match (other.level, row.level) {
        (Some(other), Some(own)) => other < own,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

fn check_crate(each: &Crate, row: &Row<'_>, table: &Table<'_>, findings: &mut Vec<Finding>) {
    for dependency in &each.dependencies {
        let used = dependency.name.as_str();
        let for_tests = dependency.dev
            && (used == each.name
                || table.get(used).is_some_and(|it| it.level.is_none() || is_below(it, row)));
        if for_tests || row.uses.contains(&used) {
            continue;
        }
        let allowed = row.uses.join(", ");
        let message = format!(
            "`{}` may not depend on `{used}` (allowed: {allowed}); move the code, or change the \
             table in {TABLE} in a commit of its own",
            each.name
        );
        findings.push(Finding::new(each.dir.join("Cargo.toml"), 0, RULE, message));
    }
}
