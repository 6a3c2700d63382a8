//! Files as a service, in whole operations, so that a second provider moves every tool elsewhere.

use std::path::{Path, PathBuf};
use std::time::Duration;

use reins_kernel::BoxFuture;

/// SHA-256 of a file's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash(pub [u8; 32]);

/// In lower-case hex.
impl std::fmt::Display for ContentHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// What a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A FIFO, socket, device: never opened.
    Special,
}

/// A resolved place: links followed, `.` and `..` gone, as the kernel would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The real path; for a missing target the real path of its nearest ancestor plus the rest.
    pub real: PathBuf,
    /// `None` when nothing is there.
    pub kind: Option<FileKind>,
    /// In bytes; 0 when nothing is there.
    pub size: u64,
}

/// A file's bytes.
#[derive(Clone, Debug)]
pub struct FileBytes {
    /// The real path.
    pub real: PathBuf,
    /// All of it.
    pub bytes: Vec<u8>,
    /// Of `bytes`.
    pub hash: ContentHash,
}

/// Which lines of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineWindow {
    /// 1-based.
    pub first: u64,
    /// At most this many lines.
    pub count: u64,
    /// At most this many bytes in all.
    pub max_bytes: usize,
    /// A longer line is cut at a character boundary and marked.
    pub max_line_bytes: usize,
    /// Bytes of the first line to leave out: the cursor into a line that was cut, else 0.
    pub skip_bytes: u64,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// 1-based.
    pub number: u64,
    /// Without its line end.
    pub text: String,
    /// Bytes of the whole line when `text` was cut.
    pub cut_from: Option<u64>,
}

/// A window of a text file. The whole file was read once, so the totals are exact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lines {
    /// The real path.
    pub real: PathBuf,
    /// The lines of the window, fewer when `max_bytes` was reached.
    pub lines: Vec<Line>,
    /// Lines in the file; a final empty segment is not a line.
    pub total: u64,
    /// The window was ended by `max_bytes`.
    pub capped: bool,
    /// Of the whole file.
    pub hash: ContentHash,
}

/// What must hold right before new content is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing is there.
    Absent,
    /// A regular file with this content (its times do not matter).
    Hash(ContentHash),
    /// Anything or nothing.
    Any,
}

/// What a publication did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The real path.
    pub real: PathBuf,
    /// Nothing was there before.
    pub created: bool,
    /// Of the new content.
    pub hash: ContentHash,
}

/// A search for a regular expression in files.
#[derive(Clone, Debug)]
pub struct SearchQuery {
    /// Rust regex syntax, matched line by line.
    pub pattern: String,
    /// File or directory.
    pub root: PathBuf,
    /// Only files whose path below `root` matches this glob.
    pub include: Option<String>,
    /// At most this many matching lines.
    pub max_matches: usize,
    /// A longer line is cut.
    pub max_line_bytes: usize,
    /// After that the search stops with what it has.
    pub time_limit: Duration,
}

/// One matching line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchHit {
    /// Path of the file.
    pub path: PathBuf,
    /// 1-based.
    pub line: u64,
    /// Without its line end; cut and lossily decoded where needed.
    pub text: String,
}

/// Why a walk or search is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incomplete {
    /// The time limit passed.
    TimeLimit,
    /// The count limit was reached.
    CountLimit,
}

/// What a search found, sorted by path and line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchHits {
    /// The matches.
    pub hits: Vec<SearchHit>,
    /// More may exist.
    pub incomplete: Option<Incomplete>,
    /// Files searched.
    pub files: u64,
    /// Files or folders left out, with the reason: binary, unreadable, not a regular file.
    pub skipped: Vec<(PathBuf, String)>,
    /// `skipped` is capped; this is the true count.
    pub skipped_total: u64,
}

/// A search for file names.
#[derive(Clone, Debug)]
pub struct GlobQuery {
    /// `**`, `*`, `?`, `[..]`, `{..}`; without `/` it matches names at any depth.
    pub pattern: String,
    /// Directory.
    pub root: PathBuf,
    /// At most this many.
    pub max_files: usize,
    /// After that the walk stops with what it has.
    pub time_limit: Duration,
}

/// Files found, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GlobHits {
    /// Paths.
    pub files: Vec<PathBuf>,
    /// Matches in all, when more than `files`.
    pub total: u64,
    /// The walk did not finish.
    pub incomplete: Option<Incomplete>,
    /// Folders that could not be read.
    pub unreadable: u64,
}

