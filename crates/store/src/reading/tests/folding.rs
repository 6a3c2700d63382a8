//! What damage means, and what opening does about it.

use std::sync::Mutex;

use reins_schema::{Position, SessionRecovered, SourceRange};

use super::super::Place;
use super::super::fold::End;
use super::super::plan::Plan;
use super::*;
use crate::DamageKind;

/// Opens: carries the plan out, and logs what was recovered as the core would.
fn open(source: &Source, medium: &Arc<Memory>) -> (Vec<SessionRecovered>, End) {
    let folded = fold(source);
    let (told, end) = folded.plan.carry_out(&mut medium.hold()).unwrap();
    let end = end.unwrap();
    let length = medium.bytes(end.segment).len() as u64;
    assert_eq!(end.length, length, "the end is not where it is said to be");
    let next = folded.fold.next_seq();
    let mut segments = medium.segments.lock().unwrap();
    let last = segments.values_mut().next_back().unwrap();
    for (seq, told) in (next..).zip(&told) {
        last.bytes.extend(line(seq, "session/recovered", &serde_json::to_string(told).unwrap()));
    }
    drop(segments);
    (told, end)
}

/// After opening nothing is damaged any more, and nothing is told again.
fn check_healed(source: &Source) -> Folded {
    let folded = fold(source);
    assert!(folded.plan.is_empty(), "{:?}", folded.plan);
    assert!(folded.damage.is_empty(), "{:?}", folded.damage);
    folded
}

fn kinds(folded: &Folded) -> Vec<DamageKind> {
    folded.damage.iter().map(|damage| damage.kind).collect()
}

fn kept(medium: &Memory, name: &str) -> Vec<u8> {
    medium.kept.lock().unwrap()[name].clone()
}

#[test]
fn a_log_that_is_right_needs_nothing() {
    let bytes = notes(0..9, "a");
    let medium = log(&[&bytes]);
    let told = Arc::new(Mutex::new((0, 0)));
    let heard = Arc::clone(&told);
    let progress: Progress = Arc::new(move |done, total| *heard.lock().unwrap() = (done, total));
    let folded =
        fold_log(&source(&medium), Start::Whole { fold: empty(), reached: None }, &progress)
            .unwrap();
    assert_eq!(*told.lock().unwrap(), (bytes.len() as u64, bytes.len() as u64));
    assert!(folded.plan.is_empty() && folded.damage.is_empty());
    let length = bytes.len() as u64;
    assert_eq!(folded.end, Some(End { segment: 0, length, is_sealed: false }));
    assert_eq!((folded.folded, folded.fold.next_seq()), (9, 9));
    let (last, place) = folded.last.unwrap();
    assert_eq!((last.seq, place.end()), (8, length));
    let nothing = fold(&source(&log(&[])));
    assert_eq!((nothing.end, nothing.last.is_none()), (None, true));
}

#[test]
fn a_torn_end_is_cut_and_kept() {
    let whole = notes(0..3, "a");
    let good = notes(0..2, "a").len();
    for torn in [&whole[good..good + 1], &whole[good..whole.len() - 1], b"\0\0\0", b"junk\nmore\n"]
    {
        let medium = log(&[&[&whole[..good], torn].concat()]);
        let source = source(&medium);
        let folded = fold(&source);
        assert_eq!(kinds(&folded), [DamageKind::Torn]);
        assert_eq!(folded.end.unwrap().length, good as u64);
        let (told, _) = open(&source, &medium);
        assert_eq!((told.len(), told[0].cut_bytes), (1, torn.len() as u64));
        assert_eq!(kept(&medium, &told[0].kept_in), torn);
        assert!(told[0].kept_in.starts_with("torn-") && told[0].lost.is_empty());
        assert_eq!(medium.bytes(0)[..good], whole[..good]);
        check_healed(&source);
    }
}

#[test]
fn an_end_that_is_torn_before_an_empty_or_a_sealed_segment_goes_too() {
    for sealed in [false, true] {
        let medium = log(&[&[&notes(0..2, "a"), &b"torn"[..]].concat(), b""]);
        if sealed {
            medium.segments.lock().unwrap().remove(&1);
            medium.seal(0);
        }
        let source = source(&medium);
        assert_eq!(kinds(&fold(&source)), [DamageKind::Torn]);
        let before = medium.bytes(0);
        let folded = fold(&source);
        let (told, end) = folded.plan.carry_out(&mut medium.hold()).unwrap();
        assert_eq!(end.unwrap().is_sealed, sealed);
        assert_eq!(kept(&medium, &told[0].kept_in), before);
        assert_eq!(told[0].kept_in.ends_with(".zst"), sealed);
        assert_eq!(medium.bytes(0), notes(0..2, "a"));
        check_healed(&source);
    }
}

