//! `reins explain chain`

use reins_agent::PreExecute;
use reins_host::{ChainFacts, Explain};
use reins_kernel::Chain;

use super::page::{Page, table};
use super::{tool, unknown};
use crate::exit::CliError;
use crate::terminal;

const FOREIGN: &str = "A chain that a plugin from outside defines and runs.";

pub(super) fn list(explain: &Explain) -> String {
    let lines = explain.chains().into_iter().map(|chain| {
        let layers = terminal::count(chain.layers.len() as u64, "layer");
        let mut rows: Vec<String> = Vec::new();
        for layer in &chain.layers {
            let row = format!("`{}`", layer.origin.row);
            if !rows.contains(&row) {
                rows.push(row);
            }
        }
        let rows = if rows.is_empty() { "-".to_owned() } else { rows.join(", ") };
        vec![chain.name.to_owned(), layers, rows, doc(&chain).to_owned()]
    });
    table(&lines.collect::<Vec<_>>())
}

fn doc(chain: &ChainFacts) -> &'static str {
    chain.known.map_or(FOREIGN, |known| known.doc)
}

pub(super) fn one(explain: &Explain, name: &str) -> Result<String, CliError> {
    let Some(chain) = explain.chain(name) else {
        let chains = explain.chains();
        let names: Vec<&str> = chains.iter().map(|chain| chain.name).collect();
        return Err(unknown("chain", name, &names));
    };
    let mut page = Page::default();
    page.line(format_args!("chain `{name}`"));
    page.line(doc(&chain));
    if let Some(known) = chain.known {
        page.line(format_args!("when: {}", known.when));
    }
    page.gap();
    page.line("layers, outermost first:");
    page.layers(&chain.layers);
    if let Some(known) = chain.known {
        page.line(format_args!("at its end: {}", known.end));
    }
    if chain.name == PreExecute::NAME {
        tool::guards(&mut page, explain);
    }
    Ok(page.done())
}
