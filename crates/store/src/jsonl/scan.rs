//! Reads events off log files, in order, with bounded memory, and tells a torn tail from damage.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use reins_schema::{Event, LineError, MAX_LINE_BYTES};

use super::{files, seek};
use crate::{Damage, DamageKind, StoreError};

const READ_BYTES: usize = 128 << 10;

/// Damage before the end.
const UNKNOWN_HOLE: DamageKind = DamageKind::Hole { first: 0, last: 0 };

/// Bytes at the end of the last log file that hold at most one record, which is no event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) line: Option<u64>,
    pub(crate) problem: String,
    /// An event precedes it. Without one nothing says that these bytes are the end of a log.
    pub(crate) may_be_cut: bool,
}

impl Tail {
    pub(crate) fn damage(&self) -> Damage {
        Damage {
            path: self.path.clone(),
            offset: self.offset,
            bytes: self.bytes,
            line: self.line,
            problem: self.problem.clone(),
            kind: if self.may_be_cut { DamageKind::Torn } else { UNKNOWN_HOLE },
        }
    }
}

/// Why a scan stopped before the end.
#[derive(Debug)]
pub(crate) enum Stop {
    Damage(Damage),
    Store(StoreError),
}

impl From<Stop> for StoreError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Damage(damage) => Self::Damaged(damage),
            Stop::Store(error) => error,
        }
    }
}

/// One log file, read up to the length that it had when it was opened: a live writer only
/// appends, so everything before that is settled except for an unfinished last line.
#[derive(Debug)]
struct Reader {
    path: PathBuf,
    file: BufReader<io::Take<File>>,
    offset: u64,
    line: Option<u64>,
}

impl Reader {
    fn open(path: &Path, offset: u64) -> Result<Self, StoreError> {
        let mut file = files::open_to_read(path)?;
        let opened = (|| {
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(offset))?;
            Ok(file.take(length.saturating_sub(offset)))
        })();
        let file = opened.map_err(|e| StoreError::io(path, e))?;
        let file = BufReader::with_capacity(READ_BYTES, file);
        Ok(Self { path: path.to_path_buf(), file, offset, line: (offset == 0).then_some(1) })
    }

    /// Reads one line into `line`, without its line feed. `None` at the end; an error when the
    /// bytes are no line. Advances in every case.
    fn next_line(&mut self, line: &mut Vec<u8>) -> Result<Option<Result<(), String>>, StoreError> {
        line.clear();
        let limit = MAX_LINE_BYTES as u64 + 1;
        let read = (&mut self.file).take(limit).read_until(b'\n', line);
        let mut length = read.map_err(|e| StoreError::io(&self.path, e))? as u64;
        if length == 0 {
            return Ok(None);
        }
        let mut verdict = Ok(());
        if line.pop_if(|last| *last == b'\n').is_none() {
            verdict = Err("the last line has no end".to_owned());
            if length == limit {
                let skipped = self.file.skip_until(b'\n');
                length += skipped.map_err(|e| StoreError::io(&self.path, e))? as u64;
                verdict = Err(LineError::TooLong(usize::try_from(length).unwrap_or(usize::MAX)))
                    .map_err(|e| e.to_string());
            }
        }
        self.offset += length;
        self.line = self.line.map(|line| line + 1);
        Ok(Some(verdict))
    }
}

/// Events of a list of log files, read in batches.
#[derive(Debug)]
pub(crate) struct Scanner {
    later: std::vec::IntoIter<PathBuf>,
    reader: Option<Reader>,
    /// The number that is due; unknown at first when reading begins in the middle.
    next_seq: Option<u64>,
    /// Earlier events are passed over.
    from: u64,
    /// An event precedes the place where reading begins.
    is_inside: bool,
    line: Vec<u8>,
    tail: Option<Tail>,
    stop: Option<Stop>,
    /// After the last whole line.
    end: Option<(PathBuf, u64)>,
}

impl Scanner {
    /// Everything, from event 0 on.
    pub(crate) fn whole(segments: Vec<PathBuf>) -> Self {
        Self {
            later: segments.into_iter(),
            reader: None,
            next_seq: Some(0),
            from: 0,
            is_inside: false,
            line: Vec::new(),
            tail: None,
            stop: None,
            end: None,
        }
    }

    /// From event `from` on, found without reading what is before it.
    pub(crate) fn from(segments: Vec<PathBuf>, from: u64) -> Result<Self, StoreError> {
        let Some((at, offset)) = seek::find(&segments, from)? else {
            return Ok(Self::whole(segments));
        };
        let reader = Reader::open(&segments[at], offset)?;
        let later: Vec<PathBuf> = segments.into_iter().skip(at + 1).collect();
        let is_inside = at > 0 || offset > 0;
        Ok(Self { reader: Some(reader), next_seq: None, from, is_inside, ..Self::whole(later) })
    }

    /// The next events: about `bytes` of them, at most `events`. Empty at the end; then
    /// [`Scanner::tail`] is known. What precedes damage is returned before the damage is.
    pub(crate) fn batch(&mut self, events: usize, bytes: usize) -> Result<Vec<Event>, Stop> {
        let mut batch = Vec::new();
        let mut size = 0;
        while self.stop.is_none() && batch.len() < events && size < bytes {
            match self.next_event() {
                Ok(Some(event)) => {
                    size += self.line.len();
                    batch.push(event);
                }
                Ok(None) => break,
                Err(stop) => self.stop = Some(stop),
            }
        }
        match self.stop.take_if(|_| batch.is_empty()) {
            Some(stop) => Err(stop),
            None => Ok(batch),
        }
    }

    /// What follows the last event, when the end was reached.
    pub(crate) fn tail(&self) -> Option<&Tail> {
        self.tail.as_ref()
    }

