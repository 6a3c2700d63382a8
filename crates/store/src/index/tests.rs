//! A list with the file is the list without it, whatever happens to sessions and to the file.

mod file;
mod medium;
mod same;

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use reins_schema::SessionId;

use super::{Index, find};
use crate::{ListFilter, Listing, SessionState, StoreError};
use medium::Pretended;

/// Lists, and counts how many sessions were read for that.
fn list(index: &Index, medium: &Pretended, filter: &ListFilter) -> (Listing, usize) {
    let read = AtomicUsize::new(0);
    let summarise = |id: &SessionId| {
        read.fetch_add(1, Ordering::Relaxed);
        medium.summarise(id)
    };
    let listing = index.list(medium, filter, &summarise, &|_, _| {}).unwrap();
    (listing, read.into_inner())
}

fn everything(index: &Index, medium: &Pretended) -> (Listing, usize) {
    list(index, medium, &ListFilter { archived: true, ..ListFilter::default() })
}

fn ids(listing: &Listing) -> Vec<&str> {
    listing.sessions.iter().map(|summary| summary.header.id.as_str()).collect()
}

fn kept_in(home: &Path) -> Index {
    Index::new(Some(home.join("index.sqlite")))
}

#[test]
fn only_what_changed_is_read_again() {
    let home = tempfile::tempdir().unwrap();
    for index in [kept_in(home.path()), Index::new(None)] {
        let medium = Pretended::with(100);
        assert_eq!(everything(&index, &medium).1, 100);
        assert_eq!(everything(&index, &medium).1, 0);
        medium.append("s-7");
        medium.roll("s-8");
        medium.restore_older("s-9");
        medium.create("s-new");
        medium.remove("s-10");
        let (listing, read) = everything(&index, &medium);
        assert_eq!(read, 4);
        assert_eq!(listing.sessions.len(), 100);
        assert_eq!(&ids(&listing)[..4], ["s-new", "s-9", "s-8", "s-7"]);
        assert_eq!(everything(&index, &medium).1, 0);
    }
}

#[test]
fn what_is_forgotten_is_read_again() {
    let home = tempfile::tempdir().unwrap();
    let index = kept_in(home.path());
    let medium = Pretended::with(3);
    assert_eq!(everything(&index, &medium).1, 3);
    index.forget(&SessionId::new("s-1"));
    assert_eq!(index.header(&SessionId::new("s-1")), None);
    assert_eq!(everything(&index, &medium).1, 1);
    let header = index.header(&SessionId::new("s-1")).unwrap();
    assert_eq!(header.id.as_str(), "s-1");
}

#[test]
fn a_damaged_session_is_listed_fast_and_seen_as_soon_as_it_is_mended() {
    let home = tempfile::tempdir().unwrap();
    let index = kept_in(home.path());
    let medium = Pretended::with(5);
    medium.break_header("s-1");
    medium.break_log("s-2");
    let (listing, _) = everything(&index, &medium);
    assert_eq!(listing.damaged.len(), 2, "one is beside what is no session");
    assert!(listing.damaged[0].1.contains("header is broken"), "{:?}", listing.damaged);
    let problem = listing.sessions.iter().find_map(|summary| summary.problem.as_deref());
    assert_eq!(problem, Some("the log is damaged"));
    let (again, read) = everything(&index, &medium);
    assert_eq!(read, 0);
    assert_eq!(format!("{again:?}"), format!("{listing:?}"));
    medium.mend_header("s-1");
    let (mended, read) = everything(&index, &medium);
    assert!(read <= 2 && mended.damaged.len() == 1 && mended.sessions.len() == 5);
}

