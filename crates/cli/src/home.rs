//! Where Reins keeps its data.

use std::path::PathBuf;

use reins_world::Env;

use crate::exit::CliError;

/// `$REINS_HOME`, or the platform's data folder: `$XDG_DATA_HOME/reins`, `~/.local/share/reins`,
/// on macOS `~/Library/Application Support/reins`.
pub(crate) fn home(env: &Env) -> Result<PathBuf, CliError> {
    let variable = |name: &str| env.get(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    if let Some(home) = variable("REINS_HOME") {
        return std::path::absolute(&home)
            .map_err(|e| CliError::config(format!("REINS_HOME is `{}`: {e}", home.display())));
    }
    // The XDG specification asks for relative paths to be ignored.
    if let Some(data) = variable("XDG_DATA_HOME").filter(|path| path.is_absolute()) {
        return Ok(data.join("reins"));
    }
    let user = variable("HOME").filter(|path| path.is_absolute()).ok_or_else(|| {
        CliError::config("neither REINS_HOME nor HOME is set; set REINS_HOME to a folder of yours")
    })?;
    let data = if cfg!(target_os = "macos") {
        user.join("Library/Application Support")
    } else {
        user.join(".local/share")
    };
    Ok(data.join("reins"))
}
