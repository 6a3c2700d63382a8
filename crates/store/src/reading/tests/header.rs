//! Headers that are right, and what stands in for others.

use super::super::{StoredHeader, mend_header, read_header};
use super::*;
use crate::{DamageKind, StoreError};

fn put(medium: &Memory, bytes: &[u8]) {
    *medium.header.lock().unwrap() = Some(bytes.to_vec());
}

#[test]
fn a_right_header_is_read_and_a_newer_one_refused() {
    let medium = log(&[]);
    put(&medium, &serde_json::to_vec(&header()).unwrap());
    let stored = read_header(&source(&medium), || panic!("not needed")).unwrap();
    assert_eq!((stored.header, stored.damage), (header(), None));
    put(&medium, b"{\"format\":99,\"id\":7}");
    let error = read_header(&source(&medium), || Some(header())).unwrap_err();
    assert!(matches!(error, StoreError::NewerFormat { found: 99, .. }), "{error}");
}

#[test]
fn a_copied_header_stands_in() {
    let other = SessionId::new("0198c0de-0000-7000-8000-00000000ffff");
    for bytes in [&b""[..], b"{", b"\0\0\0\0", b"{\"format\":0}", b"{\"format\":2}"] {
        let medium = log(&[]);
        put(&medium, bytes);
        let stored: StoredHeader = read_header(&source(&medium), || Some(header())).unwrap();
        assert_eq!(stored.header, header());
        assert_eq!(stored.damage.as_ref().unwrap().kind, DamageKind::Header);
        let told = mend_header(&stored, &mut medium.hold()).unwrap().unwrap();
        assert_eq!(told.kept_in.is_empty(), bytes.is_empty());
        assert_eq!(medium.kept.lock().unwrap()["original-header.json"], bytes);
        let again = read_header(&source(&medium), || None).unwrap();
        assert_eq!((again.header, again.damage), (header(), None));
    }
    // That of another session says everything but the id.
    let medium = log(&[]);
    put(&medium, &serde_json::to_vec(&Header { id: other.clone(), ..header() }).unwrap());
    let stored = read_header(&source(&medium), || None).unwrap();
    assert_eq!(stored.header, header());
    assert!(stored.damage.unwrap().problem.contains(other.as_str()));
}

#[test]
fn the_log_says_what_it_can() {
    let moved = line(1, "session/moved", r#"{"from":"/a","to":"/b"}"#);
    let medium = log(&[&[note(0, "a"), moved].concat()]);
    let stored = read_header(&source(&medium), || None).unwrap();
    assert_eq!(stored.header.created_at, 1000);
    assert_eq!(stored.header.cwd.to_str(), Some("/b"));
    assert_eq!(stored.header.parent, None);
    let stored = read_header(&source(&log(&[])), || None).unwrap();
    assert_eq!(stored.header.cwd.to_str(), Some(""));
}

#[test]
fn the_log_of_a_fork_says_what_it_shares() {
    let seed = |seq| line(seq, "session/end-seed", "{}");
    let moved = line(4, "session/moved", r#"{"from":"/a","to":"/parent"}"#);
    let medium = log(&[
        &notes(0..3, "a"),
        &[note(3, "a"), moved, note(5, "a")].concat(),
        &[seed(4), note(5, "child"), note(6, "child")].concat(),
        &[seed(6), note(7, "grandchild")].concat(),
    ]);
    let stored = read_header(&source(&medium), || None).unwrap();
    let parent = stored.header.parent.unwrap();
    assert_eq!(parent.segments, [3, 3, 5]);
    assert_eq!(parent.at.seq, 5);
    assert_eq!(stored.header.cwd.to_str(), Some(""));
    assert_eq!(stored.header.created_at, 1006);
    let source = Source { bounds: parent.segments, ..source(&medium) };
    let folded = fold(&source);
    assert!(folded.plan.is_empty() && folded.damage.is_empty(), "{:?}", folded.damage);
    assert_eq!(folded.fold.next_seq(), 8);
}
