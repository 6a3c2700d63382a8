//! A session always opens: torn ends are cut, damage before the end is a hole, and the bytes that
//! were there are kept.

mod case;
mod kinds;
mod logs;

use reins_schema::SourceRange;
use reins_store::{DamageKind, Store};

use crate::setup::{
    append, filled, folder, id, inspect, line, log_path, on_disk, open, put, store,
};

/// Names and contents of a session's folder, without the lease.
fn content(home: &std::path::Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder(home)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name != "lease" && path.is_file() {
            files.push((name, std::fs::read(&path).unwrap()));
        }
    }
    files.sort();
    files
}

#[tokio::test]
async fn a_log_cut_at_every_byte_of_its_last_record_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    filled(&store, 3).await;
    let path = log_path(home.path());
    let whole = std::fs::read(&path).unwrap();
    let start = whole.len() - line(2, "event 2").len();
    for length in start..whole.len() {
        put(&path, &whole[..length]);
        let torn = length - start;
        let seen = inspect(&store).await.unwrap();
        assert_eq!(seen.fold.next_seq(), 2);
        assert_eq!(
            seen.damage.first().map(|d| (d.kind, d.offset)),
            (torn > 0).then_some((DamageKind::Torn, start as u64))
        );
        assert_eq!(std::fs::read(&path).unwrap(), &whole[..length], "inspect wrote");

        let session = open(&store).await.unwrap();
        assert_eq!(session.log.next_seq(), 2);
        match session.recovered.first() {
            None => assert_eq!(torn, 0),
            Some(recovered) => {
                assert_eq!(recovered.cut_bytes, torn as u64);
                let kept = std::fs::read(folder(home.path()).join(&recovered.kept_in)).unwrap();
                assert_eq!(kept, &whole[start..length]);
            }
        }
        append(&session, 2..3).await;
        session.log.close().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole, "cut at {length}");
    }
}

#[tokio::test]
async fn every_damaged_end_is_cut() {
    let tails: [&[u8]; 6] = [
        b"\n",
        b"garbage\n",
        &[0; 5000],
        b"half\nlines\nof nothing",
        b"{\"seq\":2,\"time\":0}\n",
        b"\xff\xfe\n\n\n",
    ];
    for tail in tails {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path());
        filled(&store, 2).await;
        let path = log_path(home.path());
        let good = std::fs::read(&path).unwrap();
        put(&path, &[&good, tail].concat());
        assert_eq!(on_disk(&store).await, [0, 1]);
        let session = open(&store).await.unwrap();
        let recovered = session.recovered[0].clone();
        assert_eq!(recovered.cut_bytes, tail.len() as u64);
        assert!(recovered.damage.contains("00000000.log"), "{}", recovered.damage);
        assert_eq!(std::fs::read(folder(home.path()).join(recovered.kept_in)).unwrap(), tail);
        session.log.close().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), good);
        assert_eq!(open(&store).await.unwrap().recovered, []);
    }
}

#[tokio::test]
async fn damage_before_the_end_is_a_hole_and_the_session_goes_on() {
    let lines: Vec<Vec<u8>> = (0..6).map(|seq| line(seq, "text")).collect();
    let mut flipped = lines[3].clone();
    flipped[20] ^= 1;
    let gap = [&lines[..3], &lines[4..]].concat();
    let doubled = [&lines[..4], &lines[3..]].concat();
    let mut broken = lines.clone();
    broken[3] = flipped;
    let mut merged = lines.clone();
    merged[3].pop();
    let lost = |first, last| vec![DamageKind::Hole { first, last }];
    let cases = [
        ("gap", gap, lost(3, 3), &[0, 1, 2, 4, 5][..]),
        ("doubled", doubled, vec![DamageKind::Repeated { seq: 3 }], &[0, 1, 2, 3, 4, 5]),
        ("broken", broken, lost(3, 3), &[0, 1, 2, 4, 5]),
        ("merged", merged, vec![DamageKind::Stray], &[0, 1, 2, 3, 4, 5]),
    ];
    for (name, log, kinds, numbers) in cases {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path());
        filled(&store, 0).await;
        put(&log_path(home.path()), &log.concat());
        let before = content(home.path());
        let seen = inspect(&store).await.unwrap();
        assert_eq!(seen.damage.iter().map(|d| d.kind).collect::<Vec<_>>(), kinds, "{name}");
        let place = &seen.damage[0];
        assert!(place.to_string().contains("00000000.log, line "), "{name}: {place}");
        assert_eq!(seen.fold.next_seq(), 6, "{name}");
        assert_eq!(on_disk(&store).await, numbers, "{name}");
        assert_eq!(content(home.path()), before, "{name}: reading wrote");

        let session = open(&store).await.unwrap();
        assert_eq!(session.recovered.len(), 1, "{name}: {:?}", session.recovered);
        let kept = &session.recovered[0].kept_in;
        if !kept.is_empty() {
            let kept = std::fs::read(folder(home.path()).join(kept)).unwrap();
            assert_eq!(kept, log.concat(), "{name}");
        }
        append(&session, 6..7).await;
        session.log.close().await.unwrap();
        assert_eq!(on_disk(&store).await, [numbers, &[6]].concat(), "{name}");
        // Until somebody logs what was told, the gap in the numbers goes on to be found.
        let is_gap = |d: &reins_store::Damage| matches!(d.kind, DamageKind::Hole { .. });
        let seen = inspect(&store).await.unwrap();
        assert!(seen.damage.iter().all(is_gap), "{name}: {:?}", seen.damage);
    }
}

