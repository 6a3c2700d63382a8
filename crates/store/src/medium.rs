//! Where the bytes of sessions are. There is one medium per back end; what the bytes mean, and
//! what is done when they are damaged, is shared by all of them.
//!
//! Calls block: they run on the blocking pool or on a log's own threads. What a call reports as
//! done is durable when it returns, except where it says otherwise.

use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;

use reins_schema::SessionId;

use crate::{LeaseInfo, StoreError};

/// A place for sessions.
pub(crate) trait Medium: fmt::Debug + Send + Sync + 'static {
    /// Publishes a session, complete or not at all, with its header, what it inherits and one
    /// empty active segment after that, and holds its lease.
    ///
    /// # Errors
    /// The id is taken; the home cannot be used; the disk refuses.
    fn create(&self, new: NewSession<'_>) -> Result<Box<dyn Held>, StoreError>;

    /// Takes the lease of a session.
    ///
    /// # Errors
    /// Absent; in use, with who uses it.
    fn take(&self, id: &SessionId) -> Result<Box<dyn Held>, StoreError>;

    /// Who holds the lease now. Never disturbs a holder or somebody who is about to take it.
    fn holder(&self, id: &SessionId) -> Option<LeaseInfo>;

    /// The header as it is stored; `None` when there is a session without one, or
    /// something stands in its place that cannot be one.
    ///
    /// # Errors
    /// Absent; unreadable.
    fn header(&self, id: &SessionId) -> Result<Option<Vec<u8>>, StoreError>;

    /// The log's segments in order. Numbers may be missing: what was in them is lost.
    ///
    /// # Errors
    /// Absent; unreadable.
    fn segments(&self, id: &SessionId) -> Result<Vec<SegmentInfo>, StoreError>;

    /// Opens a segment for reading. A segment that was sealed meanwhile has the same content.
    ///
    /// # Errors
    /// There is no such segment; unreadable.
    fn segment(&self, id: &SessionId, number: u32) -> Result<Box<dyn Segment>, StoreError>;

    /// The stored snapshot; `None` when there is none that can be read.
    fn snapshot(&self, id: &SessionId) -> Option<Vec<u8>>;

    /// Keeps a blob under its name, durably. Keeping it again does nothing.
    ///
    /// # Errors
    /// Absent session; the disk refuses.
    fn put_blob(&self, id: &SessionId, name: &str, bytes: &[u8]) -> Result<(), StoreError>;

    /// The bytes of a blob, unchecked; `None` when there is none. At most `limit` bytes.
    ///
    /// # Errors
    /// Absent session; larger than `limit`; unreadable.
    fn blob(&self, id: &SessionId, name: &str, limit: usize)
    -> Result<Option<Vec<u8>>, StoreError>;

    /// Names and sizes of a session's blobs, by name.
    ///
    /// # Errors
    /// Absent session; unreadable.
    fn blobs(&self, id: &SessionId) -> Result<Vec<(String, u64)>, StoreError>;

    /// The ids of all sessions, in no order, and what looks like a session and is none. Also
    /// removes what killed creates and removals left.
    ///
    /// # Errors
    /// The home cannot be read. A home that does not exist has no sessions.
    fn ids(&self) -> Result<Ids, StoreError>;

    /// What changes with every change of a session, at the price of one look at `active`, the
    /// number of the segment that was active at the last look; `None` when another one is now.
    fn stamp(&self, id: &SessionId, active: u32) -> Option<Stamp>;

    /// [`Medium::stamp`] and [`Medium::is_archived`] of many sessions; `None` without a stamp.
    fn looks(&self, at: &[(&SessionId, u32)]) -> Vec<Option<Look>> {
        let look = |id, active| {
            let stamp = self.stamp(id, active)?;
            Some(Look { stamp, is_archived: self.is_archived(id) })
        };
        at.iter().map(|(id, active)| look(id, *active)).collect()
    }

    /// Whether the session is archived.
    fn is_archived(&self, id: &SessionId) -> bool;

    /// Where a session is, for people: its folder, or the database.
    fn path(&self, id: &SessionId) -> PathBuf;
}

/// A session whose lease is held. Dropping it releases the lease.
///
/// What is kept never replaces something else: when its name has another content, it gets the
/// name with a number, and the call returns the name that it has. Keeping the same again does
/// nothing.
pub(crate) trait Held: fmt::Debug + Send {
    /// The session.
    fn id(&self) -> &SessionId;

    /// Replaces the header; the one that was there, if any, is kept under `kept`.
    ///
    /// # Errors
    /// The disk refuses.
    fn put_header(&mut self, header: &[u8], kept: &str) -> Result<String, StoreError>;

    /// Opens the active segment for appending; its length must be `length`.
    ///
    /// # Errors
    /// Another length; it is sealed or absent; the disk refuses.
    fn active(&mut self, number: u32, length: u64) -> Result<Box<dyn Active>, StoreError>;

    /// Makes the next, empty, segment.
    ///
    /// # Errors
    /// It exists; the disk refuses.
    fn begin_segment(&mut self, number: u32) -> Result<Box<dyn Active>, StoreError>;

    /// Cuts a segment that is not sealed to `length`, after the rest was kept under `kept`.
    ///
    /// # Errors
    /// The disk refuses; then nothing was cut.
    fn cut(&mut self, number: u32, length: u64, kept: &str) -> Result<String, StoreError>;

