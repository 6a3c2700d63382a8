//! The lock decides, whatever the file says.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::*;

fn id() -> SessionId {
    SessionId::new("0193-aaaa")
}

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("lease")
    }

    fn put(&self, content: &[u8]) {
        put(&self.path(), content);
    }

    fn take(&self) -> Result<Lease, StoreError> {
        Lease::take(&self.path(), &id())
    }
}

fn put(path: &Path, content: &[u8]) {
    File::create(path).unwrap().write_all(content).unwrap();
}

fn info(pid: u32, host: &str, boot: &str) -> Vec<u8> {
    let host = host.to_owned();
    let boot = boot.to_owned();
    let info = LeaseInfo { pid, host, start: 1, socket: None, boot, doing: "reins run".to_owned() };
    serde_json::to_vec(&info).unwrap()
}

fn assert_free(place: &Place, name: &str) {
    assert_eq!(holder(&place.path()), None, "{name}");
    let begun = Instant::now();
    let lease = place.take().unwrap();
    assert!(begun.elapsed() < SETTLE, "{name}: nothing to wait for");
    assert_eq!(holder(&place.path()).unwrap().pid, std::process::id(), "{name}");
    drop(lease);
    assert_eq!(holder(&place.path()), None, "{name}");
}

/// A file that names somebody, in any way, is no lock.
#[test]
fn what_the_file_says_holds_nothing() {
    let host = host_name();
    let own = std::process::id();
    let contents: [(&str, Vec<u8>); 9] = [
        ("another host", info(own, "elsewhere", "")),
        ("another boot", info(own, &host, "11111111-2222-3333-4444-555555555555")),
        ("a dead process", info(2_000_000_000, &host, &boot_id())),
        // It lives, and took no lease: the number was given again.
        ("a number that another process has now", info(1, &host, &boot_id())),
        ("this process, before", info(own, &host, &boot_id())),
        ("the content of earlier versions", br#"{"pid":1,"host":"h","start":1}"#.to_vec()),
        ("garbage", vec![0xFF; 300]),
        ("too much", vec![b' '; 100 << 10]),
        ("nothing", Vec::new()),
    ];
    for (name, content) in contents {
        let place = Place::new();
        place.put(&content);
        assert_free(&place, name);
    }
    assert_free(&Place::new(), "no file");
}

#[test]
fn who_holds_it_is_told_with_what_it_does() {
    let place = Place::new();
    let mut lease = place.take().unwrap();
    let told = holder(&place.path()).unwrap();
    assert_eq!((told.pid, told.host), (std::process::id(), host_name()));
    assert_eq!(told.boot, boot_id());
    assert!(!told.doing.is_empty() && told.start > 1_600_000_000_000);
    lease.announce("reins serve");
    assert_eq!(holder(&place.path()).unwrap().doing, "reins serve");
    let begun = Instant::now();
    let error = place.take().unwrap_err();
    assert!(begun.elapsed() < SETTLE, "a holder that lives is believed at once");
    let StoreError::Busy { holder: Some(info), .. } = error else { panic!("{error}") };
    assert_eq!(info.pid, std::process::id());
}

/// The copy has the content and not the lock.
#[test]
fn a_copied_folder_is_free_while_the_original_is_held() {
    let (place, copy) = (Place::new(), Place::new());
    let held = place.take().unwrap();
    std::fs::copy(place.path(), copy.path()).unwrap();
    assert_free(&copy, "the copy");
    assert!(matches!(place.take(), Err(StoreError::Busy { .. })));
    drop(held);
    assert_free(&place, "the original");
}

#[test]
fn a_holder_is_seen_when_its_file_says_nothing_or_wrong() {
    for content in [Vec::new(), vec![b'x'; 9], info(2_000_000_000, &host_name(), &boot_id())] {
        let place = Place::new();
        let held = place.take().unwrap();
        place.put(&content);
        let told = holder(&place.path()).unwrap();
        assert_eq!((told.pid, told.host.as_str()), (0, ""));
        let error = place.take().unwrap_err();
        assert!(matches!(&error, StoreError::Busy { holder: None, .. }), "{error}");
        assert!(error.to_string().contains("in use by another process"), "{error}");
        assert!(!is_left(&place.path()));
        drop(held);
        assert!(is_left(&place.path()));
    }
    let place = Place::new();
    let _held = place.take().unwrap();
    place.put(&info(7, "elsewhere", "b"));
    assert_eq!(holder(&place.path()).unwrap().host, "elsewhere", "a shared file system");
    let error = place.take().unwrap_err();
    assert!(error.to_string().contains("pid 7 on elsewhere"), "{error}");
}

/// Whoever waits in front of a file that was removed, or moved with its session, does not end up
/// with a lock on nothing.
#[test]
fn a_removed_file_is_no_lease() {
    let place = Place::new();
    let held = place.take().unwrap();
    std::fs::remove_file(place.path()).unwrap();
    let second = place.take().unwrap();
    assert!(matches!(place.take(), Err(StoreError::Busy { .. })));
    drop(held);
    assert!(matches!(place.take(), Err(StoreError::Busy { .. })));
    drop(second);
    place.take().unwrap();
}

#[test]
fn a_file_that_may_only_be_read_is_a_lease() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    place.put(b"");
    let mode = std::fs::Permissions::from_mode(0o400);
    std::fs::set_permissions(place.path(), mode).unwrap();
    let held = place.take().unwrap();
    assert!(holder(&place.path()).is_some());
    assert!(matches!(place.take(), Err(StoreError::Busy { .. })));
    drop(held);
    assert!(place.take().is_ok());
}