#[tokio::test]
async fn an_event_that_the_fold_refuses_is_named_and_set_aside() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    filled(&store, 2).await;
    let path = log_path(home.path());
    let mut log = std::fs::read(&path).unwrap();
    let offset = log.len();
    let draft = reins_schema::Payload::from(reins_schema::TurnEnd {
        turn: 9,
        reason: reins_schema::TurnEndReason::Completed,
    });
    let body = draft.draft(Vec::new()).unwrap();
    log.extend(reins_schema::Event { seq: 2, time: 0, body }.encode().unwrap().0);
    put(&path, &log);
    let seen = inspect(&store).await.unwrap();
    assert_eq!(seen.damage[0].kind, DamageKind::Refused { seq: 2 });
    assert_eq!(seen.damage[0].offset, offset as u64);
    let session = open(&store).await.unwrap();
    assert_eq!(session.recovered[0].aside, [SourceRange::One(2)]);
    session.log.close().await.unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), log, "it stays where it is");
}

#[tokio::test]
async fn log_files_follow_each_other() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    filled(&store, 300).await;
    let lines: Vec<u8> = (300..600).flat_map(|seq| line(seq, "second")).collect();
    let second = folder(home.path()).join("00000001.log");
    put(&second, &[&lines[..], b"torn"].concat());
    let session = open(&store).await.unwrap();
    assert_eq!(session.recovered.first().map(|r| r.cut_bytes), Some(4));
    append(&session, 600..601).await;
    session.log.close().await.unwrap();
    assert_eq!(on_disk(&store).await, (0..601).collect::<Vec<u64>>());
    assert_eq!(store.read(&id(), 299, 2).await.unwrap().len(), 2);
}

/// What ends a file that another one follows is no end of the log.
#[tokio::test]
async fn a_torn_or_missing_file_before_another_one_is_a_hole() {
    for is_missing in [false, true] {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path());
        filled(&store, 300).await;
        let lines: Vec<u8> = (300..310).flat_map(|seq| line(seq, "second")).collect();
        put(&folder(home.path()).join("00000001.log"), &lines);
        let first = log_path(home.path());
        let log = std::fs::read(&first).unwrap();
        put(&first, &log[..log.len() - 10]);
        if is_missing {
            std::fs::remove_file(&first).unwrap();
        }
        let session = open(&store).await.unwrap();
        let first = if is_missing { 0 } else { 299 };
        let lost = if is_missing { SourceRange::Range(0, 299) } else { SourceRange::One(299) };
        assert_eq!(session.recovered[0].lost, [lost]);
        assert_eq!(session.fold.next_seq(), 310);
        session.log.close().await.unwrap();
        let there = on_disk(&store).await;
        assert_eq!(there, (0..first).filter(|_| !is_missing).chain(300..310).collect::<Vec<u64>>());
    }
}

#[tokio::test]
async fn a_missing_or_empty_log_is_an_empty_session() {
    let home = tempfile::tempdir().unwrap();
    let store = store(home.path());
    filled(&store, 0).await;
    std::fs::remove_file(log_path(home.path())).unwrap();
    let session = open(&store).await.unwrap();
    append(&session, 0..1).await;
    session.log.close().await.unwrap();
    assert_eq!(on_disk(&store).await, [0]);
}