#[test]
fn a_hole_is_named_and_only_its_bytes_go() {
    let size = note(0, "a").len();
    let whole = notes(0..9, "a");
    let cases: [(&str, std::ops::Range<usize>, u64, u64); 4] = [
        ("the first line", 5..6, 0, 0),
        ("one line", 3 * size + 9..3 * size + 10, 3, 3),
        ("several lines", 3 * size + 9..6 * size + 10, 3, 6),
        ("a line and its feed", 4 * size - 30..4 * size, 3, 3),
    ];
    for (name, range, first, last) in cases {
        let mut bytes = whole.clone();
        bytes[range].fill(0);
        let medium = log(&[&bytes]);
        let source = source(&medium);
        let folded = fold(&source);
        assert_eq!(kinds(&folded), [DamageKind::Hole { first, last }], "{name}");
        let damage = &folded.damage[0];
        assert_eq!(damage.path.to_str(), Some("/memory/00000000.log"));
        assert_eq!((damage.offset, damage.line), (first * size as u64, Some(first + 1)), "{name}");
        assert_eq!(folded.fold.next_seq(), 9);
        let (told, _) = open(&source, &medium);
        let lost: Vec<_> = told[0].lost.iter().map(|range| range.bounds()).collect();
        assert_eq!((told.len(), lost), (1, vec![(first, last)]), "{name}");
        assert_eq!(kept(&medium, &told[0].kept_in), bytes);
        let good = [notes(0..first, "a"), notes(last + 1..9, "a")].concat();
        assert_eq!(medium.bytes(0)[..good.len()], good, "{name}");
        check_healed(&source);
    }
}

#[test]
fn missing_segments_are_told_once_and_nothing_is_written() {
    for (gone, first, last) in [(0_u32, 0, 2), (1, 3, 5)] {
        let medium = log(&[&notes(0..3, "a"), &notes(3..6, "a"), &notes(6..9, "a")]);
        medium.segments.lock().unwrap().remove(&gone);
        let source = source(&medium);
        assert_eq!(kinds(&fold(&source)), [DamageKind::Hole { first, last }]);
        let (told, _) = open(&source, &medium);
        assert_eq!(told[0].lost, [SourceRange::Range(first, last)]);
        assert!(told[0].kept_in.is_empty() && medium.kept.lock().unwrap().is_empty());
        check_healed(&source);
    }
}

#[test]
fn a_hole_over_the_border_of_segments_is_one() {
    let size = note(0, "a").len();
    let mut parts = [notes(0..4, "a"), notes(4..8, "a")];
    parts[0][3 * size + 7] ^= 1;
    parts[1][..2 * size].fill(7);
    let medium = log(&[&parts[0], &parts[1]]);
    let source = source(&medium);
    let hole = DamageKind::Hole { first: 3, last: 5 };
    assert_eq!(kinds(&fold(&source)), [hole, hole]);
    let (told, _) = open(&source, &medium);
    assert_eq!(told[0].lost, [SourceRange::Range(3, 5)]);
    assert!(told[1].lost.is_empty());
    assert_eq!(kept(&medium, &told[0].kept_in), parts[0]);
    assert_eq!(kept(&medium, &told[1].kept_in), parts[1]);
    check_healed(&source);
}

#[test]
fn records_glued_together_get_their_lines_back() {
    let bare = |seq| {
        let mut line = note(seq, "a");
        line.pop();
        line
    };
    let bytes = [bare(0), bare(1), note(2, "a")[..20].to_vec(), note(2, "a"), note(3, "a")];
    let medium = log(&[&bytes.concat()]);
    let source = source(&medium);
    let strays = [DamageKind::Stray, DamageKind::Stray];
    assert_eq!(kinds(&fold(&source)), strays);
    let (told, _) = open(&source, &medium);
    assert_eq!(told.len(), 2);
    let good = notes(0..4, "a");
    assert_eq!(medium.bytes(0)[..good.len()], good);
    check_healed(&source);
}