#[test]
fn a_folder_in_its_place_is_said() {
    let place = Place::new();
    std::fs::create_dir(place.path()).unwrap();
    let error = place.take().unwrap_err();
    assert!(error.to_string().contains("a folder stands where a file belongs"), "{error}");
    assert_eq!(holder(&place.path()), None);
}

/// Threads stand for processes: the lock belongs to the open file. Two take as fast as they can
/// while two others look: there is never more than one holder, every attempt is answered, and
/// looking makes nobody fail.
#[test]
fn of_two_racing_takers_never_both_hold_it() {
    const ATTEMPTS: u32 = 10_000;
    let place = Place::new();
    let (is_held, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (won, lost, looks) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
    let take = || {
        for _ in 0..ATTEMPTS / 2 {
            match place.take() {
                Ok(lease) => {
                    assert!(!is_held.swap(true, Ordering::SeqCst), "two holders");
                    std::thread::yield_now();
                    is_held.store(false, Ordering::SeqCst);
                    won.fetch_add(1, Ordering::Relaxed);
                    drop(lease);
                }
                Err(StoreError::Busy { .. }) => drop(lost.fetch_add(1, Ordering::Relaxed)),
                Err(error) => panic!("{error}"),
            }
        }
    };
    let look = || {
        while !is_over.load(Ordering::Relaxed) {
            holder(&place.path());
            looks.fetch_add(1, Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| {
        let lookers = [scope.spawn(look), scope.spawn(look)];
        let takers = [scope.spawn(take), scope.spawn(take)];
        let results = takers.map(std::thread::ScopedJoinHandle::join);
        is_over.store(true, Ordering::Relaxed);
        for result in results.into_iter().chain(lookers.map(std::thread::ScopedJoinHandle::join)) {
            result.unwrap();
        }
    });
    let count = |count: AtomicU32| count.into_inner();
    let (won, lost, looks) = (count(won), count(lost), count(looks));
    assert_eq!(won + lost, ATTEMPTS);
    assert!(won >= ATTEMPTS / 10 && looks > 0, "{won} won, {lost} lost, {looks} looks");
}

/// Nobody holds it, somebody looks without end: it is taken.
#[test]
fn looking_never_keeps_a_taker_out() {
    let place = Place::new();
    drop(place.take().unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let look = || {
            while !is_over.load(Ordering::Relaxed) {
                holder(&place.path());
            }
        };
        let lookers = [scope.spawn(look), scope.spawn(look)];
        let taken: Vec<bool> = (0..500).map(|_| place.take().is_ok()).collect();
        is_over.store(true, Ordering::Relaxed);
        for looker in lookers {
            looker.join().unwrap();
        }
        assert!(taken.iter().all(|taken| *taken));
    });
}
