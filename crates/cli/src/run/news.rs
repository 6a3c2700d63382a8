//! What a run says of settings that change while it goes on.

use std::convert::Infallible;

use reins_host::{Host, Reload};
use reins_kernel::{RowChange, RowError, RowWarning};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::terminal;

/// Rows or mistakes that one note lists.
const MAX_LISTED: usize = 10;
const LAST_GOOD: &str = "the last good settings stay in force";

/// The news of a host, each as a note.
pub(super) struct News {
    reloads: Receiver<Reload>,
    words: Words,
}

impl News {
    /// From now on.
    pub(super) fn of(host: &Host) -> Self {
        Self { reloads: host.reloads(), words: Words::default() }
    }

    /// Tells what comes, until it is dropped.
    pub(super) async fn tell(&mut self, note: &(impl Fn(&str) + Sync)) -> Infallible {
        loop {
            match self.reloads.recv().await {
                Ok(reload) => self.words.of(reload).iter().for_each(|words| note(words)),
                // The newest ones follow, and only they matter.
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    /// Tells what is there.
    pub(super) fn tell_rest(&mut self, note: &impl Fn(&str)) {
        loop {
            match self.reloads.try_recv() {
                Ok(reload) => self.words.of(reload).iter().for_each(|words| note(words)),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }
}

/// Finds the words, and remembers which changes wait for a restart and were told.
#[derive(Default)]
struct Words {
    waiting: Vec<RowWarning>,
}

impl Words {
    fn of(&mut self, reload: Reload) -> Vec<String> {
        match reload {
            Reload::Changed { changes, waiting, warnings, .. } => {
                let mut words = Vec::from_iter(changed(&changes));
                words.extend(self.waits(waiting));
                words.extend(warned(&warnings));
                words
            }
            Reload::Warned(warnings) => warned(&warnings).collect(),
            Reload::Broken(errors) => vec![broken(&errors)],
            Reload::Mended => {
                vec!["reins: the settings are in order again, as they were before".to_owned()]
            }
        }
    }

    fn waits(&mut self, now: Vec<RowWarning>) -> Vec<String> {
        let before = std::mem::replace(&mut self.waiting, now);
        let same = |a: &RowError, b: &RowError| a.row == b.row && a.problem == b.problem;
        let is_new = |new: &&RowWarning| !before.iter().any(|old| same(&old.0, &new.0));
        let words: Vec<String> =
            self.waiting.iter().filter(is_new).map(|warning| format!("reins: {warning}")).collect();
        if self.waiting.is_empty() && !before.is_empty() {
            return vec!["reins: no changed row waits for the next start any more".to_owned()];
        }
        words
    }
}

fn changed(changes: &[RowChange]) -> Option<String> {
    let rows = changes.iter().take(MAX_LISTED);
    let rows: Vec<String> = rows
        .map(|change| format!("row `{}` {} ({})", change.row, change.what, change.origin.place()))
        .collect();
    let more = more(changes.len()).map(|more| format!(" {more}")).unwrap_or_default();
    (!rows.is_empty()).then(|| format!("reins: from the next turn on: {}{more}", rows.join(", ")))
}

fn warned(warnings: &[RowWarning]) -> impl Iterator<Item = String> {
    warnings.iter().take(MAX_LISTED).map(|warning| format!("warning: {warning}"))
}

/// One mistake on one line, several below each other.
fn broken(errors: &[RowError]) -> String {
    match errors {
        [error] => format!("reins: {error}; {LAST_GOOD}"),
        errors => {
            let lines = errors.iter().take(MAX_LISTED).map(|error| format!("\n  {error}"));
            let lines: String = lines.collect();
            let more = more(errors.len()).map(|more| format!("\n  {more}")).unwrap_or_default();
            format!("reins: the settings cannot be used; {LAST_GOOD}:{lines}{more}")
        }
    }
}

fn more(all: usize) -> Option<String> {
    let more = all.saturating_sub(MAX_LISTED);
    (more > 0).then(|| format!("and {}", terminal::count(more as u64, "other")))
}

#[cfg(test)]
mod tests {
    use reins_kernel::Origin;

    use super::*;

    fn error(line: u32, problem: &str) -> RowError {
        RowError {
            layer: "home settings".into(),
            line,
            problem: problem.to_owned(),
            ..RowError::default()
        }
    }

    fn changed(rows: &[&str], waiting: &[&str]) -> Reload {
        let change = |row: &&str| RowChange {
            row: (*row).to_owned(),
            what: "changed",
            origin: Origin { line: 3, ..Origin::runtime(row) },
        };
        let waits = |problem: &&str| RowWarning(error(1, problem));
        Reload::Changed {
            generation: 2,
            changes: rows.iter().map(change).collect(),
            waiting: waiting.iter().map(waits).collect(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_change_is_one_line_and_what_waits_is_told_once() {
        let mut words = Words::default();
        let told = words.of(changed(&["a", "b"], &["http waits"]));
        let both = "reins: from the next turn on: row `a` changed (runtime:3), row `b` changed \
                    (runtime:3)";
        assert_eq!(told, [both, "reins: home settings:1: http waits"]);
        let told = words.of(changed(&["a"], &["http waits"]));
        assert_eq!(told, ["reins: from the next turn on: row `a` changed (runtime:3)"]);
        let told = words.of(changed(&[], &["http waits", "fs waits"]));
        assert_eq!(told, ["reins: home settings:1: fs waits"]);
        let told = words.of(changed(&[], &[]));
        assert_eq!(told, ["reins: no changed row waits for the next start any more"]);
        assert_eq!(words.of(changed(&[], &[])), Vec::<String>::new());
    }

    #[test]
    fn lists_are_short() {
        let rows: Vec<String> = (0..13).map(|n| format!("r{n}")).collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let told = Words::default().of(changed(&rows, &[]));
        assert!(told[0].ends_with("row `r9` changed (runtime:3) and 3 others"), "{told:?}");
        let errors: Vec<RowError> = (0..12).map(|n| error(n, "is wrong")).collect();
        let told = broken(&errors);
        assert_eq!(told.lines().count(), 12, "{told}");
        assert!(told.ends_with("\n  home settings:9: is wrong\n  and 2 others"), "{told}");
    }

    #[test]
    fn one_mistake_is_one_line() {
        let told = broken(&[error(7, "not valid TOML: no")]);
        let line = "reins: home settings:7: not valid TOML: no; the last good settings stay in \
                    force";
        assert_eq!(told, line);
    }
}
