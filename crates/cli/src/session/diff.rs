//! `reins session diff`

use std::path::Path;

use serde::Serialize;

use super::Sessions;
use super::args::OneArgs;
use super::changes::{Change, Changes, FileChanges, Unknown};
use super::words::{in_line, object};
use crate::exit::{self, CliError};
use crate::terminal;

#[derive(Serialize)]
struct Object<'a> {
    schema: &'static str,
    session: &'a str,
    files: &'a [FileChanges],
    commands: u64,
    unknown: &'a [Unknown],
}

pub(super) async fn diff(sessions: &Sessions<'_>, args: &OneArgs) -> Result<u8, CliError> {
    let id = sessions.find(&args.id).await?;
    let mut view = sessions.view(&id).await?;
    let mut changes = Changes::default();
    let each = |event: &reins_schema::Event| {
        changes.see(event);
        Ok::<(), CliError>(())
    };
    view.read(sessions.store(), 0, each).await?;
    if args.form.json {
        object(&Object {
            schema: "reins.session.diff/1",
            session: id.as_str(),
            files: &changes.files,
            commands: changes.commands,
            unknown: &changes.unknown,
        })?;
        return Ok(exit::COMPLETED);
    }
    for file in &changes.files {
        for change in &file.changes {
            terminal::output(&text(&file.path, view.inspected.fold.cwd(), change))?;
        }
    }
    tell_rest(&changes);
    Ok(exit::COMPLETED)
}

/// One change as `patch` reads it; the line above says where it is in the log.
fn text(path: &str, cwd: &Path, change: &Change) -> String {
    let below = Path::new(path).strip_prefix(cwd).ok();
    let (old, new, shown) = match below {
        Some(below) => (format!("a/{}", below.display()), format!("b/{}", below.display()), below),
        None => (path.to_owned(), path.to_owned(), Path::new(path)),
    };
    let shown = in_line(&shown.display().to_string());
    let head = format!("[{}] {} {shown}", change.seq, in_line(&change.tool));
    let Some(diff) = &change.diff else {
        return format!("{head}: not compared, it is binary or large\n");
    };
    let old = if change.created { "/dev/null".to_owned() } else { in_line(&old) };
    let end = if diff.is_empty() || diff.ends_with('\n') { "" } else { "\n" };
    format!("{head}\n--- {old}\n+++ {}\n{diff}{end}", in_line(&new))
}

fn tell_rest(changes: &Changes) {
    if changes.files.is_empty() {
        terminal::note("the log knows of no change of a file");
    }
    for call in &changes.unknown {
        let tool = in_line(&call.tool);
        terminal::note(&format!("[{}] {tool} was interrupted: its effect is unknown", call.seq));
    }
    if changes.commands > 0 {
        let commands = terminal::count(changes.commands, "command");
        terminal::note(&format!("{commands} ran; what they changed in files is not in the log"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(created: bool, diff: Option<&str>) -> Change {
        Change { seq: 7, tool: "write".to_owned(), created, diff: diff.map(str::to_owned) }
    }

    #[test]
    fn a_change_reads_as_a_patch_of_the_sessions_directory() {
        let cwd = Path::new("/p");
        let new = text("/p/src/a", cwd, &change(true, Some("@@ -0,0 +1 @@\n+x\n")));
        assert_eq!(new, "[7] write src/a\n--- /dev/null\n+++ b/src/a\n@@ -0,0 +1 @@\n+x\n");
        let old = text("/q/a", cwd, &change(false, Some("@@ -1 +1 @@\n-x\n+y")));
        assert_eq!(old, "[7] write /q/a\n--- /q/a\n+++ /q/a\n@@ -1 +1 @@\n-x\n+y\n");
        let large = text("/p/a", cwd, &change(false, None));
        assert_eq!(large, "[7] write a: not compared, it is binary or large\n");
    }
}
