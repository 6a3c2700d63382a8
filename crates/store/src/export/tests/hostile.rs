//! Files that are no exports, damaged ones, and some that mean harm.

use super::*;

/// An export of a session with a blob and a child, by names.
fn good(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let from = nowhere();
    create(&*from, &header("top", None, None), &[lines(0..20)]);
    create(&*from, &header("child", Some(("top", 5)), Some("subagent")), &[lines(0..5)]);
    put_blob(&*from, "top", b"an image");
    let file = folder.join("good.zip");
    export_to(&from, &order("top", file.clone()), &silent()).unwrap();
    unpacked(&file)
}

/// Imports a file into nothing: it has to be refused, and to leave nothing.
fn refused(folder: &Path, name: &str, bytes: &[u8], limits: &Limits) -> String {
    let file = folder.join("bad.zip");
    put(&file, bytes);
    let to = nowhere();
    let error = match import_from(&to, &file, false, limits) {
        Ok(imported) => panic!("{name}: {:?} were taken over", imported.sessions),
        Err(error) => error.to_string(),
    };
    assert!(to.ids().unwrap().sessions.is_empty(), "{name}");
    error
}

type Change = fn(&mut BTreeMap<String, Vec<u8>>);

fn rename(entries: &mut BTreeMap<String, Vec<u8>>, from: &str, to: &str) {
    let bytes = entries.remove(from).unwrap();
    entries.insert(to.to_owned(), bytes);
}

fn replace(entries: &mut BTreeMap<String, Vec<u8>>, name: &str, from: &str, to: &str) {
    let text = String::from_utf8(entries[name].clone()).unwrap();
    assert!(text.contains(from), "{name}");
    entries.insert(name.to_owned(), text.replace(from, to).into_bytes());
}

#[test]
fn what_is_not_as_an_export_is_refused_and_said() {
    let folder = tempfile::tempdir().unwrap();
    let good = good(folder.path());
    let cases: [(&str, Change); 24] = [
        ("no `about.json`", |it| drop(it.remove("about.json"))),
        ("has no `header.json` or `session.jsonl`", |it| drop(it.remove("header.json"))),
        ("has no `header.json` or `session.jsonl`", |it| drop(it.remove("session.jsonl"))),
        ("`../x` is not that of an export", |it| drop(it.insert("../x".into(), vec![]))),
        ("`/etc/x` is not that of", |it| drop(it.insert("/etc/x".into(), vec![]))),
        ("is not that of an export", |it| drop(it.insert("a\\..\\x".into(), vec![]))),
        ("is not that of an export", |it| drop(it.insert("blobs/../../x".into(), vec![]))),
        ("is not that of an export", |it| drop(it.insert("blobs/ABC".into(), vec![]))),
        ("is not that of an export", |it| rename(it, "header.json", "Header.json")),
        ("is not that of an export", |it| {
            rename(it, "children/child/header.json", "children/../header.json");
        }),
        ("is not that of an export", |it| {
            rename(it, "children/child/header.json", "children//header.json");
        }),
        ("is not that of an export", |it| {
            rename(it, "children/child/header.json", "children/child/x/header.json");
        }),
        ("does not name the session at `x`", |it| {
            drop(it.insert("children/x/header.json".into(), vec![]));
        }),
        ("line 1 of session `top`", |it| replace(it, "session.jsonl", "event 0", "event 1")),
        ("event 0 stands after event 19", |it| {
            it.get_mut("session.jsonl").unwrap().extend(line(0));
        }),
        ("has no end", |it| it.get_mut("session.jsonl").unwrap().truncate(500)),
        ("is not what `about.json` says", |it| {
            it.get_mut("session.jsonl").unwrap().extend(line(20));
        }),
        ("does not contain what its name says", |it| {
            let name = it.keys().find(|name| name.starts_with("blobs/")).unwrap().clone();
            it.insert(name, b"another image".to_vec());
        }),
        ("is not what `about.json` says", |it| {
            let name = it.keys().find(|name| name.starts_with("blobs/")).unwrap().clone();
            it.remove(&name);
        }),
        ("is that of session `other`", |it| replace(it, "header.json", "\"top\"", "\"other\"")),
        ("upgrade Reins", |it| replace(it, "header.json", "\"format\": 2", "\"format\": 9")),
        ("newer version", |it| replace(it, "about.json", "\"export\": 1", "\"export\": 2")),
        ("is not JSON", |it| drop(it.insert("about.json".into(), b"{".to_vec()))),
        ("is not JSON", |it| drop(it.insert("children/child/header.json".into(), vec![]))),
    ];
    for (problem, change) in cases {
        let mut entries = good.clone();
        change(&mut entries);
        let told = refused(folder.path(), problem, &packed(&entries), &LIMITS);
        assert!(told.contains(problem), "{problem}: {told}");
        assert!(told.contains("bad.zip"), "{told}");
    }
    // And none of that is because of how the tests write their files; folders are allowed.
    let file = folder.path().join("fine.zip");
    let mut entries = good;
    entries.insert("blobs/".into(), vec![]);
    entries.insert("children/child/".into(), vec![]);
    put(&file, &packed(&entries));
    assert_eq!(import_from(&nowhere(), &file, false, &LIMITS).unwrap().sessions.len(), 2);
}

