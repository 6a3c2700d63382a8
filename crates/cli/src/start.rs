//! From arguments to a running host.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reins_host::{Blueprint, Host};
use reins_kernel::{Catalog, Composition, Layer, RowError};
use reins_world::Env;

use crate::args::ComposeArgs;
use crate::catalog::catalog;
use crate::entry::Additions;
use crate::exit::CliError;
use crate::layers::Files;

/// What the process was started with; read once.
pub(crate) struct Start {
    pub(crate) env: Arc<Env>,
    pub(crate) home: PathBuf,
    pub(crate) cwd: PathBuf,
    pub(crate) additions: Additions,
}

impl Start {
    /// The files and texts that rows come from; `extra` is a layer on top of all others.
    pub(crate) fn files(&self, args: &ComposeArgs, extra: Option<Layer>) -> Files {
        let ComposeArgs { profile, patch, ephemeral } = args;
        Files::new(self.home.clone(), profile.clone(), patch, self.additions.rows, extra)
            .ephemeral(*ephemeral)
    }

    pub(crate) fn blueprint(
        &self,
        args: &ComposeArgs,
        extra: Option<Layer>,
    ) -> Result<Blueprint, CliError> {
        Ok(Blueprint {
            catalog: self.catalog()?,
            source: Arc::new(self.files(args, extra)),
            env: Arc::clone(&self.env),
            home: self.home.clone(),
        })
    }

    /// The rows in force.
    pub(crate) fn compose(&self, args: &ComposeArgs) -> Result<Composition, CliError> {
        self.blueprint(args, None)?.rows().map_err(|errors| row_errors(&errors))
    }

    /// Mounts the rows; warnings go to standard error.
    pub(crate) async fn host(
        &self,
        args: &ComposeArgs,
        extra: Option<Layer>,
    ) -> Result<Host, CliError> {
        let (host, warnings) = Host::start(self.blueprint(args, extra)?).await?;
        for warning in &warnings {
            crate::terminal::note(&format!("warning: {warning}"));
        }
        Ok(host)
    }

    /// Every plugin that rows may name.
    pub(crate) fn catalog(&self) -> Result<Catalog, CliError> {
        catalog(&self.additions.plugins)
    }

    /// A directory that was typed, by its real path.
    pub(crate) fn directory(&self, what: &str, asked: &Path) -> Result<PathBuf, CliError> {
        const HINT: &str = "give a directory that exists";
        let hint = match what {
            "--cwd" => format!("{HINT}, or leave --cwd out for the current one"),
            _ => HINT.to_owned(),
        };
        let path = self.cwd.join(asked);
        let problem = match std::fs::metadata(&path) {
            Ok(found) if found.is_dir() => return Ok(path.canonicalize().unwrap_or(path)),
            Ok(_) => format!("{what} `{}` is not a directory", asked.display()),
            Err(e) => format!("{what} `{}`: {e}", asked.display()),
        };
        Err(CliError::usage(problem).with_hint(hint))
    }

    /// What a person types to run this program: its name when the search path leads to it, else
    /// its path.
    pub(crate) fn program(&self) -> String {
        const NAME: &str = "reins";
        let Ok(own) = std::env::current_exe() else { return NAME.to_owned() };
        let path = self.env.get("PATH").unwrap_or_default();
        let places = std::env::split_paths(path).map(|folder| folder.join(NAME));
        let found = places.into_iter().find(|place| place.is_file());
        let found = found.and_then(|place| place.canonicalize().ok());
        if found.is_some() && found == own.canonicalize().ok() {
            return NAME.to_owned();
        }
        quoted(&own.to_string_lossy())
    }
}

pub(crate) fn row_errors(errors: &[RowError]) -> CliError {
    CliError::config(RowError::lines(errors))
}

/// As one word of a shell.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:,@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_split_them() {
        assert_eq!(quoted("/tmp/reins-1.2_ä"), "/tmp/reins-1.2_ä");
        assert_eq!(quoted("/my files/a"), "'/my files/a'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