    /// The next event's number, when the end was reached and something was read.
    pub(crate) fn next_seq(&self) -> u64 {
        self.next_seq.unwrap_or(self.from)
    }

    /// The last file with the length of its good part, when the end was reached.
    pub(crate) fn end(&self) -> Option<&(PathBuf, u64)> {
        self.end.as_ref()
    }

    /// The file and offset of the next event, when there is one.
    pub(crate) fn place_of_next(&mut self) -> Result<Option<(PathBuf, u64)>, StoreError> {
        if self.next_event()?.is_none() {
            return Ok(None);
        }
        let start = |reader: &Reader| {
            let length = self.line.len() as u64 + 1;
            (reader.path.clone(), reader.offset - length)
        };
        Ok(self.reader.as_ref().map(start))
    }

    fn next_event(&mut self) -> Result<Option<Event>, Stop> {
        loop {
            if self.tail.is_some() {
                return Ok(None);
            }
            let Some(mut reader) = self.take_reader()? else { return Ok(None) };
            let (offset, number) = (reader.offset, reader.line);
            let read = reader.next_line(&mut self.line).map_err(Stop::Store)?;
            let Some(verdict) = read else {
                self.end = Some((reader.path, reader.offset));
                continue;
            };
            let is_whole = verdict.is_ok();
            let parsed = verdict.map_err(Bad::Bytes).and_then(|()| self.parse());
            match parsed {
                Ok(event) => {
                    self.reader = Some(reader);
                    if let Some(event) = event {
                        return Ok(Some(event));
                    }
                }
                Err(bad) => {
                    let (is_bytes, problem) = match bad {
                        Bad::Bytes(problem) => (true, problem),
                        Bad::Order(problem) => (false, problem),
                    };
                    let path = reader.path.clone();
                    let (bytes, kind) = (reader.offset - offset, UNKNOWN_HOLE);
                    let damage = Damage { path, offset, bytes, line: number, problem, kind };
                    if !is_bytes {
                        return Err(Stop::Damage(damage));
                    }
                    self.judge(reader, damage, is_whole)?;
                }
            }
        }
    }

    fn take_reader(&mut self) -> Result<Option<Reader>, Stop> {
        match self.reader.take() {
            Some(reader) => Ok(Some(reader)),
            None => match self.later.next() {
                Some(path) => Reader::open(&path, 0).map(Some).map_err(Stop::Store),
                None => Ok(None),
            },
        }
    }

    /// The event in the current line; `None` when it is before the wanted ones.
    fn parse(&mut self) -> Result<Option<Event>, Bad> {
        let begins = seek::line_seq(&self.line);
        let due = *self.next_seq.get_or_insert(begins.unwrap_or(self.from));
        if due < self.from && begins == Some(due) {
            self.next_seq = Some(due + 1);
            return Ok(None);
        }
        let (event, _) = Event::decode(&self.line).map_err(|e| Bad::Bytes(e.to_string()))?;
        if event.seq != due {
            let problem = format!("event {} stands where event {due} is due", event.seq);
            return Err(Bad::Order(problem));
        }
        self.next_seq = Some(due + 1);
        Ok(Some(event))
    }

    /// The line in `self.line` is no event. It is the torn end of the log when it is the only
    /// record that is lost; else the log is damaged.
    fn judge(&mut self, mut reader: Reader, mut bad: Damage, is_whole: bool) -> Result<(), Stop> {
        let is_first = !self.is_inside && self.next_seq.unwrap_or(0) == 0;
        // Of a first write that was torn nothing was ever acknowledged.
        let is_ours = seek::line_seq(&self.line) == Some(0)
            || b"{\"seq\":0,".starts_with(&self.line[..])
            || self.line.iter().all(|byte| *byte == 0);
        // A writer that lives may be in the middle of the first record, and of no other there.
        let mut is_damage = self.later.len() > 0 || (is_first && is_whole);
        let mut lost = records(&self.line);
        while !is_damage && lost < 2 {
            let Some(verdict) = reader.next_line(&mut self.line).map_err(Stop::Store)? else {
                break;
            };
            is_damage = is_first || (verdict.is_ok() && Event::decode(&self.line).is_ok());
            lost += records(&self.line);
        }
        if lost > 1 {
            bad.problem.push_str(", and it is not the only record that is lost");
        }
        if is_damage || lost > 1 {
            return Err(Stop::Damage(bad));
        }
        let Damage { path, offset, line, problem, .. } = bad;
        self.end = Some((path.clone(), offset));
        let (bytes, may_be_cut) = (reader.offset - offset, !is_first || is_ours);
        self.tail = Some(Tail { path, offset, bytes, line, problem, may_be_cut });
        Ok(())
    }
}

/// Where something that looks like a record is searched in a line.
const LOOK_BYTES: usize = 256;

/// How many records a line seems to hold: several when the line feeds between them are lost.
fn records(line: &[u8]) -> usize {
    const START: &[u8] = b"{\"seq\":";
    let begins = |at: usize| {
        let before = &line[..at];
        let space = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
        let last = before.iter().rposition(|byte| !space(byte));
        // Two objects never follow each other without a comma inside a record.
        last.is_none_or(|last| before[last] == b'}') || before.last() == Some(&0)
    };
    let windows = line.windows(START.len()).enumerate();
    let starts = windows.filter(|(at, window)| *window == START && begins(*at)).count();
    let head = &line[..line.len().min(LOOK_BYTES)];
    let has_seq = head.windows(START.len() - 1).any(|window| *window == START[1..]);
    let is_object = || {
        line.trim_ascii_start().starts_with(b"{")
            && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
    };
    starts.max(usize::from(has_seq || is_object()))
}

/// Why a line is not the next event.
enum Bad {
    Bytes(String),
    Order(String),
}