#[test]
fn links_doubled_names_and_lies_about_sizes_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let good = good(folder.path());
    let mut zip = zip::ZipWriter::new_append(Cursor::new(packed(&good))).unwrap();
    let options = zip::write::SimpleFileOptions::default();
    zip.add_symlink("session.md", "/etc/passwd", options).unwrap();
    let bytes = zip.finish().unwrap().into_inner();
    let told = refused(folder.path(), "a link", &bytes, &LIMITS);
    assert!(told.contains("`session.md` is a link"), "{told}");

    let mut entries = good.clone();
    entries.insert("header.jsoX".to_owned(), entries["header.json"].clone());
    let bytes = replaced(&packed(&entries), b"header.jsoX", b"header.json");
    let told = refused(folder.path(), "twice", &bytes, &LIMITS);
    assert!(told.contains("same name"), "{told}");

    // The size of the log in the list at the end of the file, smaller and larger than it is.
    let bytes = packed(&good);
    let size = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap();
    let length = size(&good["session.jsonl"]);
    for lie in [length - 1, length + 1, size(&line(0)), 0, u32::MAX - 1] {
        let bytes = replaced(&bytes, &length.to_le_bytes(), &lie.to_le_bytes());
        refused(folder.path(), "a lie", &bytes, &LIMITS);
    }
}

fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut bytes = bytes.to_vec();
    let places: Vec<usize> =
        bytes.windows(from.len()).enumerate().filter(|it| it.1 == from).map(|it| it.0).collect();
    assert!(!places.is_empty());
    for place in places {
        bytes[place..place + to.len()].copy_from_slice(to);
    }
    bytes
}

#[test]
fn what_unpacks_to_more_than_is_allowed_is_refused_unread() {
    let folder = tempfile::tempdir().unwrap();
    let mut entries = good(folder.path());
    entries.insert("session.md".to_owned(), vec![b' '; 8 << 20]);
    let bytes = packed(&entries);
    assert!(bytes.len() < 100_000, "it is a bomb");
    let small = Limits { bytes: 1 << 20, ..LIMITS };
    let told = refused(folder.path(), "a bomb", &bytes, &small);
    assert!(told.contains("import_bytes_max"), "{told}");
    let told = refused(folder.path(), "large", &bytes, &Limits { bytes: 10_000, ..LIMITS });
    assert!(told.contains("import_bytes_max"), "{told}");
    entries.remove("session.md");
    let blob = Limits { blob: 7, ..LIMITS };
    let told = refused(folder.path(), "a blob", &packed(&entries), &blob);
    assert!(told.contains("more than 7 bytes"), "{told}");
}

#[test]
fn no_damage_of_the_file_brings_in_anything_else() {
    let folder = tempfile::tempdir().unwrap();
    let good = good(folder.path());
    let whole = packed(&good);
    let file = folder.path().join("bad.zip");
    for cut in (0..whole.len()).step_by(whole.len() / 40 + 1) {
        refused(folder.path(), "cut", &whole[..cut], &LIMITS);
    }
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        put(&file, &bytes);
        let to = nowhere();
        if import_from(&to, &file, false, &LIMITS).is_ok() {
            // The bit was of a time, say.
            assert_eq!(content(&*to, &id("top")), lines(0..20), "byte {at}");
            assert_eq!(content(&*to, &id("child")), lines(0..5), "byte {at}");
            assert_eq!(stored_header(&*to, &id("top")), header("top", None, None), "byte {at}");
            assert_eq!(to.blobs(&id("top")).unwrap().len(), 1, "byte {at}");
        } else {
            assert!(to.ids().unwrap().sessions.is_empty(), "byte {at}");
        }
    }
    for name in ["zeros", "words"] {
        let bytes = if name == "zeros" { vec![0; 10_000] } else { b"no zip ".repeat(1000) };
        let told = refused(folder.path(), name, &bytes, &LIMITS);
        assert!(told.contains("no zip file"), "{told}");
    }
    let told = import_from(&nowhere(), folder.path(), false, &LIMITS).unwrap_err().to_string();
    assert!(told.contains("not a file"), "{told}");
}
