//! What is damaged is left out and named; what cannot be written leaves nothing.

use rustix::mount::{MountFlags, UnmountFlags};

use super::*;
use crate::export::About;

#[test]
fn what_is_damaged_is_left_out_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (nowhere(), nowhere());
    let mut flipped = line(3);
    flipped[30] ^= 1;
    let first = [lines(0..3), flipped, b"\0\0\0\n".to_vec(), lines(4..9)].concat();
    let last = [lines([9, 10, 8, 9, 11]), line(12)[..50].to_vec()].concat();
    create(&*from, &header("top", None, None), &[first, last]);
    let good = put_blob(&*from, "top", b"good");
    let bad = hex(&Sha256::digest(b"bad"));
    from.put_blob(&id("top"), &bad, b"bed").unwrap();
    let file = folder.path().join("top.zip");
    export_to(&from, &order("top", file.clone()), &silent()).unwrap();
    let entries = unpacked(&file);
    let kept = lines([0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(entries["session.jsonl"], kept);
    let about: About = serde_json::from_slice(&entries["about.json"]).unwrap();
    let told = &about.sessions[0];
    assert_eq!((told.events, told.blobs), (11, 1));
    let places: Vec<&str> = told.left_out.iter().map(|it| it.place.as_str()).collect();
    let begin = lines(0..3).len();
    let doubled = lines([9, 10]).len();
    let torn = lines([9, 10, 8, 9, 11]).len();
    let second = doubled + line(8).len();
    let expected = [
        format!("segment 0, byte {begin}"),
        format!("segment 1, byte {doubled}"),
        format!("segment 1, byte {second}"),
        format!("segment 1, byte {torn}"),
        format!("blob {bad}"),
    ];
    assert_eq!(places, expected);
    assert!(told.left_out[0].problem.contains("checksum"), "{}", told.left_out[0].problem);
    import_from(&to, &file, false, &LIMITS).unwrap();
    assert_eq!(content(&*to, &id("top")), kept);
    assert_eq!(to.blobs(&id("top")).unwrap(), [(good, 4)]);
}

#[test]
fn a_line_that_is_being_written_is_no_damage() {
    let folder = tempfile::tempdir().unwrap();
    let from = nowhere();
    let half = &line(3)[..40];
    create(&*from, &header("top", None, None), &[[&lines(0..3), half].concat()]);
    let held = from.take(&id("top")).unwrap();
    let file = folder.path().join("top.zip");
    export_to(&from, &order("top", file.clone()), &silent()).unwrap();
    drop(held);
    let entries = unpacked(&file);
    assert_eq!(entries["session.jsonl"], lines(0..3));
    let about: About = serde_json::from_slice(&entries["about.json"]).unwrap();
    assert!(about.sessions[0].left_out.is_empty());
}

struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        rustix::mount::unmount(self.0, UnmountFlags::DETACH).unwrap();
    }
}

#[test]
fn a_full_disk_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mounted =
        rustix::mount::mount("none", folder.path(), "tmpfs", MountFlags::empty(), c"size=2m");
    if mounted.is_err() {
        reins_testkit::needs_condition("root", false).unwrap();
        return;
    }
    let _mounted = Mounted(folder.path());
    let from = nowhere();
    create(&*from, &header("top", None, None), &[lines(0..10)]);
    let mut seed = 7_u64;
    for _ in 0..6 {
        let noise = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 56) as u8
        });
        put_blob(&*from, "top", &noise.take(500_000).collect::<Vec<u8>>());
    }
    let file = folder.path().join("top.zip");
    let error = export_to(&from, &order("top", file), &silent()).unwrap_err();
    assert!(matches!(&error, StoreError::Full { path } if path.ends_with("top.zip")), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    // And an import says so before it begins.
    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("top.zip");
    export_to(&from, &order("top", file.clone()), &silent()).unwrap();
    let wait = std::time::Duration::from_secs(1);
    let to: Arc<dyn Medium> = Arc::new(SqliteMedium::in_file(folder.path(), "s.sqlite", wait));
    let error = import_from(&to, &file, false, &LIMITS).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