#[tokio::test]
async fn whatever_the_end_lost_is_kept() {
    let record = |seq| String::from_utf8(line(seq, "lost")).unwrap();
    let lost = |change: &dyn Fn(String) -> String| -> String {
        (2..6).map(|seq| change(record(seq))).collect()
    };
    let without_sum = |record: String| {
        let (before, sum) = record.split_once("\"sum\":").unwrap();
        format!("{}{}", before, sum.split_once(',').map_or("\"x\":0}\n", |(_, after)| after))
    };
    let tails = [
        ("crlf", lost(&|record| record.replace('\n', "\r\n"))),
        ("cr", lost(&|record| record.replace('\n', "\r"))),
        ("joined", lost(&|record| record.trim_end().to_owned())),
        ("prefixed", lost(&|record| format!("x{record}"))),
        ("without sums", lost(&without_sum)),
        ("renamed", lost(&|record| record.replace("{\"seq\"", "{\"number\""))),
        ("a whole one and a torn one", format!("x{}{}", record(2), &record(3)[..30])),
    ];
    for (name, tail) in tails {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path());
        filled(&store, 2).await;
        let path = log_path(home.path());
        let good = std::fs::read(&path).unwrap();
        put(&path, &[&good, tail.as_bytes()].concat());
        let session = open(&store).await.unwrap();
        let kept = &session.recovered[0].kept_in;
        let kept = std::fs::read(folder(home.path()).join(kept)).unwrap();
        assert!(kept.ends_with(tail.as_bytes()), "{name}");
        session.log.close().await.unwrap();
        open(&store).await.unwrap().log.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_first_write_that_was_torn_is_cut_and_the_session_opens() {
    let half = line(0, "x");
    for torn in [b"{\"s".as_slice(), b"{\"seq\":0,\"ti", &half[..half.len() - 3], &[0; 4096]] {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path());
        filled(&store, 0).await;
        put(&log_path(home.path()), torn);
        let opened = open(&store).await.unwrap();
        let kept = opened.recovered[0].kept_in.clone();
        opened.log.close().await.unwrap();
        let kept = log_path(home.path()).parent().unwrap().join(kept);
        assert_eq!(std::fs::read(kept).unwrap(), torn);
    }
}

#[tokio::test]
async fn a_log_without_one_event_is_kept_whole_and_begun_anew() {
    let crlf: Vec<u8> = (0..3).flat_map(|seq| [line(seq, "x"), vec![b'\n']].concat()).collect();
    let crlf = crlf.split(|b| *b == b'\n').filter(|l| !l.is_empty());
    let crlf: Vec<u8> = crlf.flat_map(|l| [l, b"\r\n"].concat()).collect();
    let logs: [(&str, &[u8]); 4] = [
        ("crlf", &crlf),
        ("one line", b"garbage\n"),
        ("line feeds", b"\n\n"),
        ("words", b"half\nlines\nof nothing"),
    ];
    for (name, log) in logs {
        let home = tempfile::tempdir().unwrap();
        let store = store(home.path());
        filled(&store, 0).await;
        put(&log_path(home.path()), log);
        let seen = inspect(&store).await.unwrap();
        assert_eq!(std::fs::read(log_path(home.path())).unwrap(), log, "{name}: reading wrote");
        assert!(!seen.damage.is_empty(), "{name}");
        let session = open(&store).await.unwrap();
        let kept = &session.recovered[0].kept_in;
        assert!(kept.starts_with("original-"), "{name}: {kept}");
        assert_eq!(std::fs::read(folder(home.path()).join(kept)).unwrap(), log, "{name}");
        let next = session.fold.next_seq();
        append(&session, next..next + 1).await;
        session.log.close().await.unwrap();
        assert_eq!(on_disk(&store).await.last(), Some(&next), "{name}");
    }
}

/// Half of fifty sessions are damaged, each in another way; none hides another, or takes long.
#[tokio::test]
async fn the_others_are_listed_at_once() {
    let home = logs::home();
    let made = &logs::all().await[..50];
    let mut rng = logs::Rng::new(1);
    for (at, made) in made.iter().enumerate() {
        let folder = logs::folder(home.path(), &made.id);
        std::fs::create_dir_all(&folder).unwrap();
        let last = made.files.keys().rfind(|name| logs::segment(name).is_some()).unwrap();
        for (name, bytes) in &made.files {
            let mut bytes = bytes.clone();
            let place = rng.below(bytes.len().max(1));
            match at % 10 {
                1 if name == last => bytes.clear(),
                2 if name == last => bytes.iter_mut().for_each(|byte| *byte ^= 0xA5),
                3 if name == last && !bytes.is_empty() => bytes[place] ^= 1,
                4 => bytes.truncate(place),
                5 if name == "header.json" => bytes = b"garbage".to_vec(),
                _ => {}
            }
            put(&folder.join(name), &bytes);
        }
    }
    let store = store(home.path());
    for _ in 0..2 {
        let started = std::time::Instant::now();
        let wanted = reins_store::ListFilter { archived: true, ..Default::default() };
        let listing = store.list(wanted).await.unwrap();
        assert!(started.elapsed() < std::time::Duration::from_secs(1), "{:?}", started.elapsed());
        assert_eq!(listing.damaged, []);
        assert_eq!(listing.sessions.len(), 50);
        for (at, made) in made.iter().enumerate() {
            let listed = listing.sessions.iter().find(|listed| listed.header.id == made.id);
            let problem = listed.unwrap().problem.as_deref();
            let is_empty = made.files.keys().rfind(|name| logs::segment(name).is_some());
            let is_empty = is_empty.is_some_and(|last| made.files[last].is_empty());
            if at % 10 == 5 || (at % 10 == 2 && !is_empty) {
                assert!(problem.is_some(), "{}", made.seed);
            } else if at % 10 > 5 || at % 10 == 0 {
                assert_eq!(problem, None, "{}", made.seed);
            }
        }
    }
}