/// Why a file operation did not happen. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FsError {
    /// Nothing there.
    #[error("`{}` does not exist", path.display())]
    NotFound {
        /// As asked.
        path: PathBuf,
    },
    /// A directory, FIFO, socket or device.
    #[error("`{}` is not a regular file but a {kind}", path.display())]
    NotRegular {
        /// As asked.
        path: PathBuf,
        /// `directory`, `FIFO`, …
        kind: String,
    },
    /// A file where a directory is needed.
    #[error("`{}` is not a directory", path.display())]
    NotDirectory {
        /// As asked.
        path: PathBuf,
    },
    /// Bytes that are not UTF-8 text, or a NUL byte.
    #[error("`{}` is not UTF-8 text: {problem}", path.display())]
    NotText {
        /// As asked.
        path: PathBuf,
        /// Which byte, where.
        problem: String,
    },
    /// Over the limit of the operation.
    #[error("`{}` has {size} bytes, more than the limit of {limit}", path.display())]
    TooLarge {
        /// As asked.
        path: PathBuf,
        /// In bytes.
        size: u64,
        /// In bytes.
        limit: u64,
    },
    /// The content is not what was expected.
    #[error("`{}` was changed by someone else since it was read", path.display())]
    Stale {
        /// As asked.
        path: PathBuf,
    },
    /// Something is there though nothing was expected.
    #[error("`{}` already exists and has not been read", path.display())]
    Exists {
        /// As asked.
        path: PathBuf,
    },
    /// A link stands where none was when the path was resolved.
    #[error("`{}` was changed while it was being written; resolve it again", path.display())]
    Moved {
        /// As asked.
        path: PathBuf,
    },
    /// A new file cannot stand in for the old one, which may not be written in place.
    #[error("a new file cannot take the place of `{}`: {problem}", path.display())]
    NotReplaceable {
        /// As asked.
        path: PathBuf,
        /// What the old one has that a new one cannot have.
        problem: String,
    },
    /// The operating system says no.
    #[error("no permission for `{}`: {problem}", path.display())]
    Permission {
        /// As asked.
        path: PathBuf,
        /// The operating system's words.
        problem: String,
    },
    /// The pattern does not parse.
    #[error("the pattern `{pattern}` is not valid: {problem}")]
    Pattern {
        /// As given.
        pattern: String,
        /// Where and why.
        problem: String,
    },
    /// Any other refusal of the operating system.
    #[error("`{}`: {problem}", path.display())]
    Io {
        /// As asked.
        path: PathBuf,
        /// The operating system's words.
        problem: String,
    },
}

impl FsError {
    /// The code that goes with the text into a tool result.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "FS_NOT_FOUND",
            Self::NotRegular { .. } => "FS_NOT_REGULAR_FILE",
            Self::NotDirectory { .. } => "FS_NOT_DIRECTORY",
            Self::NotText { .. } => "FS_NOT_TEXT",
            Self::TooLarge { .. } => "FS_TOO_LARGE",
            Self::Stale { .. } => "FS_STALE_VERSION",
            Self::Exists { .. } => "FS_NOT_OBSERVED",
            Self::Moved { .. } => "FS_MOVED",
            Self::NotReplaceable { .. } => "FS_NOT_REPLACEABLE",
            Self::Permission { .. } => "FS_PERMISSION_DENIED",
            Self::Pattern { .. } => "SEARCH_INVALID_PATTERN",
            Self::Io { .. } => "FS_IO_ERROR",
        }
    }
}

/// File access. Relative paths are taken from `cwd`, which must be absolute. Dropping a returned
/// future before it resolves leaves either the old or the new content, never a mixture.
pub trait Fs: Send + Sync {
    /// Follows links and says what is there. A missing target is no error.
    fn resolve(&self, cwd: &Path, path: &str) -> BoxFuture<'static, Result<Place, FsError>>;

    /// All bytes of a regular file of at most `limit` bytes.
    fn read(
        &self,
        cwd: &Path,
        path: &str,
        limit: u64,
    ) -> BoxFuture<'static, Result<FileBytes, FsError>>;

    /// A window of lines of a UTF-8 file of any size, streamed.
    fn read_lines(
        &self,
        cwd: &Path,
        path: &str,
        window: LineWindow,
    ) -> BoxFuture<'static, Result<Lines, FsError>>;

    /// Publishes new content atomically when `expect` holds: through links to their target, mode,
    /// owner and extended attributes kept, hard links written in place, missing parents made. A
    /// new file's mode is 0666 without the umask, as any editor's. Equal content is not written.
    fn replace(
        &self,
        cwd: &Path,
        path: &str,
        content: Vec<u8>,
        expect: Expect,
    ) -> BoxFuture<'static, Result<Replaced, FsError>>;

    /// [`Fs::replace`] at a place that was resolved and judged before: `real` is a
    /// [`Place::real`], and a link anywhere in it is refused as [`FsError::Moved`] (the caller
    /// resolves and judges again, a few times at most).
    fn replace_at(
        &self,
        real: &Path,
        content: Vec<u8>,
        expect: Expect,
    ) -> BoxFuture<'static, Result<Replaced, FsError>>;

    /// Searches file contents; respects ignore files, leaves hidden and binary files out.
    fn search(&self, query: SearchQuery) -> BoxFuture<'static, Result<SearchHits, FsError>>;

    /// Searches file names; ignored and hidden files count, version control folders do not.
    fn glob(&self, query: GlobQuery) -> BoxFuture<'static, Result<GlobHits, FsError>>;
}