#[test]
fn a_lost_line_feed_before_a_gap_is_mended_too() {
    let mut glued = notes(0..2, "a");
    glued.pop();
    let medium = log(&[&[glued, note(4, "a")].concat()]);
    let source = source(&medium);
    let hole = DamageKind::Hole { first: 2, last: 3 };
    let kinds = kinds(&fold(&source));
    assert!(kinds.contains(&hole) && kinds.contains(&DamageKind::Stray), "{kinds:?}");
    open(&source, &medium);
    let good = [notes(0..2, "a"), note(4, "a")].concat();
    assert_eq!(medium.bytes(0)[..good.len()], good);
    check_healed(&source);
}

#[test]
fn a_file_of_something_else_is_kept_and_the_log_begins_anew() {
    let bytes: Vec<u8> = (0..50_000_u32).map(|n| (n * n % 251).to_le_bytes()[0]).collect();
    let medium = log(&[&bytes]);
    let source = source(&medium);
    let folded = fold(&source);
    assert_eq!(kinds(&folded), [DamageKind::Torn]);
    assert_eq!(folded.fold.next_seq(), 0);
    let (told, end) = open(&source, &medium);
    assert_eq!(end.length, 0);
    assert!(told[0].kept_in.starts_with("original-"));
    assert_eq!(kept(&medium, &told[0].kept_in), bytes);
    check_healed(&source);
}

#[test]
fn the_same_record_again_is_passed_over() {
    let twice = [notes(0..5, "a"), notes(2..4, "a"), notes(5..7, "a")].concat();
    let medium = log(&[&twice]);
    let source = source(&medium);
    let folded = fold(&source);
    assert_eq!(kinds(&folded), [DamageKind::Repeated { seq: 2 }]);
    assert_eq!(folded.fold.next_seq(), 7);
    let (told, _) = open(&source, &medium);
    assert_eq!(kept(&medium, &told[0].kept_in), twice);
    let good = notes(0..7, "a");
    assert_eq!(medium.bytes(0)[..good.len()], good);
    check_healed(&source);
}

#[test]
fn what_does_not_fit_is_set_aside_and_stays() {
    let bytes = [note(0, "a"), start(1, 7), start(2, 9), start(3, 1), end(4, 1)].concat();
    let medium = log(&[&bytes]);
    let source = source(&medium);
    let folded = fold(&source);
    assert_eq!(kinds(&folded), [DamageKind::Refused { seq: 1 }]);
    assert!(folded.damage[0].problem.contains("turn 7"), "{}", folded.damage[0].problem);
    assert_eq!(folded.fold.last_turn(), 1);
    let (told, _) = open(&source, &medium);
    let aside: Vec<_> = told[0].aside.iter().map(|range| range.bounds()).collect();
    assert_eq!(aside, [(1, 2)]);
    assert_eq!(medium.bytes(0)[..bytes.len()], bytes);
    check_healed(&source);
}

#[test]
fn many_findings_are_told_together() {
    let mut bytes = Vec::new();
    for seq in 0..100 {
        let mut line = note(seq, "a");
        line[20] ^= u8::from(seq % 3 == 1);
        bytes.extend(line);
    }
    let medium = log(&[&bytes]);
    let source = source(&medium);
    assert_eq!(fold(&source).damage.len(), 33);
    let (told, _) = open(&source, &medium);
    assert_eq!(told.len(), 16);
    let lost: usize = told.iter().map(|told| told.lost.len()).sum();
    assert_eq!(lost, 33);
    let size = note(1, "a").len() as u64;
    let cut: u64 = told.iter().map(|told| told.cut_bytes).sum();
    assert_eq!(cut, 3 * size + 30 * (size + 1));
    check_healed(&source);
}

#[test]
fn what_cannot_be_read_goes_and_the_rest_stays() {
    let size = note(0, "a").len() as u64;
    let medium = log(&[&notes(0..9, "a"), &notes(9..12, "a")]);
    medium.spoil(0, 2 * size..4 * size);
    medium.seal(0);
    let source = source(&medium);
    assert_eq!(kinds(&fold(&source)), [DamageKind::Hole { first: 2, last: 3 }]);
    open(&source, &medium);
    assert_eq!(medium.bytes(0), [notes(0..2, "a"), notes(4..9, "a")].concat());
    check_healed(&source);
}

