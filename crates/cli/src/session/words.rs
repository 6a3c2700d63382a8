//! Facts of sessions, as words for people and as the objects of `--json`.

use std::path::Path;

use reins_schema::{Header, SessionRecovered, SourceRange};
use reins_store::{Damage, DamageKind, LeaseInfo, SessionState, SessionSummary};
use serde::Serialize;

use crate::exit::CliError;
use crate::terminal;

/// Text that stays on its line: a name may contain line feeds.
pub(super) fn in_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            line.extend(c.escape_unicode());
        } else {
            line.push(c);
        }
    }
    line
}

/// A path on its line.
pub(super) fn place(path: &Path) -> String {
    in_line(&path.display().to_string())
}

/// Where a session belongs; a header that was lost does not say it any more.
pub(super) fn directory(cwd: &Path) -> String {
    if cwd.as_os_str().is_empty() { "an unknown directory".to_owned() } else { place(cwd) }
}

/// `2026-02-28 14:05` in the machine's time zone; the number itself when it is out of range.
pub(super) fn local_time(unix_ms: i64) -> String {
    let Ok(time) = jiff::Timestamp::from_millisecond(unix_ms) else { return unix_ms.to_string() };
    let offset = jiff::tz::TimeZone::system().to_offset(time);
    let local = offset.to_datetime(time);
    format!("{} {:02}:{:02}", local.date(), local.hour(), local.minute())
}

