//! From arguments to a running host.

use std::path::PathBuf;
use std::sync::Arc;

use reins_host::Host;
use reins_kernel::{Composition, Layer, References, Root, RowError, compose};
use reins_world::Env;

use crate::args::ComposeArgs;
use crate::catalog::catalog;
use crate::exit::CliError;
use crate::layers::layers;

/// What the process was started with; read once.
pub(crate) struct Start {
    pub(crate) env: Arc<Env>,
    pub(crate) home: PathBuf,
    pub(crate) cwd: PathBuf,
}

impl Start {
    /// The rows in force.
    pub(crate) fn compose(
        &self,
        args: &ComposeArgs,
        extra: Option<Layer>,
    ) -> Result<Composition, CliError> {
        let mut layers = layers(&args.profile, &self.home, &args.patch)?;
        layers.extend(extra);
        let env =
            |name: &str| self.env.get(name).and_then(|value| value.to_str()).map(str::to_owned);
        let references = References { env: &env, home: &self.home };
        compose(&layers, &catalog()?, &references).map_err(|errors| row_errors(&errors))
    }

    /// Mounts the rows; warnings go to standard error.
    pub(crate) async fn host(
        &self,
        args: &ComposeArgs,
        extra: Option<Layer>,
    ) -> Result<Host, CliError> {
        let composition = self.compose(args, extra)?;
        for warning in &composition.warnings {
            crate::terminal::note(&format!("warning: {warning}"));
        }
        let built = composition.build(&catalog()?, 1, self.root()?).await;
        Ok(Host::new(built.map_err(|errors| row_errors(&errors))?)?)
    }

    /// What only the process itself can provide.
    pub(crate) fn root(&self) -> Result<Root, CliError> {
        let mut root = Root::default();
        root.give::<Env>(self.env.clone()).map_err(|e| CliError::internal(e.to_string()))?;
        Ok(root)
    }
}

pub(crate) fn row_errors(errors: &[RowError]) -> CliError {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    CliError::config(lines.join("\n"))
}