#[test]
fn of_an_inherited_segment_only_the_shared_part_is_mended() {
    let size = note(0, "a").len() as u64;
    let medium = log(&[&notes(0..9, "a"), &notes(5..7, "child")]);
    medium.spoil(0, size..2 * size);
    medium.spoil(0, 7 * size..8 * size);
    medium.seal(0);
    let source = Source { bounds: vec![4], ..source(&medium) };
    assert_eq!(kinds(&fold(&source)), [DamageKind::Hole { first: 1, last: 1 }]);
    open(&source, &medium);
    assert_eq!(medium.bytes(0), [note(0, "a"), notes(2..5, "a")].concat());
    assert_eq!(check_healed(&source).fold.next_seq(), 8);
}

#[test]
fn folding_goes_on_after_a_snapshot_that_fits() {
    let medium = log(&[&notes(0..5, "a"), &notes(5..9, "a")]);
    let source = source(&medium);
    let size = note(0, "a").len() as u64;
    let mut half = empty();
    (0..7).for_each(|seq| half.apply(&event(seq, "test/note", "{\"text\":\"a\"}")).unwrap());
    let sum = event(6, "test/note", "{\"text\":\"a\"}").encode().unwrap().1;
    let after = |offset, sum| Start::After {
        fold: half.clone(),
        place: Place { segment: 1, offset, bytes: 0, line: None },
        position: Position { seq: 6, sum },
    };
    let run = |start| fold_log(&source, start, &quiet()).unwrap();
    let folded = run(after(size, sum));
    assert_eq!((folded.folded, folded.fold.next_seq()), (2, 9));
    assert_eq!(folded.fold, fold(&source).fold);
    // Another record, or another place: everything is read.
    for folded in [run(after(size, sum ^ 1)), run(after(size + 1, sum)), run(after(0, sum))] {
        assert_eq!((folded.folded, folded.fold.next_seq()), (9, 9));
    }
    // The snapshot is of the end.
    let mut whole = half.clone();
    (7..9).for_each(|seq| whole.apply(&event(seq, "test/note", "{\"text\":\"a\"}")).unwrap());
    let (position, place) = fold(&source).last.unwrap();
    let folded = run(Start::After { fold: whole, place, position });
    assert_eq!((folded.folded, folded.last), (0, Some((position, place))));
    // A number below it stands there again: the histories begin before the snapshot.
    medium.put(1, &[notes(5..9, "a"), notes(3..11, "b")].concat());
    let folded = run(after(size, sum));
    assert_eq!(kinds(&folded), [DamageKind::Branch { first: 3, last: 8 }]);
    assert_eq!(folded.fold.next_seq(), 11);
}

#[test]
fn an_interrupted_plan_is_made_again() {
    let size = note(0, "a").len();
    let build = || {
        let mut first = notes(0..10, "a");
        first[3 * size + 9] ^= 1;
        let second = [notes(10..14, "a"), notes(10..17, "b"), notes(14..16, "a")].concat();
        let third = [notes(16..18, "a"), notes(17..25, "b"), b"torn".to_vec()].concat();
        log(&[&first, &second, &third])
    };
    let contents = |medium: &Memory| (0..3).map(|n| medium.bytes(n)).collect::<Vec<_>>();
    let medium = build();
    fold(&source(&medium)).plan.carry_out(&mut medium.hold()).unwrap();
    let expected = contents(&medium);
    let originals = contents(&build());
    let mut steps = 0;
    loop {
        let medium = build();
        let source = source(&medium);
        let mut held = medium.hold();
        held.steps = steps;
        let plan: Plan = fold(&source).plan;
        let is_done = plan.carry_out(&mut held).is_ok();
        fold(&source).plan.carry_out(&mut medium.hold()).unwrap();
        assert_eq!(contents(&medium), expected, "interrupted after {steps} steps");
        let kept = medium.kept.lock().unwrap();
        for original in &originals {
            assert!(kept.values().any(|bytes| bytes == original), "{steps}: an original is gone");
        }
        assert!(kept.keys().any(|name| name.starts_with("branch-10-")));
        if is_done {
            break;
        }
        steps += 1;
    }
    assert!(steps >= 6, "only {steps} steps");
}
