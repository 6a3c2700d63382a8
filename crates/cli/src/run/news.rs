//! What a run says of files of settings that become wrong while it goes on. It has one turn, so a
//! change is none of its business: the next run takes it.

use std::convert::Infallible;

use reins_host::{Host, ReloadNews};
use reins_kernel::RowError;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::terminal;

/// Mistakes that one note lists.
const MAX_LISTED: usize = 10;
const LAST_GOOD: &str = "the last good settings stay in force";
const IN_ORDER: &str = "reins: the settings are in order again";

/// The news of a host, as notes.
pub(super) struct News {
    reloads: Receiver<ReloadNews>,
    /// That something is wrong was told.
    broken: bool,
}

impl News {
    /// From now on.
    pub(super) fn of(host: &Host) -> Self {
        Self { reloads: host.reloads(), broken: false }
    }

    /// Tells what comes, until it is dropped.
    pub(super) async fn tell(&mut self, note: &(impl Fn(&str) + Sync)) -> Infallible {
        loop {
            match self.reloads.recv().await {
                Ok(news) => self.note(&news).iter().for_each(|words| note(words)),
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
                Ok(news) => self.note(&news).iter().for_each(|words| note(words)),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Each breakage is told, and when all are mended.
    fn note(&mut self, news: &ReloadNews) -> Option<String> {
        let was_broken = self.broken;
        match news {
            ReloadNews::Broken(errors) => {
                self.broken = true;
                Some(broken(errors))
            }
            ReloadNews::Mended | ReloadNews::Changed { broken: false, .. } => {
                self.broken = false;
                was_broken.then(|| IN_ORDER.to_owned())
            }
            ReloadNews::Changed { broken: true, .. } | ReloadNews::Warned(_) => None,
        }
    }
}

/// One mistake on one line, several below each other.
fn broken(errors: &[RowError]) -> String {
    match errors {
        [error] => format!("reins: {error}; {LAST_GOOD}"),
        errors => {
            let lines = errors.iter().take(MAX_LISTED).map(|error| format!("\n  {error}"));
            let more = errors.len().saturating_sub(MAX_LISTED) as u64;
            let more = (more > 0).then(|| format!("\n  and {}", terminal::count(more, "other")));
            let lines: String = lines.chain(more).collect();
            format!("reins: the settings cannot be used; {LAST_GOOD}:{lines}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::broadcast::Sender;

    #[test]
    fn lists_are_short() {
        let error = |line| RowError {
            layer: "your settings".into(),
            line,
            problem: "is wrong".to_owned(),
            ..RowError::default()
        };
        let errors: Vec<RowError> = (0..12).map(error).collect();
        let told = broken(&errors);
        assert_eq!(told.lines().count(), 12, "{told}");
        assert!(told.ends_with("\n  your settings:9: is wrong\n  and 2 others"), "{told}");
    }

    #[test]
    fn settings_are_not_in_order_while_a_preset_in_use_is_broken() {
        let changed = |broken| ReloadNews::Changed {
            generation: 2,
            changes: Vec::new(),
            waiting: Vec::new(),
            warnings: Vec::new(),
            broken,
        };
        let mut news = News { reloads: Sender::new(1).subscribe(), broken: false };
        assert_eq!(news.note(&changed(true)), None);
        let wrong = RowError::new("is wrong".to_owned());
        assert!(news.note(&ReloadNews::Broken(vec![wrong])).is_some());
        assert_eq!(news.note(&changed(true)), None);
        assert_eq!(news.note(&changed(false)).as_deref(), Some(IN_ORDER));
        assert_eq!(news.note(&changed(false)), None);
    }
}
