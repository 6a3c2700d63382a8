//! Folders of sessions on a real file system.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::SystemTime;

use super::super::disk::RealDisk;
use super::*;

fn id(text: &str) -> SessionId {
    SessionId::new(text)
}

fn home() -> (tempfile::TempDir, JsonlMedium) {
    with_disk(Arc::new(RealDisk))
}

fn with_disk(disk: Arc<dyn Disk>) -> (tempfile::TempDir, JsonlMedium) {
    let home = tempfile::tempdir().unwrap();
    let medium = JsonlMedium::new(home.path(), disk);
    (home, medium)
}

fn plain<'a>(id: &'a SessionId, lines: &'a [u8]) -> NewSession<'a> {
    let (sealed, inherit, snapshot) = (Vec::new(), None, None);
    NewSession { id, header: b"{}\n", inherit, sealed, lines, snapshot }
}

fn child<'a>(id: &'a SessionId, inherit: Inherit<'a>) -> NewSession<'a> {
    NewSession { inherit: Some(inherit), ..plain(id, b"child\n") }
}

fn content(medium: &JsonlMedium, id: &SessionId, number: u32) -> Vec<u8> {
    read(&mut *medium.segment(id, number).unwrap())
}

fn read(segment: &mut dyn Segment) -> Vec<u8> {
    let mut all = Vec::new();
    let mut buffer = [0; 1000];
    loop {
        let read = segment.read_at(all.len() as u64, &mut buffer).unwrap();
        if read == 0 {
            assert_eq!(all.len() as u64, segment.length());
            return all;
        }
        all.extend_from_slice(&buffer[..read]);
    }
}