#[test]
fn a_filter_chooses_by_directory_time_and_archive() {
    let home = tempfile::tempdir().unwrap();
    let real = home.path().join("project");
    let link = home.path().join("link");
    std::fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let (index, medium) = (Index::new(None), Pretended::with(4));
    medium.change("s-0", |session| session.cwd.clone_from(&real));
    medium.change("s-1", |session| session.cwd.clone_from(&link));
    medium.change("s-2", |session| session.cwd = "/gone".into());
    medium.change("s-3", |session| (session.archived, session.cwd) = (true, real.clone()));
    let chosen = |filter: ListFilter| {
        let (listing, _) = list(&index, &medium, &filter);
        let ids: Vec<String> = ids(&listing).into_iter().map(str::to_owned).collect();
        (ids, listing.total)
    };
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for path in [&real, &link] {
        let filter = ListFilter { cwd: Some(path.clone()), ..ListFilter::default() };
        assert_eq!(chosen(filter), (of(&["s-1", "s-0"]), 2));
    }
    let filter = ListFilter { cwd: Some("/gone".into()), ..ListFilter::default() };
    assert_eq!(chosen(filter), (of(&["s-2"]), 1));
    let filter = ListFilter { archived: true, limit: Some(1), ..ListFilter::default() };
    assert_eq!(chosen(filter), (of(&["s-3"]), 4));
    let time = medium.summarise(&SessionId::new("s-1")).unwrap().modified;
    let filter = ListFilter { older_than: Some(time), ..ListFilter::default() };
    assert_eq!(chosen(filter), (of(&["s-0"]), 1));
}

#[test]
fn who_holds_a_session_is_asked_where_somebody_may() {
    let (index, medium) = (Index::new(None), Pretended::with(4));
    // The pretended clock stands in 2023: what it last changed is long ago.
    medium.change("s-0", |session| (session.in_turn, session.is_held) = (true, true));
    medium.change("s-1", |session| session.in_turn = true);
    medium.change("s-2", |session| session.is_held = true);
    let (listing, _) = everything(&index, &medium);
    let state = |id| {
        let mut all = listing.sessions.iter();
        all.find(|summary| summary.header.id.as_str() == id).map(|it| &it.state).unwrap()
    };
    assert!(matches!(state("s-0"), SessionState::Live(lease) if lease.pid == 7));
    assert_eq!(*state("s-1"), SessionState::InTurn);
    assert_eq!(*state("s-2"), SessionState::Idle);
    assert_eq!(*state("s-3"), SessionState::Idle);
    assert_eq!(medium.asked(), 2);
}

#[test]
fn an_id_is_found_by_a_beginning_that_only_it_has() {
    let medium = Pretended::default();
    for id in ["0193-aaaa", "0193-aabb", "0193-aabb-c", "0194-FFFF"] {
        medium.create(id);
    }
    let found = |begins: &str| find(&medium, begins).map(|id| id.as_str().to_owned());
    assert_eq!(found("0193-aaa").unwrap(), "0193-aaaa");
    assert_eq!(found("0193-AAA").unwrap(), "0193-aaaa");
    assert_eq!(found("0194-f").unwrap(), "0194-FFFF");
    assert_eq!(found("0193-aabb").unwrap(), "0193-aabb");
    assert_eq!(found("0193-AABB").unwrap(), "0193-aabb");
    assert_eq!(found("0193-aabb-").unwrap(), "0193-aabb-c");
    let several = found("0193").unwrap_err();
    assert!(matches!(several, StoreError::Ambiguous { ids, .. } if ids.len() == 3));
    assert!(matches!(found("0195").unwrap_err(), StoreError::NotFound { .. }));
    assert!(matches!(found("../x").unwrap_err(), StoreError::InvalidId { .. }));
    assert!(matches!(found("").unwrap_err(), StoreError::InvalidId { .. }));
    for n in 0..100 {
        medium.create(&format!("5-{n}"));
    }
    let several = found("5-").unwrap_err();
    assert!(matches!(several, StoreError::Ambiguous { ids, .. } if ids.len() == 8));
}

#[test]
fn many_sessions_are_read_with_progress() {
    let (index, medium) = (Index::new(None), Pretended::with(1000));
    let told = std::sync::Mutex::new(Vec::new());
    let progress = |done, total| told.lock().unwrap().push((done, total));
    let filter = ListFilter::default();
    index.list(&medium, &filter, &|id| medium.summarise(id), &progress).unwrap();
    let mut told = told.into_inner().unwrap();
    told.sort_unstable();
    assert_eq!(told, (1..=1000).map(|done| (done, 1000)).collect::<Vec<_>>());
}
