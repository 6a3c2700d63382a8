//! Out and in again.

use std::sync::Mutex;

use super::*;
use crate::medium::Inherit;

/// A line that a later version wrote, with a field that this one does not know.
fn foreign(seq: u64) -> Vec<u8> {
    let mut line = line(seq);
    line.truncate(line.len() - b",\"sum\":\"01234567\"}\n".len());
    line.extend(b",\"later\":[1,2]");
    let sum = crc32c::crc32c(&line);
    line.extend(format!(",\"sum\":\"{sum:08x}\"}}\n").into_bytes());
    line
}

/// A session with several segments, holes, foreign lines, blobs, a page, and relatives.
fn family(medium: &dyn Medium) -> (Vec<u8>, String) {
    let segments = [lines(0..40), [lines(43..50), foreign(50)].concat(), lines([51, 60])];
    create(medium, &header("top", None, None), &segments);
    let blob = put_blob(medium, "top", b"an image");
    put_blob(medium, "top", b"");
    for (name, parent, origin) in [
        ("child", "top", Some("subagent")),
        ("grandchild", "child", Some("subagent")),
        ("fork", "top", None),
        ("of-fork", "fork", Some("subagent")),
        ("stranger", "elsewhere", Some("subagent")),
    ] {
        create(medium, &header(name, Some((parent, 5)), origin), &[lines(0..9)]);
        put_blob(medium, name, name.as_bytes());
    }
    (segments.concat(), blob)
}

fn names(ids: &[SessionId]) -> Vec<&str> {
    ids.iter().map(SessionId::as_str).collect()
}

#[test]
fn what_goes_out_comes_in_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (nowhere(), nowhere());
    let (log, blob) = family(&*from);
    let file = folder.path().join("top.zip");
    let mut wanted = order("top", file.clone());
    wanted.pages = vec![(id("top"), "# Top\n".to_owned()), (id("child"), "# Child\n".to_owned())];
    let exported = export_to(&from, &wanted, &silent()).unwrap();
    assert_eq!(names(&exported.sessions), ["top", "child", "grandchild"]);
    assert_eq!(exported.bytes, std::fs::metadata(&file).unwrap().len());

    let entries = unpacked(&file);
    assert_eq!(entries["session.jsonl"], log);
    assert_eq!(entries["session.md"], b"# Top\n");
    assert_eq!(entries["children/child/session.md"], b"# Child\n");
    assert_eq!(entries[&format!("blobs/{blob}")], b"an image");
    assert_eq!(entries.len(), 4 + 2 + 4 + 3);

    let imported = import_from(&to, &file, false, &LIMITS).unwrap();
    assert_eq!(names(&imported.sessions), ["top", "child", "grandchild"]);
    assert!(imported.already.is_empty());
    for session in ["top", "child", "grandchild"].map(id) {
        assert_eq!(content(&*to, &session), content(&*from, &session));
        assert_eq!(stored_header(&*to, &session), stored_header(&*from, &session));
        let blobs = to.blobs(&session).unwrap();
        assert_eq!(blobs, from.blobs(&session).unwrap());
        for (name, _) in blobs {
            let bytes = |medium: &dyn Medium| medium.blob(&session, &name, 1000).unwrap();
            assert_eq!(bytes(&*to), bytes(&*from));
        }
    }
    assert!(to.segments(&id("top")).unwrap().len() > 2, "a log is kept in segments");
    assert!(to.take(&id("top")).is_ok(), "nobody holds what was imported");

    let again = import_from(&to, &file, false, &LIMITS).unwrap();
    assert!(again.sessions.is_empty());
    assert_eq!(names(&again.already), ["top", "child", "grandchild"]);
}

#[test]
fn forks_come_along_when_they_are_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let from = nowhere();
    family(&*from);
    let mut wanted = order("top", folder.path().join("all.zip"));
    wanted.forks = true;
    let exported = export_to(&from, &wanted, &silent()).unwrap();
    assert_eq!(names(&exported.sessions), ["top", "child", "fork", "grandchild", "of-fork"]);
}

