//! One row: what is said of a session, what it was made from, and a checksum over both, because
//! nothing syncs the file.

use std::path::PathBuf;

use reins_schema::SessionId;
use rusqlite::types::{FromSqlError, ValueRef};

use super::SummaryRow;
use crate::medium::{Look, Medium, Stamp};
use crate::{SessionState, SessionSummary};

/// What a list says of a session: a summary, or why there is none.
pub(super) type Said = Result<SummaryRow, String>;

/// The state of a session that something was said of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    active: u32,
    stamp: Stamp,
    /// Checksum of the header's bytes, when something about the session is damaged: putting that
    /// right may not show in the stamp.
    header_sum: Option<u32>,
}

impl Seen {
    /// Looks at a session; `None` when its log cannot be looked at.
    pub(super) fn look(medium: &dyn Medium, id: &SessionId) -> Option<Self> {
        let active = medium.segments(id).ok()?.last()?.number;
        let stamp = medium.stamp(id, active)?;
        Some(Self { active, stamp, header_sum: Some(header_sum(medium, id)?) })
    }
}

/// `None` when something stands there that cannot be read; it may be something else next time.
fn header_sum(medium: &dyn Medium, id: &SessionId) -> Option<u32> {
    medium.header(id).ok().map(|bytes| bytes.map_or(0, |bytes| crc32c::crc32c(&bytes)))
}

/// What is said of a session now.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) id: SessionId,
    /// `None`: it has to be read again each time.
    pub(super) seen: Option<Seen>,
    pub(super) said: Said,
}

impl Entry {
    /// Of a session without damage.
    pub(super) fn sound(row: SummaryRow) -> Self {
        let active = row.active;
        let seen = row.stamp.map(|stamp| Seen { active, stamp, header_sum: None });
        Self { id: row.header.id.clone(), seen, said: Ok(row) }
    }

    /// Gives the row to `write`; `None` when it cannot be kept.
    pub(super) fn columns<T>(&self, write: impl FnOnce(&Columns<'_>) -> T) -> Option<T> {
        let seen = self.seen.as_ref()?;
        let mut columns = Columns {
            id: self.id.as_str(),
            active: seen.active.into(),
            log_bytes: i64::try_from(seen.stamp.bytes).ok()?,
            changed_ns: seen.stamp.changed_ns,
            header_sum: seen.header_sum.map(i64::from),
            ..Columns::default()
        };
        let header;
        match &self.said {
            Err(problem) => columns.problem = Some(problem),
            Ok(row) => {
                header = serde_json::to_string(&row.header).ok()?;
                columns.header = Some(&header);
                columns.cwd = Some(row.cwd.to_str()?);
                columns.modified = row.modified;
                columns.bytes = i64::try_from(row.bytes).ok()?;
                columns.events = i64::try_from(row.events).ok()?;
                columns.in_turn = row.in_turn.into();
                columns.archived = row.archived.into();
                columns.first_prompt = row.first_prompt.as_deref();
                columns.problem = row.problem.as_deref();
            }
        }
        Some(write(&columns))
    }
}

/// A row in the file. One of a session without damage has no `problem`; one of a session that
/// cannot be read has no `header`.
#[derive(Debug, Default)]
pub(super) struct Columns<'a> {
    pub(super) id: &'a str,
    pub(super) active: i64,
    pub(super) log_bytes: i64,
    pub(super) changed_ns: i64,
    pub(super) header_sum: Option<i64>,
    pub(super) header: Option<&'a str>,
    pub(super) cwd: Option<&'a str>,
    pub(super) modified: i64,
    pub(super) bytes: i64,
    pub(super) events: i64,
    pub(super) in_turn: i64,
    pub(super) archived: i64,
    pub(super) first_prompt: Option<&'a str>,
    pub(super) problem: Option<&'a str>,
}

impl<'a> Columns<'a> {
    /// From a selected row, in the order of the fields. An error when it is not what was written.
    pub(super) fn read(row: &'a rusqlite::Row<'_>) -> rusqlite::Result<Self> {
        let text = |at: usize| row.get_ref(at).and_then(|value| Ok(value.as_str()?));
        let optional = |at: usize| row.get_ref(at).and_then(|value| Ok(value.as_str_or_null()?));
        let number = |at: usize| row.get_ref(at).and_then(|value| Ok(value.as_i64()?));
        let columns = Self {
            id: text(0)?,
            active: number(1)?,
            log_bytes: number(2)?,
            changed_ns: number(3)?,
            header_sum: row.get_ref(4).and_then(|value| Ok(value.as_i64_or_null()?))?,
            header: optional(5)?,
            cwd: optional(6)?,
            modified: number(7)?,
            bytes: number(8)?,
            events: number(9)?,
            in_turn: number(10)?,
            archived: number(11)?,
            first_prompt: optional(12)?,
            problem: optional(13)?,
        };
        match row.get_ref(14)? {
            ValueRef::Integer(sum) if sum == columns.sum() => Ok(columns),
            _ => Err(FromSqlError::InvalidType.into()),
        }
    }