fn forms(medium: &JsonlMedium, id: &SessionId) -> Vec<(u32, bool)> {
    medium.segments(id).unwrap().iter().map(|info| (info.number, info.is_sealed)).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn put(path: &Path, bytes: &[u8]) {
    File::create(path).unwrap().write_all(bytes).unwrap();
}

fn blob_name(digit: char) -> String {
    digit.to_string().repeat(64)
}

fn lines(count: usize) -> Vec<u8> {
    (0..count).flat_map(|n| format!("line {n} {}\n", n * 7919 % 1000).into_bytes()).collect()
}

#[test]
fn a_new_session_is_complete_and_its_owners_only() {
    let (home, medium) = home();
    let one = id("one");
    let new = NewSession {
        sealed: vec![(0, Box::new(&b"a\n"[..])), (1, Box::new(&b"b\n"[..]))],
        snapshot: Some(b"snapshot"),
        ..plain(&one, b"first\n")
    };
    let held = medium.create(new).unwrap();
    assert_eq!(held.id(), &one);
    assert_eq!(medium.header(&one).unwrap().unwrap(), b"{}\n");
    assert_eq!(forms(&medium, &one), [(0, true), (1, true), (2, false)]);
    assert_eq!(content(&medium, &one, 1), b"b\n");
    assert_eq!(content(&medium, &one, 2), b"first\n");
    assert_eq!(medium.snapshot(&one).unwrap(), b"snapshot");
    assert_eq!(medium.holder(&one).unwrap().pid, std::process::id());
    let folder = home.path().join("sessions/one");
    assert_eq!(medium.path(&one), folder);
    for name in names(&folder) {
        let mode = fs::metadata(folder.join(&name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let again = medium.create(plain(&one, b"")).unwrap_err();
    assert!(matches!(again, StoreError::AlreadyExists { .. }), "{again}");
    assert!(matches!(medium.take(&one), Err(StoreError::Busy { .. })));
    drop(held);
    assert_eq!(medium.holder(&one), None);
    medium.take(&one).unwrap();
    assert_eq!(names(&home.path().join("sessions")), ["one"]);
}

#[test]
fn the_active_segment_takes_lines_and_gives_way_to_the_next() {
    let (_home, medium) = home();
    let one = id("one");
    let mut held = medium.create(plain(&one, b"first\n")).unwrap();
    let error = held.active(0, 5).unwrap_err();
    assert!(error.to_string().contains("has 6 bytes instead of 5"), "{error}");
    let mut active = held.active(0, 6).unwrap();
    active.append(b"second\n").unwrap();
    active.sync().unwrap();
    assert_eq!((active.length(), content(&medium, &one, 0)), (13, b"first\nsecond\n".to_vec()));
    let before = medium.stamp(&one, 0).unwrap();
    active.append(b"third\n").unwrap();
    assert_ne!(medium.stamp(&one, 0).unwrap(), before);
    let mut next = held.begin_segment(1).unwrap();
    assert_eq!(medium.stamp(&one, 0), None, "another segment is active");
    next.append(b"x\n").unwrap();
    assert_eq!(medium.stamp(&one, 1).unwrap().bytes, 2);
    assert!(held.begin_segment(1).is_err());
    held.sealer().seal(1).unwrap();
    let error = held.active(1, 2).unwrap_err();
    assert!(error.to_string().contains("sealed"), "{error}");
    assert!(held.begin_segment(1).is_err());
}

#[test]
fn a_sealed_segment_has_the_same_content_once() {
    let (home, medium) = home();
    let one = id("one");
    let text = lines(60_000);
    let mut held = medium.create(plain(&one, &text)).unwrap();
    held.begin_segment(1).unwrap();
    let folder = home.path().join("sessions/one");
    let (log, sealed) = (folder.join("00000000.log"), folder.join("00000000.log.zst"));
    let date = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_600_000_000);
    File::options().write(true).open(&log).unwrap().set_modified(date).unwrap();
    let mut reader = medium.segment(&one, 0).unwrap();
    held.sealer().seal(0).unwrap();
    assert!(read(&mut *reader) == text, "a reader that has it open goes on");
    assert_eq!(forms(&medium, &one), [(0, true), (1, false)]);
    assert!(content(&medium, &one, 0) == text);
    assert!(fs::metadata(&sealed).unwrap().len() < text.len() as u64 / 3);
    assert_eq!(fs::metadata(&sealed).unwrap().modified().unwrap(), date, "it was not changed");
    assert!(!log.exists());
    held.sealer().seal(0).unwrap();
    // As after a kill between the rename and the removal of the plain one.
    put(&log, &text);
    put(&folder.join(".00000000.log.zst.77-3.tmp"), b"half");
    assert_eq!(forms(&medium, &one), [(0, true), (1, false)]);
    assert!(content(&medium, &one, 0) == text);
    held.active(1, 0).unwrap();
    assert_eq!(names(&folder), ["00000000.log.zst", "00000001.log", "header.json", "lease"]);
    // The last one of an archived session.
    held.sealer().seal(1).unwrap();
    assert!(medium.stamp(&one, 1).is_some());
    assert_eq!(content(&medium, &one, 1), b"");
}

#[test]
fn plain_and_sealed_lines_are_landed_on() {
    let (_home, medium) = home();
    let one = id("one");
    let text = lines(60_000);
    let held = medium.create(plain(&one, &text)).unwrap();
    for is_sealed in [false, true] {
        let segment = medium.segment(&one, 0).unwrap();
        for offset in (0..text.len()).step_by(50_021).chain([text.len()]) {
            let landing = usize::try_from(segment.landing(offset as u64)).unwrap();
            assert!(landing <= offset && (landing == 0 || text[landing - 1] == b'\n'));
            assert!(is_sealed || offset - landing < 30, "{landing} for {offset}");
        }
        if !is_sealed {
            held.sealer().seal(0).unwrap();
        }
    }
}

#[test]
fn what_is_cut_or_replaced_is_kept_and_never_twice() {
    let (home, medium) = home();
    let one = id("one");
    let mut held = medium.create(plain(&one, b"good\ntorn")).unwrap();
    let folder = home.path().join("sessions/one");
    let kept = |name: &str| fs::read(folder.join(name)).unwrap();
    assert_eq!(held.cut(0, 5, "torn-1-5.bytes").unwrap(), "torn-1-5.bytes");
    assert_eq!(
        (kept("torn-1-5.bytes"), content(&medium, &one, 0)),
        (b"torn".to_vec(), b"good\n".to_vec())
    );
    // The same again, as when the first attempt was killed before it cut; then another one.
    assert_eq!(held.keep("torn-1-5.bytes", &mut &b"torn"[..]).unwrap(), "torn-1-5.bytes");
    assert_eq!(held.keep("torn-1-5.bytes", &mut &b"other"[..]).unwrap(), "torn-1-5-2.bytes");
    assert_eq!(held.keep("torn-1-5.bytes", &mut &b"other"[..]).unwrap(), "torn-1-5-2.bytes");
    assert_eq!(kept("torn-1-5.bytes"), b"torn");

    let name = held.replace(0, &mut &b"better\n"[..], "original-0-1.log").unwrap();
    assert_eq!((name.as_str(), kept(&name)), ("original-0-1.log", b"good\n".to_vec()));
    assert_eq!(content(&medium, &one, 0), b"better\n");
    held.sealer().seal(0).unwrap();
    let stored = kept("00000000.log.zst");
    let name = held.replace(0, &mut &b"best\n"[..], "original-0-1.log.zst").unwrap();
    assert!(kept(&name) == stored, "as it was stored");
    assert_eq!(
        (forms(&medium, &one), content(&medium, &one, 0)),
        (vec![(0, true)], b"best\n".to_vec())
    );

    assert_eq!(held.put_header(b"{1}", "original-header.json").unwrap(), "original-header.json");
    assert_eq!(held.put_header(b"{2}", "original-header.json").unwrap(), "original-header-2.json");
    assert_eq!(
        (kept("header.json"), kept("original-header-2.json")),
        (b"{2}".to_vec(), b"{1}".to_vec())
    );
    fs::remove_file(folder.join("header.json")).unwrap();
    assert_eq!(medium.header(&one).unwrap(), None);
    fs::create_dir(folder.join("header.json")).unwrap();
    assert_eq!(medium.header(&one).unwrap(), None);
    assert_eq!(held.put_header(b"{3}", "original-header.json").unwrap(), "original-header-3.json");
    assert_eq!(medium.header(&one).unwrap().unwrap(), b"{3}");
    assert!(folder.join("original-header-3.json").is_dir());
}

/// A file system without links, or on another device, or with too many of them.
#[derive(Debug)]
struct NoLinks(rustix::io::Errno);

impl Disk for NoLinks {
    fn link(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(self.0.into())
    }
    fn create_new(&self, path: &Path) -> io::Result<File> {
        RealDisk.create_new(path)
    }
    fn write(&self, file: &File, bytes: &[u8]) -> io::Result<usize> {
        RealDisk.write(file, bytes)
    }
    fn sync_file(&self, file: &File) -> io::Result<()> {
        RealDisk.sync_file(file)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_dir(path)
    }
    fn set_len(&self, file: &File, length: u64) -> io::Result<()> {
        RealDisk.set_len(file, length)
    }
    fn set_modified(&self, file: &File, time: SystemTime) -> io::Result<()> {
        RealDisk.set_modified(file, time)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }
    fn make_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.make_dir(path)
    }
    fn unlink(&self, path: &Path) -> io::Result<()> {
        RealDisk.unlink(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_dir(path)
    }
}

#[test]
fn a_fork_shares_what_is_sealed_and_outlives_its_parent() {
    use rustix::io::Errno;
    let disks: [(Arc<dyn Disk>, bool); 5] = [
        (Arc::new(RealDisk), true),
        (Arc::new(NoLinks(Errno::XDEV)), false),
        (Arc::new(NoLinks(Errno::PERM)), false),
        (Arc::new(NoLinks(Errno::MLINK)), false),
        (Arc::new(NoLinks(Errno::OPNOTSUPP)), false),
    ];
    for (disk, has_links) in disks {
        let (home, medium) = with_disk(disk);
        let (parent, forked) = (id("parent"), id("forked"));
        let mut held = medium.create(plain(&parent, b"old\n")).unwrap();
        held.begin_segment(1).unwrap();
        held.sealer().seal(0).unwrap();
        let (one, lost) = (blob_name('a'), blob_name('b'));
        medium.put_blob(&parent, &one, b"blob").unwrap();
        medium.put_blob(&parent, &one, b"blob").unwrap();
        assert_eq!(medium.blobs(&parent).unwrap(), [(one.clone(), 4)]);
        let inherit =
            Inherit { parent: &parent, segments: vec![0], blobs: vec![one.clone(), lost.clone()] };
        drop(medium.create(child(&forked, inherit)).unwrap());
        let folder = home.path().join("sessions/forked");
        let shared = fs::metadata(folder.join("00000000.log.zst")).unwrap();
        assert_eq!(shared.nlink(), if has_links { 2 } else { 1 });
        held.remove().unwrap();
        assert_eq!(forms(&medium, &forked), [(0, true), (1, false)]);
        assert_eq!(content(&medium, &forked, 0), b"old\n");
        assert_eq!(content(&medium, &forked, 1), b"child\n");
        assert_eq!(medium.blob(&forked, &one, 10).unwrap().unwrap(), b"blob");
        assert_eq!(medium.blob(&forked, &lost, 10).unwrap(), None);
        assert!(medium.blob(&forked, &one, 3).is_err(), "larger than allowed");
        assert_eq!(medium.ids().unwrap().sessions, [forked]);
    }
}

#[test]
fn a_fork_of_what_is_not_there_leaves_nothing() {
    let (home, medium) = home();
    let (parent, forked) = (id("parent"), id("forked"));
    drop(medium.create(plain(&parent, b"")).unwrap());
    let inherit = Inherit { parent: &parent, segments: vec![0], blobs: Vec::new() };
    medium.create(child(&forked, inherit)).unwrap_err();
    assert_eq!(names(&home.path().join("sessions")), ["parent"]);
}

#[test]
fn removing_disturbs_no_reader_and_a_waiting_taker_learns_of_it() {
    let (home, medium) = home();
    let one = id("one");
    let text = lines(2000);
    let held = medium.create(plain(&one, &text)).unwrap();
    medium.put_blob(&one, &blob_name('c'), b"x").unwrap();
    let mut reader = medium.segment(&one, 0).unwrap();
    held.remove().unwrap();
    assert!(read(&mut *reader) == text);
    assert!(matches!(medium.take(&one), Err(StoreError::NotFound { .. })));
    assert!(matches!(medium.segments(&one), Err(StoreError::NotFound { .. })));
    assert_eq!(names(&home.path().join("sessions")), Vec::<String>::new());
    drop(medium.create(plain(&one, b"")).unwrap());
}

#[test]
fn what_killed_processes_left_is_swept_and_strangers_are_named() {
    let (home, medium) = home();
    assert!(medium.ids().unwrap().sessions.is_empty(), "no home yet");
    drop(medium.create(plain(&id("one"), b"")).unwrap());
    let sessions = home.path().join("sessions");
    for name in [".new-two-2000000000", ".old-three-2000000000", ".mine", "no_id"] {
        fs::create_dir_all(sessions.join(name).join("blobs")).unwrap();
    }
    // Of a process with another numbering, which still holds it.
    let elsewhere = sessions.join(".new-four-2000000001");
    fs::create_dir(&elsewhere).unwrap();
    let lease = Lease::take(&elsewhere.join("lease"), &id("four")).unwrap();
    put(&sessions.join("notes"), b"mine");
    let ids = medium.ids().unwrap();
    assert_eq!(ids.sessions, [id("one")]);
    let reasons: Vec<&str> = ids.strangers.iter().map(|(_, reason)| reason.as_str()).collect();
    assert!(reasons[0].contains("not a session id"), "{reasons:?}");
    assert!(reasons[1].contains("a file stands where"), "{reasons:?}");
    assert_eq!(names(&sessions), [".mine", ".new-four-2000000001", "no_id", "notes", "one"]);
    drop(lease);
    medium.ids().unwrap();
    assert!(!elsewhere.exists());
}

#[test]
fn foreign_files_are_left_alone() {
    let (home, medium) = home();
    let one = id("one");
    let mut held = medium.create(plain(&one, b"")).unwrap();
    let folder = home.path().join("sessions/one");
    let foreign =
        ["notes.txt", ".hidden.tmp", "1.log", "00000000.log.bak", "0000000a.log", "x.zst"];
    for name in foreign {
        put(&folder.join(name), b"mine");
    }
    put(&folder.join("snapshot.json"), b"{\"v\":99}");
    held.active(0, 0).unwrap();
    assert_eq!(forms(&medium, &one), [(0, false)]);
    for name in foreign {
        assert_eq!(fs::read(folder.join(name)).unwrap(), b"mine");
    }
    assert_eq!(medium.snapshot(&one).unwrap(), b"{\"v\":99}");
    held.put_snapshot(b"{}").unwrap();
    assert_eq!(medium.snapshot(&one).unwrap(), b"{}");
    held.drop_snapshot().unwrap();
    held.drop_snapshot().unwrap();
    assert_eq!(medium.snapshot(&one), None);
    fs::create_dir(folder.join("snapshot.json")).unwrap();
    assert_eq!(medium.snapshot(&one), None);
    assert!(held.put_snapshot(b"{}").is_err());
}

#[test]
fn a_session_is_archived_and_taken_back() {
    let (_home, medium) = home();
    let one = id("one");
    let mut held = medium.create(plain(&one, b"")).unwrap();
    assert!(!medium.is_archived(&one));
    for archived in [true, true, false, false, true] {
        held.set_archived(archived).unwrap();
        assert_eq!(medium.is_archived(&one), archived);
    }
}

/// What never ends or blocks is never read, and has no content.
#[test]
fn a_fifo_is_no_file() {
    let (home, medium) = home();
    let one = id("one");
    let mut held = medium.create(plain(&one, b"x\n")).unwrap();
    let folder = home.path().join("sessions/one");
    for name in ["header.json", "00000000.log", "snapshot.json"] {
        drop(fs::remove_file(folder.join(name)));
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, folder.join(name), kind, mode, 0).unwrap();
    }
    assert_eq!(medium.header(&one).unwrap(), None);
    let segment = medium.segment(&one, 0).unwrap();
    assert_eq!((segment.length(), segment.flaw()), (0, Some("a FIFO stands where a file belongs")));
    assert_eq!(medium.snapshot(&one), None);
    assert!(held.active(0, 2).is_err());
    assert!(held.cut(0, 0, "kept").is_err());
    assert!(held.sealer().seal(0).is_err());
    assert_eq!(held.put_header(b"{}", "kept").unwrap(), "kept");
    assert_eq!(held.replace(0, &mut &b"y\n"[..], "kept-0").unwrap(), "kept-0");
    assert_eq!(content(&medium, &one, 0), b"y\n");
    assert!(!folder.join("kept-0").metadata().unwrap().is_file());
}

#[test]
fn unsealed_is_a_stream() {
    let (home, medium) = home();
    let held = medium.create(plain(&id("one"), &lines(5000))).unwrap();
    held.sealer().seal(0).unwrap();
    let path = home.path().join("sessions/one/00000000.log.zst");
    let mut all = Vec::new();
    super::segment::Unsealed::open(&path).unwrap().read_to_end(&mut all).unwrap();
    assert!(all == lines(5000));
}

/// A folder may come from elsewhere: what in it leads out of it is neither read nor changed.
#[test]
fn no_link_in_a_session_is_followed() {
    let (home, medium) = home();
    let one = id("one");
    let mut held = medium.create(plain(&one, b"x\n")).unwrap();
    let (folder, mine) = (home.path().join("sessions/one"), home.path().join("mine"));
    put(&mine, b"mine");
    fs::create_dir(home.path().join("theirs")).unwrap();
    std::os::unix::fs::symlink(home.path().join("theirs"), folder.join("blobs")).unwrap();
    for name in ["header.json", "00000000.log", "lease"] {
        fs::remove_file(folder.join(name)).unwrap();
        std::os::unix::fs::symlink(&mine, folder.join(name)).unwrap();
    }
    assert!(held.cut(0, 0, "kept").is_err());
    assert!(held.active(0, 4).is_err());
    drop(held);
    assert!(medium.header(&one).is_err());
    assert!(medium.take(&one).is_err());
    assert!(medium.put_blob(&one, &blob_name('a'), b"blob").is_err());
    assert_eq!(fs::read(&mine).unwrap(), b"mine");
    assert!(names(&home.path().join("theirs")).is_empty());
}

/// Only a sealed copy that was read and compared takes the place of the plain lines.
#[test]
fn a_sealed_name_alone_removes_no_lines() {
    let (home, medium) = home();
    let one = id("one");
    let mut held = medium.create(plain(&one, b"x\n")).unwrap();
    let folder = home.path().join("sessions/one");
    drop(held.begin_segment(1).unwrap());
    put(&folder.join("00000000.log.zst"), b"");
    held.active(1, 0).unwrap();
    assert_eq!(content(&medium, &one, 0), b"x\n");
    assert!(folder.join("original-00000000.log.zst").exists());
}

/// A backup made with links has the same file, and keeps what it had.
#[test]
fn a_linked_copy_is_not_written_to() {
    let (home, medium) = home();
    let one = id("one");
    let mut held = medium.create(plain(&one, b"x\n")).unwrap();
    let (log, copy) = (home.path().join("sessions/one/00000000.log"), home.path().join("copy"));
    fs::hard_link(&log, &copy).unwrap();
    held.active(0, 2).unwrap().append(b"y\n").unwrap();
    assert_eq!(fs::read(&copy).unwrap(), b"x\n");
    assert_eq!(fs::read(&log).unwrap(), b"x\ny\n");
}