#[test]
fn a_fork_brings_what_it_shares_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (nowhere(), nowhere());
    create(&*from, &header("top", None, None), &[lines(0..10), lines(10..30), lines(30..31)]);
    let mut fork = header("fork", Some(("top", 14)), None);
    fork.parent.as_mut().unwrap().segments = vec![9, 14];
    let text = serde_json::to_vec(&fork).unwrap();
    let inherit = Inherit { parent: &id("top"), segments: vec![0, 1], blobs: Vec::new() };
    drop(
        from.create(NewSession {
            id: &fork.id,
            header: &text,
            inherit: Some(inherit),
            sealed: Vec::new(),
            lines: &lines(15..18),
            snapshot: None,
        })
        .unwrap(),
    );
    let file = folder.path().join("fork.zip");
    export_to(&from, &order("fork", file.clone()), &silent()).unwrap();
    assert_eq!(unpacked(&file)["session.jsonl"], lines(0..18));
    import_from(&to, &file, false, &LIMITS).unwrap();
    assert_eq!(content(&*to, &id("fork")), lines(0..18));
    let parent = stored_header(&*to, &id("fork")).parent.unwrap();
    assert_eq!((parent.session, parent.segments), (id("top"), Vec::new()));
    // The fork that it came from shares its bytes in another way, and is the same.
    let again = import_from(&from, &file, false, &LIMITS).unwrap();
    assert_eq!(names(&again.already), ["fork"]);
}

#[test]
fn a_session_of_the_first_format_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (nowhere(), nowhere());
    let first = Header { format: 1, ..header("old", None, None) };
    create(&*from, &first, &[lines(0..500)]);
    let file = folder.path().join("old.zip");
    export_to(&from, &order("old", file.clone()), &silent()).unwrap();
    import_from(&to, &file, false, &LIMITS).unwrap();
    assert_eq!(content(&*to, &id("old")), lines(0..500));
    // It may be compressed now, which the first format did not know.
    assert_eq!(stored_header(&*to, &id("old")).format, FORMAT);
    assert_eq!(import_from(&from, &file, false, &LIMITS).unwrap().already, [id("old")]);
}

#[test]
fn another_session_of_that_id_is_left_alone_and_both_can_be_had() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (nowhere(), nowhere());
    family(&*from);
    create(&*to, &header("child", Some(("top", 5)), Some("subagent")), &[lines(0..8)]);
    let file = folder.path().join("top.zip");
    export_to(&from, &order("top", file.clone()), &silent()).unwrap();
    let error = import_from(&to, &file, false, &LIMITS).unwrap_err();
    assert!(error.to_string().contains("--as-new"), "{error}");
    assert!(matches!(error, StoreError::OtherContent { id } if id.as_str() == "child"));
    assert_eq!(to.ids().unwrap().sessions, [id("child")], "nothing was taken over");

    let new = import_from(&to, &file, true, &LIMITS).unwrap().sessions;
    let headers: Vec<Header> = new.iter().map(|id| stored_header(&*to, id)).collect();
    assert!(new.iter().all(|id| !["top", "child", "grandchild"].contains(&id.as_str())));
    assert_eq!(headers[0].parent, None);
    assert_eq!(headers[1].parent.as_ref().unwrap().session, new[0]);
    assert_eq!(headers[2].parent.as_ref().unwrap().session, new[1]);
    assert_eq!(headers[2].origin.as_deref(), Some("subagent"));
    assert_eq!(content(&*to, &new[2]), lines(0..9));
    let next = import_from(&to, &file, true, &LIMITS).unwrap().sessions;
    assert!(next.iter().all(|id| !new.contains(id)));
}

#[test]
fn blobs_that_an_import_did_not_come_to_are_brought_by_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (nowhere(), nowhere());
    let (log, blob) = family(&*from);
    create(&*to, &header("top", None, None), &[log]);
    let file = folder.path().join("top.zip");
    export_to(&from, &order("top", file.clone()), &silent()).unwrap();
    let imported = import_from(&to, &file, false, &LIMITS).unwrap();
    assert_eq!(names(&imported.already), ["top"]);
    assert_eq!(to.blob(&id("top"), &blob, 100).unwrap().unwrap(), b"an image");
}

