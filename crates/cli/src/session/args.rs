//! What may be typed after `reins session`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use crate::args::ComposeArgs;

const DAY_MS: u64 = 86_400_000;

#[derive(Debug, Subcommand)]
pub(crate) enum SessionCommand {
    /// Sessions, the last used first.
    List(ListArgs),
    /// What happened in a session.
    Show(ShowArgs),
    /// What a session changed in files, as far as its log knows.
    Diff(OneArgs),
    /// Begin a session with the history of another one.
    Fork(OneArgs),
    /// Read and check all of a session.
    Verify(VerifyArgs),
    /// Mend a damaged session; what is taken out of it is kept.
    Repair(RepairArgs),
    /// Write a session into a zip file: its log, its blobs, and a page for people.
    Export(ExportArgs),
    /// Take over the sessions of such a file.
    Import(ImportArgs),
    /// Say that a session belongs to another directory from now on.
    Move(MoveArgs),
    /// Print where a session is kept.
    Path(OneArgs),
    /// Remove sessions for good. Their forks lose nothing.
    Remove(RemoveArgs),
    /// Hide a session from the plain list, and compress it.
    Archive(ArchiveArgs),
}

impl SessionCommand {
    pub(super) fn compose(&self) -> &ComposeArgs {
        let form = match self {
            Self::List(args) => &args.form,
            Self::Show(args) => &args.form,
            Self::Diff(args) | Self::Fork(args) | Self::Path(args) => &args.form,
            Self::Verify(args) => &args.form,
            Self::Repair(args) => &args.form,
            Self::Export(args) => &args.form,
            Self::Import(args) => &args.form,
            Self::Move(args) => &args.form,
            Self::Remove(args) => &args.form,
            Self::Archive(args) => &args.form,
        };
        &form.compose
    }
}

/// What every command takes.
#[derive(Debug, Args)]
pub(crate) struct FormArgs {
    /// One JSON object on standard output; docs/sessions.md says what is in it.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    compose: ComposeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Archived ones too.
    #[arg(long)]
    pub(super) all: bool,
    /// Only those of the current directory.
    #[arg(long)]
    pub(super) cwd: bool,
    /// At most so many.
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
    #[command(flatten)]
    pub(super) form: FormArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The session's id, or a beginning of it that no other has.
    pub(super) id: String,
    /// Every event, exactly as it stands in the log.
    #[arg(long, group = "part")]
    pub(super) events: bool,
    /// What the next request would hold of the conversation.
    #[arg(long, group = "part", conflicts_with = "from")]
    pub(super) surface: bool,
    /// Only what people and models said.
    #[arg(long, group = "part")]
    pub(super) messages: bool,
    /// Begin with this event.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) from: u64,
    #[command(flatten)]
    pub(super) form: FormArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OneArgs {
    /// The session's id, or a beginning of it that no other has; for `fork` also ID@N, which is up
    /// to event N.
    pub(super) id: String,
    #[command(flatten)]
    pub(super) form: FormArgs,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true)))]
pub(crate) struct VerifyArgs {
    /// The session's id, or a beginning of it that no other has.
    #[arg(group = "which")]
    pub(super) id: Option<String>,
    /// Every session, archived ones too.
    #[arg(long, group = "which")]
    pub(super) all: bool,
    #[command(flatten)]
    pub(super) form: FormArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RepairArgs {
    /// The session's id, or a beginning of it that no other has.
    pub(super) id: String,
    /// Only say what would be done.
    #[arg(long)]
    pub(super) dry_run: bool,
    #[command(flatten)]
    pub(super) form: FormArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The session's id, or a beginning of it that no other has.
    pub(super) id: String,
    /// The file to make.
    #[arg(short = 'o', long = "output", value_name = "FILE")]
    pub(super) to: PathBuf,
    /// Replace a file that is there.
    #[arg(long)]
    pub(super) force: bool,
    /// The sessions that were forked from it, too, and theirs.
    #[arg(long)]
    pub(super) with_forks: bool,
    #[command(flatten)]
    pub(super) form: FormArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// What `export` wrote.
    pub(super) file: PathBuf,
    /// The sessions get new ids, so that they can be here twice.
    #[arg(long)]
    pub(super) as_new: bool,
    #[command(flatten)]
    pub(super) form: FormArgs,
}

#[derive(Debug, Args)]
pub(crate) struct MoveArgs {
    /// The session's id, or a beginning of it that no other has.
    pub(super) id: String,
    /// The directory it belongs to from now on.
    pub(super) dir: PathBuf,
    #[command(flatten)]
    pub(super) form: FormArgs,
}

#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("which").required(true)))]
pub(crate) struct RemoveArgs {
    /// The ids of sessions, or beginnings of them that no others have.
    #[arg(value_name = "ID", group = "which")]
    pub(super) ids: Vec<String>,
    /// All that were last used before so long, for example 30d or 12h; not those that are in use,
    /// nor archived ones.
    #[arg(long, value_name = "TIME", group = "which", value_parser = parse_age)]
    pub(super) older: Option<Duration>,
    /// Only say which.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Do not ask.
    #[arg(short, long)]
    pub(super) yes: bool,
    #[command(flatten)]
    pub(super) form: FormArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ArchiveArgs {
    /// The session's id, or a beginning of it that no other has.
    pub(super) id: String,
    /// Take it back.
    #[arg(long)]
    pub(super) undo: bool,
    #[command(flatten)]
    pub(super) form: FormArgs,
}

/// `30d`, `12h`, `45m`, `2w`.
fn parse_age(text: &str) -> Result<Duration, String> {
    let wanted = || "expected a number with a unit: 45m, 12h, 30d or 8w".to_owned();
    let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wanted)?;
    let number: u64 = text[..digits].parse().map_err(|_| wanted())?;
    let unit_ms = match &text[digits..] {
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => DAY_MS,
        "w" => 7 * DAY_MS,
        _ => return Err(wanted()),
    };
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_need_a_number_and_a_unit() {
        assert_eq!(parse_age("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(parse_age("12h"), Ok(Duration::from_secs(43_200)));
        assert_eq!(parse_age("0m"), Ok(Duration::ZERO));
        for wrong in ["", "30", "d", "-1d", "1.5d", "1 d", "1y", "99999999999999999999d"] {
            assert!(parse_age(wrong).is_err(), "{wrong}");
        }
    }
}
