//! Sessions that are only numbers, on a clock of their own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use reins_schema::{FORMAT, Header, SessionId};

use super::super::SummaryRow;
use crate::medium::{Held, Ids, Medium, NewSession, Segment, SegmentInfo, Stamp};
use crate::{LeaseInfo, StoreError};

#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) cwd: PathBuf,
    pub(super) in_turn: bool,
    pub(super) archived: bool,
    pub(super) is_held: bool,
    header_is_broken: bool,
    log_is_broken: bool,
    active: u32,
    stamp: Stamp,
}

#[derive(Debug, Default)]
pub(super) struct Pretended {
    sessions: Mutex<BTreeMap<SessionId, Session>>,
    clock: AtomicI64,
    asked: AtomicUsize,
}

/// 14 November 2023.
const BEGIN_NS: i64 = 1_700_000_000_000_000_000;
const TICK_NS: i64 = 5_000_000;

impl Pretended {
    pub(super) fn with(sessions: usize) -> Self {
        let medium = Self::default();
        for n in 0..sessions {
            medium.create(&format!("s-{n}"));
        }
        medium
    }

    pub(super) fn create(&self, id: &str) {
        let session = Session {
            cwd: "/somewhere".into(),
            in_turn: false,
            archived: false,
            is_held: false,
            header_is_broken: false,
            log_is_broken: false,
            active: 0,
            stamp: Stamp { bytes: 100, changed_ns: self.tick() },
        };
        self.sessions.lock().unwrap().insert(SessionId::new(id), session);
    }

    pub(super) fn remove(&self, id: &str) {
        self.sessions.lock().unwrap().remove(&SessionId::new(id));
    }

    /// Changes a session with its stamp.
    pub(super) fn change(&self, id: &str, how: impl FnOnce(&mut Session)) {
        let changed_ns = self.tick();
        if let Some(session) = self.sessions.lock().unwrap().get_mut(&SessionId::new(id)) {
            session.stamp.changed_ns = changed_ns;
            how(session);
        }
    }

    /// Changes a session without its stamp.
    fn touch(&self, id: &str, how: impl FnOnce(&mut Session)) {
        self.sessions.lock().unwrap().get_mut(&SessionId::new(id)).map(how);
    }

    pub(super) fn append(&self, id: &str) {
        self.change(id, |session| session.stamp.bytes += 100);
    }

    pub(super) fn roll(&self, id: &str) {
        self.change(id, |session| {
            session.active += 1;
            session.stamp.bytes = 0;
        });
    }

    /// Same size, other content and time.
    pub(super) fn restore_older(&self, id: &str) {
        self.change(id, |session| session.in_turn = !session.in_turn);
    }

    pub(super) fn break_header(&self, id: &str) {
        self.touch(id, |session| session.header_is_broken = true);
    }

    pub(super) fn mend_header(&self, id: &str) {
        self.touch(id, |session| session.header_is_broken = false);
    }

    pub(super) fn break_log(&self, id: &str) {
        self.change(id, |session| session.log_is_broken = true);
    }

    pub(super) fn archive(&self, id: &str) {
        self.touch(id, |session| session.archived = !session.archived);
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn tick(&self) -> i64 {
        BEGIN_NS + self.clock.fetch_add(TICK_NS, Ordering::Relaxed)
    }

    fn session(&self, id: &SessionId) -> Result<Session, StoreError> {
        let absent = || StoreError::NotFound {
            id: id.clone(),
            sessions: "/pretended".into(),
            nearest: None,
        };
        self.sessions.lock().unwrap().get(id).cloned().ok_or_else(absent)
    }

    pub(super) fn summarise(&self, id: &SessionId) -> Result<SummaryRow, StoreError> {
        let session = self.session(id)?;
        if session.header_is_broken {
            return Err(StoreError::unreadable(&self.path(id), "the header is broken", "mend it"));
        }
        let events = u64::from(session.active) * 1000 + session.stamp.bytes / 100;
        Ok(SummaryRow {
            active: session.active,
            stamp: Some(session.stamp),
            header: Header {
                format: FORMAT,
                id: id.clone(),
                created_at: 5,
                cwd: "/somewhere".into(),
                parent: None,
                origin: None,
                delegation_depth: 0,
                agent_preset: None,
            },
            cwd: session.cwd,
            modified: session.stamp.changed_ns / 1_000_000,
            bytes: session.stamp.bytes,
            events,
            in_turn: session.in_turn,
            archived: session.archived,
            first_prompt: (events % 3 != 0).then(|| format!("fix bug {events} \u{fc}\u{4e2d}")),
            problem: session.log_is_broken.then(|| "the log is damaged".to_owned()),
        })
    }
}

impl Medium for Pretended {
    fn holder(&self, id: &SessionId) -> Option<LeaseInfo> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let lease = r#"{"pid":7,"host":"here","start":1}"#;
        self.session(id).ok()?.is_held.then(|| serde_json::from_str(lease).unwrap())
    }

    fn header(&self, id: &SessionId) -> Result<Option<Vec<u8>>, StoreError> {
        let session = self.session(id)?;
        Ok(Some(if session.header_is_broken { b"{".to_vec() } else { b"{}".to_vec() }))
    }

    fn segments(&self, id: &SessionId) -> Result<Vec<SegmentInfo>, StoreError> {
        let number = self.session(id)?.active;
        Ok(vec![SegmentInfo { number, is_sealed: false, stored: 100 }])
    }

    fn ids(&self) -> Result<Ids, StoreError> {
        let sessions = self.sessions.lock().unwrap().keys().cloned().collect();
        Ok(Ids { sessions, strangers: vec![("/pretended/x".into(), "no session".to_owned())] })
    }

    fn stamp(&self, id: &SessionId, active: u32) -> Option<Stamp> {
        self.session(id).ok().filter(|it| it.active == active).map(|it| it.stamp)
    }

    fn is_archived(&self, id: &SessionId) -> bool {
        self.session(id).is_ok_and(|session| session.archived)
    }

    fn path(&self, id: &SessionId) -> PathBuf {
        PathBuf::from("/pretended").join(id.as_str())
    }

    fn create(&self, _: NewSession<'_>) -> Result<Box<dyn Held>, StoreError> {
        unreachable!("a list makes nothing")
    }

    fn take(&self, _: &SessionId) -> Result<Box<dyn Held>, StoreError> {
        unreachable!("a list takes nothing")
    }

    fn segment(&self, _: &SessionId, _: u32) -> Result<Box<dyn Segment>, StoreError> {
        unreachable!("a summary is read by another function")
    }

    fn snapshot(&self, _: &SessionId) -> Option<Vec<u8>> {
        unreachable!("a summary is read by another function")
    }

    fn put_blob(&self, _: &SessionId, _: &str, _: &[u8]) -> Result<(), StoreError> {
        unreachable!("a list keeps nothing")
    }

    fn blob(&self, _: &SessionId, _: &str, _: usize) -> Result<Option<Vec<u8>>, StoreError> {
        unreachable!("a list reads no blobs")
    }

    fn blobs(&self, _: &SessionId) -> Result<Vec<(String, u64)>, StoreError> {
        unreachable!("a list reads no blobs")
    }
}
