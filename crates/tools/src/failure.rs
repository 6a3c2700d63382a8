//! From failures of the machine to words for the model.

use std::future::Future;

use reins_agent::ToolFailure;
use reins_world::{CancelToken, FsError};

pub(crate) const INVALID_ARGS: &str = "INVALID_ARGS";
pub(crate) const NOT_TEXT: &str = "FS_NOT_TEXT";
pub(crate) const ABORTED: &str = "ABORTED";

/// The failure with its remedy.
pub(crate) fn of_fs(error: &FsError) -> ToolFailure {
    let remedy = match error {
        FsError::NotFound { .. } => "; check the path with `glob`",
        FsError::NotRegular { kind, .. } if kind == "directory" => {
            "; list its files with `glob`, or give the path of a file"
        }
        FsError::Stale { .. } => "; read it again, then repeat the change on its present content",
        FsError::Exists { .. } => "; read it first, then repeat the call",
        FsError::Moved { .. } => "; repeat the call",
        FsError::NotDirectory { .. } => "; give a directory",
        FsError::TooLarge { .. } => "; look at parts of it with `bash`",
        _ => "",
    };
    ToolFailure::new(error.code(), format!("{error}{remedy}"))
}

/// Ends early when the call is cancelled; only for work that changes nothing.
pub(crate) async fn until_cancelled<T>(
    cancel: &CancelToken,
    work: impl Future<Output = T>,
) -> Result<T, ToolFailure> {
    cancel
        .run_until_cancelled(work)
        .await
        .ok_or_else(|| ToolFailure::new(ABORTED, "the call was cancelled"))
}