#[test]
fn what_was_taken_over_before_an_error_is_said_and_nothing_half_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (from, home) = (nowhere(), tempfile::tempdir().unwrap());
    family(&*from);
    let file = folder.path().join("top.zip");
    export_to(&from, &order("top", file.clone()), &silent()).unwrap();
    let wait = std::time::Duration::from_secs(1);
    let to: Arc<dyn Medium> = Arc::new(SqliteMedium::in_file(home.path(), "s.sqlite", wait));
    create(&*to, &header("first", None, None), &[lines(0..1)]);
    let refuse = |what: &str| {
        let sql = format!("{what} BEGIN SELECT RAISE(FAIL, 'refused for a test'); END");
        let database = rusqlite::Connection::open(home.path().join("s.sqlite")).unwrap();
        database.execute_batch(&sql).unwrap();
    };
    let here = || {
        let mut ids = to.ids().unwrap().sessions;
        ids.sort();
        ids
    };
    refuse("CREATE TRIGGER b BEFORE INSERT ON blobs");
    let error = import_from(&to, &file, false, &LIMITS).unwrap_err();
    assert!(error.to_string().contains("refused for a test"), "{error}");
    assert_eq!(here(), [id("first")]);

    let database = rusqlite::Connection::open(home.path().join("s.sqlite")).unwrap();
    database.execute_batch("DROP TRIGGER b").unwrap();
    refuse("CREATE TRIGGER s BEFORE INSERT ON sessions WHEN NEW.id = 'grandchild'");
    let error = import_from(&to, &file, false, &LIMITS).unwrap_err();
    assert!(error.to_string().contains("taken over before that: `top`, `child`"), "{error}");
    assert_eq!(here(), [id("child"), id("first"), id("top")]);
    database.execute_batch("DROP TRIGGER s").unwrap();
    let imported = import_from(&to, &file, false, &LIMITS).unwrap();
    assert_eq!(
        (imported.sessions, imported.already),
        (vec![id("grandchild")], vec![id("top"), id("child")])
    );
}

#[test]
fn progress_goes_on_to_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (nowhere(), nowhere());
    create(&*from, &header("top", None, None), &[lines(0..4000), lines(4000..8000)]);
    let told: Arc<Mutex<Vec<(u64, u64)>>> = Arc::default();
    let hears = Arc::clone(&told);
    let progress: Progress = Arc::new(move |done, total| hears.lock().unwrap().push((done, total)));
    let file = folder.path().join("top.zip");
    let ends = |least: usize| {
        let told = std::mem::take(&mut *told.lock().unwrap());
        assert!(told.len() >= least && told.is_sorted(), "{told:?}");
        assert_eq!(told.last().map(|it| it.0), told.last().map(|it| it.1));
    };
    export_to(&from, &order("top", file.clone()), &progress).unwrap();
    ends(2);
    let header = |id: &SessionId| read_header(&source(&to, id), || None);
    import(&to, &ImportOrder { file, as_new: false }, &LIMITS, &header, &progress).unwrap();
    ends(2);
}

#[test]
fn a_file_that_is_there_is_replaced_only_when_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let from = nowhere();
    family(&*from);
    let file = folder.path().join("top.zip");
    put(&file, b"precious");
    let mut wanted = order("top", file.clone());
    let error = export_to(&from, &wanted, &silent()).unwrap_err();
    assert!(matches!(error, StoreError::FileExists { .. }), "{error}");
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    wanted.replace = true;
    export_to(&from, &wanted, &silent()).unwrap();
    assert!(unpacked(&file).contains_key("about.json"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let absent = export_to(&from, &order("absent", folder.path().join("x.zip")), &silent());
    assert!(matches!(absent.unwrap_err(), StoreError::NotFound { .. }));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left");
}