    /// Gives a segment another content, all or nothing; the content that was there is kept, byte
    /// for byte as it was stored, under `kept`. A sealed one stays sealed.
    ///
    /// # Errors
    /// The disk refuses.
    fn replace(
        &mut self,
        number: u32,
        content: &mut dyn Read,
        kept: &str,
    ) -> Result<String, StoreError>;

    /// Keeps bytes under a name beside the log.
    ///
    /// # Errors
    /// The disk refuses.
    fn keep(&mut self, name: &str, content: &mut dyn Read) -> Result<String, StoreError>;

    /// What seals segments of this session, to be used on a thread of its own while the lease is
    /// held.
    fn sealer(&self) -> Box<dyn Sealer>;

    /// Stores the snapshot; it is derived, so nothing is synced.
    ///
    /// # Errors
    /// The disk refuses.
    fn put_snapshot(&mut self, snapshot: &[u8]) -> Result<(), StoreError>;

    /// Forgets the snapshot.
    ///
    /// # Errors
    /// The disk refuses.
    fn drop_snapshot(&mut self) -> Result<(), StoreError>;

    /// Says in the lease what the holder does, for people. Best effort.
    fn announce(&mut self, doing: &str);

    /// Marks the session as archived, or not.
    ///
    /// # Errors
    /// The disk refuses.
    fn set_archived(&mut self, archived: bool) -> Result<(), StoreError>;

    /// Removes the session with everything that only it has.
    ///
    /// # Errors
    /// The disk refuses; then it may be gone from the list and be removed by a later list.
    fn remove(self: Box<Self>) -> Result<(), StoreError>;
}

/// Compresses segments that are not active any more.
pub(crate) trait Sealer: Send {
    /// Compresses a segment. Does nothing when it is sealed. A crash leaves either form or both,
    /// and readers see the content once.
    ///
    /// # Errors
    /// The disk refuses; the segment stays as it was.
    fn seal(&mut self, number: u32) -> Result<(), StoreError>;
}

/// The segment that is written to.
pub(crate) trait Active: fmt::Debug + Send {
    /// Bytes in it.
    fn length(&self) -> u64;

    /// Appends whole lines. Afterwards they are in it, or nothing of them is; not yet durable.
    ///
    /// # Errors
    /// Somebody else changed it ([`StoreError::Lost`]); the disk refuses.
    fn append(&mut self, lines: &[u8]) -> Result<(), StoreError>;

    /// Makes everything appended durable; else takes back what was appended since the last time.
    ///
    /// # Errors
    /// The disk refuses.
    fn sync(&mut self) -> Result<(), StoreError>;
}

/// The content of a segment, by offsets of the plain lines, sealed or not.
pub(crate) trait Segment: Send {
    /// Bytes of content at the time of opening. What a live writer appends later is not seen.
    fn length(&self) -> u64;

    /// Reads from `offset` on; 0 at the end. As [`std::os::unix::fs::FileExt::read_at`].
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`]: these bytes are damaged, [`Segment::after_damage`] says up
    /// to where; any other error is the system's.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// The first offset after the damaged stretch that contains `offset`; the length when nothing
    /// readable follows.
    fn after_damage(&self, offset: u64) -> u64;

    /// An offset at or before `offset` where a line begins and reading is cheap; 0 if unknown.
    fn landing(&self, offset: u64) -> u64;

    /// What holds it, for people: a file, or a database with a name in it.
    fn place(&self) -> PathBuf;

    /// What is wrong with the form in which the content is stored, as far as it was read; what
    /// there is of the content can be read in spite of it.
    fn flaw(&self) -> Option<&'static str> {
        None
    }
}

/// A segment of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentInfo {
    /// Its number, counted from 0.
    pub(crate) number: u32,
    /// It is compressed, and nothing is appended to it any more.
    pub(crate) is_sealed: bool,
    /// Bytes that it takes on the medium.
    pub(crate) stored: u64,
}

/// What [`Medium::create`] publishes.
pub(crate) struct NewSession<'a> {
    /// The session.
    pub(crate) id: &'a SessionId,
    /// Its header, as stored.
    pub(crate) header: &'a [u8],
    /// What it takes over, when it is a fork.
    pub(crate) inherit: Option<Inherit<'a>>,
    /// Segments of its own that are sealed, with numbers that it does not share. They are read one
    /// after the other.
    pub(crate) sealed: Vec<(u32, Box<dyn Read + 'a>)>,
    /// First lines of the active segment, which comes after all others.
    pub(crate) lines: &'a [u8],
    /// Its snapshot, when there is one.
    pub(crate) snapshot: Option<&'a [u8]>,
}

/// What a fork takes over. Whole segments and blobs are shared, never copied, where the medium can.
#[derive(Debug)]
pub(crate) struct Inherit<'a> {
    /// From whom.
    pub(crate) parent: &'a SessionId,
    /// Sealed segments that it shares whole, in order; their numbers stay.
    pub(crate) segments: Vec<u32>,
    /// Blobs that it shares.
    pub(crate) blobs: Vec<String>,
}

/// What [`Medium::ids`] found.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    /// Folders or rows with a valid id.
    pub(crate) sessions: Vec<SessionId>,
    /// What else stands there, with the reason why it is no session.
    pub(crate) strangers: Vec<(PathBuf, String)>,
}

/// The state of a session's active segment, to see whether it changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Bytes in the active segment.
    pub(crate) bytes: u64,
    /// Its last change, Unix nanoseconds.
    pub(crate) changed_ns: i64,
}

/// What one look at a session shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// The state of its active segment.
    pub(crate) stamp: Stamp,
    /// It is archived.
    pub(crate) is_archived: bool,
}
