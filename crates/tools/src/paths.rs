//! How paths are shown.

use std::path::{Path, PathBuf};

use reins_agent::{ToolContext, ToolFailure};
use reins_world::{Fs, FsError};

use crate::failure::of_fs;

/// Relative to `base` when below it, else whole. Control characters are escaped, so that a name
/// cannot look like two lines.
pub(crate) fn shown(path: &Path, base: &Path) -> String {
    let path = match path.strip_prefix(base) {
        Ok(rest) if !rest.as_os_str().is_empty() => rest,
        _ => path,
    };
    let text = path.to_string_lossy();
    if !text.contains(char::is_control) {
        return text.into_owned();
    }
    text.chars()
        .map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() })
        .collect()
}

/// Where a search begins.
pub(crate) struct Start {
    /// The real path of what is searched.
    pub(crate) root: PathBuf,
    /// The real working directory; paths are shown relative to it.
    pub(crate) base: PathBuf,
}

/// Resolves the `path` of a search, by default the working directory.
pub(crate) async fn start(
    fs: &dyn Fs,
    ctx: &ToolContext,
    path: Option<&str>,
) -> Result<Start, ToolFailure> {
    let base = fs.resolve(&ctx.cwd, ".").await.map_err(|error| of_fs(&error))?.real;
    let Some(path) = path.filter(|path| !path.trim().is_empty()) else {
        return Ok(Start { root: base.clone(), base });
    };
    let place = fs.resolve(&ctx.cwd, path).await.map_err(|error| of_fs(&error))?;
    if place.kind.is_none() {
        return Err(of_fs(&FsError::NotFound { path: path.into() }));
    }
    Ok(Start { root: place.real, base })
}