    /// Checksum over everything else.
    pub(super) fn sum(&self) -> i64 {
        let texts = [Some(self.id), self.header, self.cwd, self.first_prompt, self.problem];
        let length = |text: Option<&str>| text.map_or(u64::MAX, |text| text.len() as u64);
        let [id, header, cwd, first_prompt, problem] = texts.map(length).map(u64::cast_signed);
        let numbers = [
            self.active,
            self.log_bytes,
            self.changed_ns,
            self.header_sum.unwrap_or(-1),
            self.modified,
            self.bytes,
            self.events,
            self.in_turn,
            self.archived,
            id,
            header,
            cwd,
            first_prompt,
            problem,
        ];
        let mut sum = crc32c::crc32c(numbers.map(i64::to_le_bytes).as_flattened());
        for text in texts.into_iter().flatten() {
            sum = crc32c::crc32c_append(sum, text.as_bytes());
        }
        sum.into()
    }

    pub(super) fn to_row(&self) -> Row {
        let stamp = Stamp {
            bytes: u64::try_from(self.log_bytes).unwrap_or_default(),
            changed_ns: self.changed_ns,
        };
        Row {
            seen: Seen {
                active: u32::try_from(self.active).unwrap_or_default(),
                stamp,
                header_sum: self.header_sum.and_then(|sum| u32::try_from(sum).ok()),
            },
            header: self.header.map(str::to_owned),
            cwd: self.cwd.unwrap_or_default().into(),
            modified: self.modified,
            bytes: u64::try_from(self.bytes).unwrap_or_default(),
            events: u64::try_from(self.events).unwrap_or_default(),
            in_turn: self.in_turn != 0,
            archived: self.archived != 0,
            first_prompt: self.first_prompt.map(str::to_owned),
            problem: self.problem.map(str::to_owned),
        }
    }
}

/// A row that was read and not yet compared with its session.
#[derive(Debug)]
pub(super) struct Row {
    seen: Seen,
    header: Option<String>,
    cwd: PathBuf,
    modified: i64,
    bytes: u64,
    events: u64,
    in_turn: bool,
    archived: bool,
    first_prompt: Option<String>,
    problem: Option<String>,
}

impl Row {
    /// The number of the segment that was active.
    pub(super) fn active(&self) -> u32 {
        self.seen.active
    }

    /// What it says, when that still holds now that its session looks like this.
    pub(super) fn if_fresh(
        self,
        medium: &dyn Medium,
        id: &SessionId,
        look: Option<Look>,
    ) -> Option<Entry> {
        let header_is = |sum| Some(sum) == header_sum(medium, id);
        let is_fresh = look.is_some_and(|look| {
            // To archive, or to show again, may change nothing in the log.
            let is_where_it_was = self.header.is_none() || look.is_archived == self.archived;
            is_where_it_was && look.stamp == self.seen.stamp
        });
        if !is_fresh || !self.seen.header_sum.is_none_or(header_is) {
            return None;
        }
        let seen = Some(self.seen);
        Some(Entry { id: id.clone(), seen, said: self.said()? })
    }

    /// What it says, whether or not that still holds.
    pub(super) fn said(self) -> Option<Said> {
        let Some(header) = self.header else { return self.problem.map(Err) };
        Some(Ok(SummaryRow {
            active: self.seen.active,
            stamp: Some(self.seen.stamp),
            header: serde_json::from_str(&header).ok()?,
            cwd: self.cwd,
            modified: self.modified,
            bytes: self.bytes,
            events: self.events,
            in_turn: self.in_turn,
            archived: self.archived,
            first_prompt: self.first_prompt,
            problem: self.problem,
        }))
    }
}

impl SummaryRow {
    pub(super) fn shown(self, state: SessionState) -> SessionSummary {
        SessionSummary {
            header: self.header,
            cwd: self.cwd,
            modified: self.modified,
            bytes: self.bytes,
            events: self.events,
            state,
            archived: self.archived,
            first_prompt: self.first_prompt,
            problem: self.problem,
        }
    }
}