/// `812 bytes`, `34.5 kB`, `1.2 GB`.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    let mut tenths = u128::from(bytes) * 10;
    if bytes < 1000 {
        return terminal::count(bytes, "byte");
    }
    let mut unit = "";
    for larger in UNITS {
        unit = larger;
        tenths = (tenths + 500) / 1000;
        if tenths < 10_000 {
            break;
        }
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// Who works in a session: `pid 4711 (reins run)`.
pub(super) fn holder(lease: &LeaseInfo) -> String {
    match lease.doing.as_str() {
        "" => format!("pid {}", lease.pid),
        doing => format!("pid {} ({})", lease.pid, in_line(doing)),
    }
}

/// What was found in a log and done about it, on one line. What is kept is in `folder`, when that
/// is known.
pub(crate) fn recovered(facts: &SessionRecovered, folder: Option<&Path>) -> String {
    let mut parts = vec![in_line(&facts.damage)];
    let ranges = |what: &str, ranges: &[SourceRange]| {
        let ranges: Vec<String> = ranges.iter().map(range).collect();
        (!ranges.is_empty()).then(|| format!("{what}: {}", ranges.join(", ")))
    };
    parts.extend(ranges("lost events", &facts.lost));
    parts.extend(ranges("events set aside", &facts.aside));
    parts.extend(facts.branch.iter().map(|it| format!("events of another branch: {}", range(it))));
    if !facts.kept_in.is_empty() {
        let bytes = terminal::count(facts.cut_bytes, "byte");
        let are = if facts.cut_bytes == 1 { "is" } else { "are" };
        let kept = Path::new(&facts.kept_in);
        let kept = folder.map_or_else(|| kept.to_owned(), |folder| folder.join(kept));
        parts.push(format!("{bytes} {are} kept in {}", place(&kept)));
    }
    parts.join("; ")
}

/// As [`recovered`] for programs.
#[derive(Serialize)]
pub(crate) struct RecoveredObject {
    damage: String,
    cut_bytes: u64,
    kept_in: String,
    lost: Vec<(u64, u64)>,
    aside: Vec<(u64, u64)>,
    branch: Option<(u64, u64)>,
}

impl RecoveredObject {
    pub(crate) fn of(facts: &SessionRecovered) -> Self {
        let bounds = |ranges: &[SourceRange]| ranges.iter().map(|range| range.bounds()).collect();
        Self {
            damage: facts.damage.clone(),
            cut_bytes: facts.cut_bytes,
            kept_in: facts.kept_in.clone(),
            lost: bounds(&facts.lost),
            aside: bounds(&facts.aside),
            branch: facts.branch.map(SourceRange::bounds),
        }
    }
}

fn range(range: &SourceRange) -> String {
    let (first, last) = range.bounds();
    if first == last { first.to_string() } else { format!("{first} to {last}") }
}

/// Prints an object of `--json`.
pub(super) fn object(object: &impl Serialize) -> Result<(), CliError> {
    let text = serde_json::to_string(object).map_err(|e| CliError::internal(e.to_string()))?;
    json(&format!("{text}\n"))
}

/// Prints a part of an object of `--json`.
pub(super) fn json(text: &str) -> Result<(), CliError> {
    let printed = terminal::print_json(text);
    printed.map_err(|e| CliError::internal(format!("standard output: {e}")))
}

/// Where a session came from.
#[derive(Serialize)]
pub(super) struct ParentObject {
    session: String,
    seq: u64,
}

impl ParentObject {
    pub(super) fn of(header: &Header) -> Option<Self> {
        let parent = header.parent.as_ref()?;
        Some(Self { session: parent.session.to_string(), seq: parent.at.seq })
    }
}

/// Who works in it.
#[derive(Serialize)]
pub(super) struct LeaseObject {
    pid: u32,
    host: String,
    doing: String,
    since: i64,
}

impl LeaseObject {
    pub(super) fn of(lease: &LeaseInfo) -> Self {
        let LeaseInfo { pid, host, doing, start, .. } = lease.clone();
        Self { pid, host, doing, since: start }
    }
}

/// A line of the list.
#[derive(Serialize)]
pub(super) struct SummaryObject {
    id: String,
    created_at: i64,
    modified: i64,
    cwd: String,
    agent_preset: Option<String>,
    parent: Option<ParentObject>,
    state: &'static str,
    lease: Option<LeaseObject>,
    archived: bool,
    events: u64,
    bytes: u64,
    first_prompt: Option<String>,
    problem: Option<String>,
}

impl SummaryObject {
    pub(super) fn of(session: &SessionSummary) -> Self {
        let header = &session.header;
        let (state, lease) = match &session.state {
            SessionState::Idle => ("idle", None),
            SessionState::InTurn => ("interrupted", None),
            SessionState::Live(lease) => ("live", Some(LeaseObject::of(lease))),
        };
        Self {
            id: header.id.to_string(),
            created_at: header.created_at,
            modified: session.modified,
            cwd: session.cwd.to_string_lossy().into_owned(),
            agent_preset: header.agent_preset.clone(),
            parent: ParentObject::of(header),
            state,
            lease,
            archived: session.archived,
            events: session.events,
            bytes: session.bytes,
            first_prompt: session.first_prompt.clone(),
            problem: session.problem.clone(),
        }
    }
}

/// A place that is not as it was written.
#[derive(Serialize)]
pub(super) struct DamageObject {
    pub(super) kind: &'static str,
    path: String,
    offset: u64,
    bytes: u64,
    line: Option<u64>,
    problem: String,
    first: Option<u64>,
    last: Option<u64>,
}

impl DamageObject {
    pub(super) fn of(damage: &Damage) -> Self {
        let (kind, first, last) = match damage.kind {
            DamageKind::Torn => ("torn", None, None),
            DamageKind::Hole { first, last } => ("hole", Some(first), Some(last)),
            DamageKind::Branch { first, last } => ("branch", Some(first), Some(last)),
            DamageKind::Repeated { seq } => ("repeated", Some(seq), Some(seq)),
            DamageKind::Refused { seq } => ("refused", Some(seq), Some(seq)),
            DamageKind::Header => ("header", None, None),
            DamageKind::Blob => ("blob", None, None),
            _ => ("other", None, None),
        };
        Self {
            kind,
            path: damage.path.to_string_lossy().into_owned(),
            offset: damage.offset,
            bytes: damage.bytes,
            line: damage.line,
            problem: damage.problem.clone(),
            first,
            last,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_digit_behind_the_point() {
        assert_eq!(size(1), "1 byte");
        assert_eq!(size(999), "999 bytes");
        assert_eq!(size(1_000), "1.0 kB");
        assert_eq!(size(34_549), "34.5 kB");
        assert_eq!(size(999_949), "999.9 kB");
        assert_eq!(size(999_950), "1.0 MB");
        assert_eq!(size(u64::MAX), "18446.7 PB");
    }
}
